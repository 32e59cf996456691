"""The token accounts of a wallet, read from a node's answer in slices; and single accounts by their address.

Implements: getTokenAccountsByOwner and getMultipleAccounts with base64 and a slice; the fixed part that accounts of
both token programs begin with.
A shell, as Slices lets the event loop go on between two slices; it asks nobody.

A node has no pages: the answer about a wallet with 10,000 token accounts has 3.8 MB, and to read it at once would hold
the loop for 25 ms. So its rows are cut out in one pass of a compiled parser (2 ms), and decoded 250 at a time.
"""

import asyncio
import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import msgspec
from solders.pubkey import Pubkey

TOKEN_ACCOUNT_SLICE = {"offset": 0, "length": 129}  # Up to the delegated amount.
ROWS_PER_SLICE = 250  # Decoding a row takes 4 us.


@dataclass(frozen=True, slots=True)
class TokenAccount:
    """amount, delegated_amount: base units. mint, owner: the 32 bytes of a key."""

    address: str
    program: str
    mint: bytes
    owner: bytes
    amount: int
    delegate: str | None
    delegated_amount: int
    frozen: bool

    @property
    def key(self) -> bytes:
        """Return the bytes of the address, by which pages are sorted."""
        return bytes(Pubkey.from_string(self.address))


_Whole = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class _Context(msgspec.Struct):
    slot: _Whole


class _Data(msgspec.Struct):
    context: _Context
    value: list[msgspec.Raw]


class _Answer(msgspec.Struct):
    result: _Data


class _Account(msgspec.Struct):
    data: tuple[str, str]
    owner: str
    space: int | None = None


class _Row(msgspec.Struct):
    pubkey: str
    account: _Account


_ANSWERS = msgspec.json.Decoder(_Answer)
_ROWS = msgspec.json.Decoder(_Row)
_ACCOUNTS = msgspec.json.Decoder(_Account | None)
_DELEGATE_AT, _STATE_AT, _FROZEN, _DELEGATED_AT = 72, 108, 2, 121


class Slices:
    """Turns for pieces of work that take a millisecond or two. One begins in one round of the loop, whoever asks."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def turn(self) -> None:
        """Wait for the next round of the event loop in which no other caller has had a turn."""
        async with self._lock:
            await asyncio.sleep(0)


def rows_of(body: bytes) -> tuple[int, list[msgspec.Raw]]:
    """Read (slot, rows) of a whole answer with a list of accounts. Raises msgspec.DecodeError."""
    result = _ANSWERS.decode(body).result
    return result.context.slot, result.value


async def read_token_accounts(rows: list[msgspec.Raw], slices: Slices) -> list[TokenAccount]:
    """Read the rows of a getTokenAccountsByOwner. Raises msgspec.DecodeError or ValueError."""
    accounts: list[TokenAccount] = []
    for start in range(0, len(rows), ROWS_PER_SLICE):
        await slices.turn()
        accounts += map(_token_account, rows[start : start + ROWS_PER_SLICE])
    return accounts


def read_accounts(rows: Iterable[msgspec.Raw]) -> list[tuple[str, bytes, int] | None]:
    """Read (owner, first bytes, size) of each account of a getMultipleAccounts. None: it does not exist."""
    found: list[tuple[str, bytes, int] | None] = []
    for row in rows:
        account = _ACCOUNTS.decode(row)
        if account is None:
            found.append(None)
            continue
        data = base64.b64decode(account.data[0], validate=True)
        found.append((account.owner, data, len(data) if account.space is None else account.space))
    return found


def _token_account(raw: msgspec.Raw) -> TokenAccount:
    row = _ROWS.decode(raw)
    data = base64.b64decode(row.account.data[0], validate=True)
    if len(data) < _DELEGATED_AT + 8:
        raise ValueError("too short for a token account")
    delegated = data[_DELEGATE_AT : _DELEGATE_AT + 4] != bytes(4)
    return TokenAccount(
        address=row.pubkey,
        program=row.account.owner,
        mint=data[:32],
        owner=data[32:64],
        amount=int.from_bytes(data[64:72], "little"),
        delegate=str(Pubkey(data[_DELEGATE_AT + 4 : _STATE_AT])) if delegated else None,
        delegated_amount=int.from_bytes(data[_DELEGATED_AT : _DELEGATED_AT + 8], "little") if delegated else 0,
        frozen=data[_STATE_AT] == _FROZEN,
    )
