"""Token accounts and mints: their values for the node, and their jsonParsed for clients.

Implements: the account layouts of the token programs (165-byte account, 82-byte mint, 355-byte multisig). With
Token-2022 extensions after it, the type byte tells an account from a mint.
Pure. Not here: jsonParsed of extensions (token_extensions.py), the index of token accounts (chain/indexes.py).
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from solders.account import Account
from solders.pubkey import Pubkey

from devnode.encoding.accounts import ui_token_amount
from devnode.encoding.addresses import (
    MINT_BYTES,
    MULTISIG_BYTES,
    NATIVE_DECIMALS,
    NATIVE_MINT,
    TOKEN_ACCOUNT_BYTES,
    TOKEN_PROGRAMS,
)
from devnode.parsing.bincode import key_at
from devnode.parsing.token_extensions import TOKEN_STATES, with_extensions

TYPE_OFFSET = TOKEN_ACCOUNT_BYTES  # With extensions, byte 165 is the account type.
TYPE_MINT = 1
TYPE_ACCOUNT = 2
_STATE_OFFSET = 108
_DECIMALS_OFFSET = 44
_MINT_INITIALIZED_OFFSET = 45
_NO_KEY = bytes(32)


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


def parse_token_account(data: bytes, decimals_of: Callable[[Pubkey], int | None]) -> dict[str, Any] | None:
    """Parse a token account, mint or multisig; None for other bytes and for a token account of an unknown mint."""
    if is_token_account(data):
        decimals = decimals_of(Pubkey.from_bytes(data[0:32]))
        return None if decimals is None else {"info": _account(data, decimals), "type": "account"}
    if is_mint(data):
        return {"info": _mint(data), "type": "mint"}
    if len(data) == MULTISIG_BYTES and data[2]:
        return {"info": _multisig(data), "type": "multisig"}
    return None


def _account(data: bytes, decimals: int) -> dict[str, Any]:
    info: dict[str, Any] = {
        "isNative": _has_option(data, 109),
        "mint": key_at(data, 0),
        "owner": key_at(data, 32),
        "state": TOKEN_STATES[data[108]] if data[108] < len(TOKEN_STATES) else TOKEN_STATES[0],
        "tokenAmount": ui_token_amount(_u64(data, 64), decimals),
    }
    if _has_option(data, 72):
        info["delegate"] = key_at(data, 76)
        info["delegatedAmount"] = ui_token_amount(_u64(data, 121), decimals)
    if _has_option(data, 109):
        info["rentExemptReserve"] = ui_token_amount(_u64(data, 113), decimals)
    if _has_option(data, 129):
        info["closeAuthority"] = key_at(data, 133)
    return with_extensions(info, data)


def _mint(data: bytes) -> dict[str, Any]:
    info: dict[str, Any] = {
        "decimals": data[44],
        "freezeAuthority": key_at(data, 50) if _has_option(data, 46) else None,
        "isInitialized": bool(data[45]),
        "mintAuthority": key_at(data, 4) if _has_option(data, 0) else None,
        "supply": str(mint_supply(data)),
    }
    return with_extensions(info, data)


def _multisig(data: bytes) -> dict[str, Any]:
    signers = [data[at : at + 32] for at in range(3, MULTISIG_BYTES, 32)]
    return {
        "isInitialized": bool(data[2]),
        "numRequiredSigners": data[0],
        "numValidSigners": data[1],
        "signers": [str(Pubkey.from_bytes(signer)) for signer in signers if signer != _NO_KEY],
    }


def _u64(data: bytes, at: int) -> int:
    (number,) = struct.unpack_from("<Q", data, at)
    return int(number)


def _has_option(data: bytes, at: int) -> bool:
    """Whether the four-byte option tag is set."""
    return data[at : at + 4] == b"\x01\x00\x00\x00"
