"""Token accounts and mints as a node shows them, read into the types of this context.

Implements: `jsonParsed` token accounts, and the byte layouts of token accounts and mints (the token programs' own).
Pure. Raises msgspec.DecodeError or ValueError for anything else; callers treat that as garbage.
"""

import base64
from dataclasses import dataclass
from typing import Annotated

import msgspec
from solders.pubkey import Pubkey

from actors.addresses import TOKEN_PROGRAMS

MINT_SLICE = {"offset": 0, "length": 45}  # Up to the decimals; a Token-2022 mint goes on with extensions.
_SUPPLY_AT, _DECIMALS_AT = 36, 44
_FROZEN = "frozen"


@dataclass(frozen=True, slots=True)
class Holding:
    """One token account. amount: base units. decimals, ui_amount_string: None where the node does not give them."""

    mint: str
    token_account: str
    program: str
    amount: int
    decimals: int | None
    ui_amount_string: str | None
    frozen: bool
    delegate: str | None


@dataclass(frozen=True, slots=True)
class Mint:
    supply: int
    decimals: int


_Byte = Annotated[int, msgspec.Meta(ge=0, le=255)]
# The most that orjson writes as a number is 64 bits; there are far fewer lamports than this.
_Whole = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class _Amount(msgspec.Struct):
    amount: str
    decimals: _Byte
    uiAmountString: str


class _Info(msgspec.Struct):
    mint: str
    tokenAmount: _Amount
    state: str = ""
    delegate: str | None = None


class _Parsed(msgspec.Struct):
    info: _Info


class _Data(msgspec.Struct):
    parsed: _Parsed


class _Account(msgspec.Struct):
    data: _Data | list[str]
    owner: str


class _Row(msgspec.Struct):
    pubkey: str
    account: _Account


class _Context(msgspec.Struct):
    slot: _Whole


class _Rows(msgspec.Struct):
    context: _Context
    value: list[_Row]


class _RawAccount(msgspec.Struct):
    data: list[str]
    owner: str
    lamports: _Whole


class _RawAccounts(msgspec.Struct):
    context: _Context
    value: list[_RawAccount | None]


class _ParsedAccounts(msgspec.Struct):
    context: _Context
    value: list[_Account | None]


_ROWS = msgspec.json.Decoder(_Rows)
_PARSED_ACCOUNTS = msgspec.json.Decoder(_ParsedAccounts)
_ACCOUNTS = msgspec.json.Decoder(_RawAccounts)


def read_holdings(result: bytes) -> tuple[int, list[Holding]]:
    """Read (slot, token accounts) of a getTokenAccountsByOwner with jsonParsed."""
    rows = _ROWS.decode(result)
    return rows.context.slot, [_holding(row) for row in rows.value]


def read_mints(result: bytes) -> list[Mint | None]:
    """Read the mints of a getMultipleAccounts with base64 and MINT_SLICE, in order. None: this address is no mint."""
    return [_mint(account) for account in _ACCOUNTS.decode(result).value]


def read_ui_amounts(result: bytes) -> list[str | None]:
    """Read the amounts that people see, of a getMultipleAccounts of token accounts with jsonParsed. None: unknown."""
    accounts = _PARSED_ACCOUNTS.decode(result).value
    return [
        None
        if account is None or isinstance(account.data, list)
        else account.data.parsed.info.tokenAmount.uiAmountString
        for account in accounts
    ]


def read_lamports(result: bytes) -> tuple[int, list[int]]:
    """Read (slot, lamports) of a getMultipleAccounts, in order. An account that does not exist has 0."""
    accounts = _ACCOUNTS.decode(result)
    return accounts.context.slot, [0 if account is None else account.lamports for account in accounts.value]


def _holding(row: _Row) -> Holding:
    data, program = row.account.data, row.account.owner
    if isinstance(data, list):  # The node could not parse it because its mint is gone; the fixed part is always there.
        return _unparsed(row.pubkey, program, base64.b64decode(data[0], validate=True))
    info = data.parsed.info
    held = info.tokenAmount
    amount = int(held.amount)
    return Holding(
        info.mint,
        row.pubkey,
        program,
        amount,
        held.decimals,
        held.uiAmountString,
        info.state == _FROZEN,
        info.delegate,
    )


def _unparsed(address: str, program: str, data: bytes) -> Holding:
    """Read the fields that accounts of both token programs begin with: mint, owner, amount, delegate, state."""
    if len(data) < 109:
        raise ValueError("too short for a token account")
    delegate = str(Pubkey(data[76:108])) if data[72:76] != bytes(4) else None
    amount = int.from_bytes(data[64:72], "little")
    return Holding(str(Pubkey(data[:32])), address, program, amount, None, None, data[108] == 2, delegate)


def _mint(account: _RawAccount | None) -> Mint | None:
    if account is None or account.owner not in TOKEN_PROGRAMS:
        return None
    data = base64.b64decode(account.data[0], validate=True)
    if len(data) <= _DECIMALS_AT:
        return None
    return Mint(int.from_bytes(data[_SUPPLY_AT:_DECIMALS_AT], "little"), data[_DECIMALS_AT])
