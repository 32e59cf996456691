"""Reads token accounts and mints: owner, amount, decimals, supply.

Implements: the account layouts of the token programs (165-byte account, 82-byte mint, 355-byte multisig). With
Token-2022 extensions after it, the type byte tells an account from a mint. Pure.
Not here: jsonParsed (token_accounts.py), the index of token accounts (chain/indexes.py).
"""

from dataclasses import dataclass

from solders.account import Account
from solders.pubkey import Pubkey

from devnode.encoding.addresses import (
    MINT_BYTES,
    MULTISIG_BYTES,
    NATIVE_DECIMALS,
    NATIVE_MINT,
    TOKEN_ACCOUNT_BYTES,
    TOKEN_PROGRAMS,
)

TYPE_OFFSET = TOKEN_ACCOUNT_BYTES  # With extensions, byte 165 is the account type.
TYPE_MINT = 1
TYPE_ACCOUNT = 2
_STATE_OFFSET = 108
_DECIMALS_OFFSET = 44
_MINT_INITIALIZED_OFFSET = 45


@dataclass(frozen=True, slots=True)
class Holding:
    mint: Pubkey
    owner: Pubkey
    delegate: Pubkey | None
    amount: int
    program: Pubkey


def is_token_account(data: bytes) -> bool:
    """Whether the bytes are an initialized token account; the caller has checked the owning program."""
    size = len(data)
    if size != TOKEN_ACCOUNT_BYTES and (size <= TOKEN_ACCOUNT_BYTES or size == MULTISIG_BYTES):
        return False
    if size > TOKEN_ACCOUNT_BYTES and data[TYPE_OFFSET] != TYPE_ACCOUNT:
        return False
    return data[_STATE_OFFSET] != 0


def is_mint(data: bytes) -> bool:
    size = len(data)
    if size != MINT_BYTES and (size <= TOKEN_ACCOUNT_BYTES or size == MULTISIG_BYTES or data[TYPE_OFFSET] != TYPE_MINT):
        return False
    return data[_MINT_INITIALIZED_OFFSET] != 0


def holding(account: Account | None) -> Holding | None:
    """Read a token account; None for every other account."""
    if account is None:
        return None
    program = account.owner
    if program not in TOKEN_PROGRAMS:
        return None
    data = account.data
    if not is_token_account(data):
        return None
    delegate = Pubkey.from_bytes(data[76:108]) if data[72:76] == b"\x01\x00\x00\x00" else None
    return Holding(
        mint=Pubkey.from_bytes(data[0:32]),
        owner=Pubkey.from_bytes(data[32:64]),
        delegate=delegate,
        amount=int.from_bytes(data[64:72], "little"),
        program=program,
    )


def mint_decimals(mint: Pubkey, account: Account | None) -> int | None:
    """Decimals of a mint; None if the account is not an initialized mint."""
    if mint == NATIVE_MINT:
        return NATIVE_DECIMALS
    if account is None or account.owner not in TOKEN_PROGRAMS:
        return None
    data = account.data
    return data[_DECIMALS_OFFSET] if is_mint(data) else None


def mint_supply(data: bytes) -> int:
    return int.from_bytes(data[36:44], "little")
