"""The accounts of a new chain, and its keys.

Implements: the salt of a chain that is created with `--seed`; faucet, identity and vote keys, which depend on seed and
salt alone; the USDC and wrapped-SOL mints, which the VM does not have; the tip accounts.
Pure: the salt is an argument.
"""

import hashlib
from dataclasses import dataclass

from solders.account import Account
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.token.state import Mint

from actors.devnode.encoding.addresses import (
    LAMPORTS_PER_SOL,
    NATIVE_DECIMALS,
    NATIVE_MINT,
    RENT_EPOCH_EXEMPT,
    SYSTEM_PROGRAM,
    TIP_ACCOUNTS,
    TOKEN_PROGRAM,
    USDC_DECIMALS,
    USDC_MINT,
)

SALT_BYTES = 32
# Well above 32, so that every commitment level has a slot from the start. Heights count from 0, so that tests fail
# where code confuses slots and heights.
FIRST_SLOT = 1_000
FAUCET_LAMPORTS = 500_000_000 * LAMPORTS_PER_SOL
IDENTITY_LAMPORTS = 100 * LAMPORTS_PER_SOL
TIP_ACCOUNT_LAMPORTS = 890_880  # Rent-exempt minimum of an account without data; a tip can then be 1 lamport.
_MINT_LAMPORTS = 1_461_600  # Rent-exempt minimum of 82 bytes.


@dataclass(frozen=True, slots=True)
class ChainKeys:
    faucet: Keypair
    identity: Keypair
    vote: Keypair


def seeded_salt(seed: int) -> bytes:
    """Derive the salt of a chain from its seed.

    Two chains of one seed have the same keys, and the same blockhashes while the same transactions land in the same
    slots. A transaction signed for one of them is valid on the other."""
    return hashlib.sha256(f"devnode salt {seed}".encode()).digest()


def chain_keys(seed: int, salt: bytes) -> ChainKeys:
    return ChainKeys(*(_derived(role, seed, salt) for role in ("faucet", "identity", "vote")))


def _derived(role: str, seed: int, salt: bytes) -> Keypair:
    assert len(salt) == SALT_BYTES, len(salt)
    return Keypair.from_seed(hashlib.sha256(f"devnode {role} {seed} ".encode() + salt).digest())


def genesis_accounts(keys: ChainKeys) -> list[tuple[Pubkey, Account]]:
    return [
        (keys.faucet.pubkey(), _wallet(FAUCET_LAMPORTS)),
        (keys.identity.pubkey(), _wallet(IDENTITY_LAMPORTS)),
        (USDC_MINT, _mint(USDC_DECIMALS, keys.faucet.pubkey())),
        (NATIVE_MINT, _mint(NATIVE_DECIMALS, None)),
        *((pubkey, _wallet(TIP_ACCOUNT_LAMPORTS)) for pubkey in TIP_ACCOUNTS),
    ]


def _wallet(lamports: int) -> Account:
    return Account(lamports, b"", SYSTEM_PROGRAM, False, RENT_EPOCH_EXEMPT)


def _mint(decimals: int, authority: Pubkey | None) -> Account:
    """A mint without a freeze authority, so that no test can depend on a frozen account by accident."""
    state = Mint(mint_authority=authority, supply=0, decimals=decimals, is_initialized=True, freeze_authority=None)
    return Account(_MINT_LAMPORTS, bytes(state), TOKEN_PROGRAM, False, RENT_EPOCH_EXEMPT)
