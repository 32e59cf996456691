"""The accounts of a new chain, and its keys.

Implements: the salt of a chain that is created with `--seed`; the keys of the faucet and of each leader, which depend
on seed and salt alone; the leaders' wallets and vote accounts; the USDC and wrapped-SOL mints, which the VM does not
have; the tip accounts.
Pure: the salt is an argument.
"""

import hashlib
from dataclasses import dataclass

from solders.account import Account
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.token.state import Mint

from devnode.encoding.addresses import (
    LAMPORTS_PER_SOL,
    NATIVE_DECIMALS,
    NATIVE_MINT,
    RENT_EPOCH_EXEMPT,
    SYSTEM_PROGRAM,
    TIP_ACCOUNTS,
    TOKEN_PROGRAM,
    USDC_DECIMALS,
    USDC_MINT,
    VOTE_PROGRAM,
)

SALT_BYTES = 32
# Well above 32, so that every commitment level has a slot from the start. Heights count from 0, so that tests fail
# where code confuses slots and heights.
FIRST_SLOT = 1_000
FAUCET_LAMPORTS = 500_000_000 * LAMPORTS_PER_SOL
IDENTITY_LAMPORTS = 100 * LAMPORTS_PER_SOL
TIP_ACCOUNT_LAMPORTS = 890_880  # Rent-exempt minimum of an account without data; a tip can then be 1 lamport.
_MINT_LAMPORTS = 1_461_600  # Rent-exempt minimum of 82 bytes.


_VOTE_BYTES = 3_762  # VoteState::size_of().
_VOTE_LAMPORTS = 27_074_400  # Rent-exempt minimum of it.
_VOTE_VERSION = (2).to_bytes(4, "little")  # VoteStateVersions::Current.
_NO_PRIOR_VOTERS = bytes(32 * 48) + (31).to_bytes(8, "little") + b"\x01"


@dataclass(frozen=True, slots=True)
class Birth:
    """The initial state of a new chain."""

    salt: bytes
    accounts: list[tuple[Pubkey, Account]]
    unix_time: int


@dataclass(frozen=True, slots=True)
class LeaderKeys:
    identity: Keypair
    vote: Keypair


@dataclass(frozen=True, slots=True)
class ChainKeys:
    faucet: Keypair
    identity: Keypair  # Identity of this node, which is leader number 0.
    vote: Keypair
    others: tuple[LeaderKeys, ...] = ()  # Leaders 1 and up.

    @property
    def leaders(self) -> tuple[LeaderKeys, ...]:
        return (LeaderKeys(self.identity, self.vote), *self.others)


def seeded_salt(seed: int) -> bytes:
    """Derive the salt of a chain from its seed.

    Two chains of one seed have the same keys, and the same blockhashes while the same transactions land in the same
    slots. A transaction signed for one of them is valid on the other."""
    return hashlib.sha256(f"devnode salt {seed}".encode()).digest()


def chain_keys(seed: int, salt: bytes, leaders: int = 1) -> ChainKeys:
    others = tuple(
        LeaderKeys(_derived(f"identity {number}", seed, salt), _derived(f"vote {number}", seed, salt))
        for number in range(1, leaders)
    )
    faucet, identity, vote = (_derived(role, seed, salt) for role in ("faucet", "identity", "vote"))
    return ChainKeys(faucet, identity, vote, others)


def _derived(role: str, seed: int, salt: bytes) -> Keypair:
    assert len(salt) == SALT_BYTES, len(salt)
    return Keypair.from_seed(hashlib.sha256(f"devnode {role} {seed} ".encode() + salt).digest())


def genesis_accounts(keys: ChainKeys) -> list[tuple[Pubkey, Account]]:
    return [
        (keys.faucet.pubkey(), _wallet(FAUCET_LAMPORTS)),
        (USDC_MINT, _mint(USDC_DECIMALS, keys.faucet.pubkey())),
        (NATIVE_MINT, _mint(NATIVE_DECIMALS, None)),
        *((pubkey, _wallet(TIP_ACCOUNT_LAMPORTS)) for pubkey in TIP_ACCOUNTS),
        *leader_accounts(keys),
    ]


def leader_accounts(keys: ChainKeys) -> list[tuple[Pubkey, Account]]:
    """The wallet and the vote account of each leader."""
    return [
        account
        for leader in keys.leaders
        for account in (
            (leader.identity.pubkey(), _wallet(IDENTITY_LAMPORTS)),
            (leader.vote.pubkey(), _vote_account(leader.identity.pubkey())),
        )
    ]


def _vote_account(identity: Pubkey) -> Account:
    """A vote account as it is right after its creation: votes are invented, so it never has one."""
    owner = bytes(identity)
    no_votes, no_root, no_credits, no_timestamp = bytes(8), b"\x00", bytes(8), bytes(16)
    voters = (1).to_bytes(8, "little") + bytes(8) + owner  # One authorized voter, from epoch 0 on.
    state = _VOTE_VERSION + owner + owner + b"\x00" + no_votes + no_root + voters + _NO_PRIOR_VOTERS
    data = (state + no_credits + no_timestamp).ljust(_VOTE_BYTES, b"\x00")
    return Account(_VOTE_LAMPORTS, data, VOTE_PROGRAM, False, RENT_EPOCH_EXEMPT)


def _wallet(lamports: int) -> Account:
    return Account(lamports, b"", SYSTEM_PROGRAM, False, RENT_EPOCH_EXEMPT)


def _mint(decimals: int, authority: Pubkey | None) -> Account:
    """A mint without a freeze authority, so that no test can depend on a frozen account by accident."""
    state = Mint(mint_authority=authority, supply=0, decimals=decimals, is_initialized=True, freeze_authority=None)
    return Account(_MINT_LAMPORTS, bytes(state), TOKEN_PROGRAM, False, RENT_EPOCH_EXEMPT)
