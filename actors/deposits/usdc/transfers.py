"""Token transfers into the deposit account, read from a getTransaction result (encoding `json`).

Implements: money rule 4; threat 23. Layouts: the Token program's Transfer, TransferChecked and Batch.
Pure. Reads every place where a transfer can be executed: outer instructions, inner instructions (called by programs),
and the items of a batch, which run without a call of their own. core.py decides whether a transfer earns credits.

The index of a transfer is its place: the number of the outer instruction, of the inner one below it (0: the outer one
itself) and of the batch item. It stays the same when a later version recognises more instructions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import base58
from solders.pubkey import Pubkey
from solders.token.associated import get_associated_token_address

from actors.addresses import TOKEN_PROGRAM

_TRANSFER, _TRANSFER_CHECKED, _BATCH = 3, 12, 255
_TRANSFER_BYTES, _TRANSFER_CHECKED_BYTES = 9, 10
_INNER_BITS = _ITEM_BITS = 12
_OUTER_MAX, _INNER_MAX, _ITEM_MAX = 254, (1 << _INNER_BITS) - 1, (1 << _ITEM_BITS) - 1


class DepositAccount(NamedTuple):
    """The account that receives deposits: the associated token account of the deposit wallet (Token program)."""

    address: str
    wallet: str
    mint: str


@dataclass(frozen=True, slots=True)
class Transfer:
    """One executed transfer into the deposit account."""

    index: int
    amount: int  # Base units.
    source: str
    authority: str
    is_wallet: bool  # The authority signed the transaction. Otherwise it is a program's own address or a multisig.


@dataclass(frozen=True, slots=True)
class Executed:
    """The part of a successful transaction that concerns the deposit account."""

    slot: int
    block_time: int | None
    transfers: tuple[Transfer, ...]
    moved_out: int  # Base units that transfers took from the deposit account, even back to itself.
    delta: int | None  # Change of its balance; None: the node does not give it.


class Unreadable(Exception):
    """The result does not have the form of a node's answer; the text says where."""


def deposit_account(wallet: str, mint: str) -> DepositAccount:
    """Derive the deposit account. Raises ValueError when a text is not a public key."""
    owner, token = Pubkey.from_string(wallet), Pubkey.from_string(mint)
    return DepositAccount(str(get_associated_token_address(owner, token)), wallet, mint)


def transfer_index(outer: int, inner: int = 0, item: int = 0) -> int:
    """Compute an index. inner: from 1, among the inner instructions; 0: the outer one itself. item: in a batch."""
    if not (0 <= outer <= _OUTER_MAX and 0 <= inner <= _INNER_MAX and 0 <= item <= _ITEM_MAX):
        raise Unreadable(f"instruction {outer}.{inner}.{item} is beyond what one transaction can hold")
    return (outer << (_INNER_BITS + _ITEM_BITS)) | (inner << _ITEM_BITS) | item


def place_of(index: int) -> str:
    """Write an index as text: `2` is an outer instruction, `2.1` the first that it called, `2.1[3]` its fourth item."""
    outer, inner, item = index >> (_INNER_BITS + _ITEM_BITS), (index >> _ITEM_BITS) & _INNER_MAX, index & _ITEM_MAX
    return f"{outer}" + (f".{inner}" if inner else "") + (f"[{item}]" if item else "")


def failure_of(transaction: Mapping[str, Any]) -> Any:
    """Return the chain's error, or None where the transaction succeeded. Raises Unreadable."""
    meta = transaction.get("meta")
    if not isinstance(meta, dict):
        raise Unreadable("meta is missing")
    return meta.get("err")


def read(transaction: Mapping[str, Any], account: DepositAccount) -> Executed:
    """Read the transfers of a transaction, a getTransaction result with encoding `json`. Raises Unreadable."""
    try:
        return _read(transaction, account)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error


def _read(transaction: Mapping[str, Any], account: DepositAccount) -> Executed:
    meta, message = transaction["meta"], transaction["transaction"]["message"]
    loaded = meta.get("loadedAddresses") or {}
    keys = [*message["accountKeys"], *loaded.get("writable", ()), *loaded.get("readonly", ())]
    signers = frozenset(keys[: message["header"]["numRequiredSignatures"]])
    transfers: list[Transfer] = []
    moved_out = 0
    for index, data, accounts in _token_instructions(message["instructions"], meta.get("innerInstructions"), keys):
        moved = _moved(data, accounts)
        if moved is None:
            continue
        amount, mint, source, destination, authority = moved
        if source == account.address:
            moved_out += amount
        if destination == account.address and mint in (None, account.mint):
            transfers.append(Transfer(index, amount, source, authority, authority in signers))
    delta = _delta(meta, keys, account)
    return Executed(transaction["slot"], transaction.get("blockTime"), tuple(transfers), moved_out, delta)


def _token_instructions(
    outers: Sequence[Any], inners: Sequence[Any] | None, keys: Sequence[str]
) -> Iterator[tuple[int, bytes, list[str]]]:
    """Yield index, data and accounts of each instruction of the Token program, in the order of execution."""
    below: dict[int, Sequence[Any]] = {row["index"]: row["instructions"] for row in inners or ()}
    for outer, instruction in enumerate(outers):
        for inner, each in enumerate((instruction, *below.get(outer, ()))):
            if keys[each["programIdIndex"]] != TOKEN_PROGRAM:
                continue
            data = base58.b58decode(each["data"])
            accounts = [keys[number] for number in each["accounts"]]
            if data[:1] == bytes((_BATCH,)):
                for item, (part, taken) in enumerate(_batch_items(data, accounts)):
                    yield transfer_index(outer, inner, item), part, taken
            else:
                yield transfer_index(outer, inner), data, accounts


def _batch_items(data: bytes, accounts: list[str]) -> Iterator[tuple[bytes, list[str]]]:
    """Yield the items of a batch. Each has a count of accounts, a length and its data; all accounts follow."""
    at, taken = 1, 0
    while at < len(data):
        count, length = data[at], data[at + 1]
        yield data[at + 2 : at + 2 + length], accounts[taken : taken + count]
        at, taken = at + 2 + length, taken + count


def _moved(data: bytes, accounts: Sequence[str]) -> tuple[int, str | None, str, str, str] | None:
    """Return (amount, mint or None, source, destination, authority). None: not a transfer."""
    if data[:1] == bytes((_TRANSFER,)) and len(data) >= _TRANSFER_BYTES:
        source, destination, authority = accounts[:3]
        return int.from_bytes(data[1:9], "little"), None, source, destination, authority
    if data[:1] == bytes((_TRANSFER_CHECKED,)) and len(data) >= _TRANSFER_CHECKED_BYTES:
        source, mint, destination, authority = accounts[:4]
        return int.from_bytes(data[1:9], "little"), mint, source, destination, authority
    return None


def _delta(meta: Mapping[str, Any], keys: Sequence[str], account: DepositAccount) -> int | None:
    """Return the change of the deposit account's balance. An account that did not exist before had 0."""
    after = _balance(meta.get("postTokenBalances"), keys, account)
    if after is None:
        return None
    return after - (_balance(meta.get("preTokenBalances"), keys, account) or 0)


def _balance(rows: Sequence[Any] | None, keys: Sequence[str], account: DepositAccount) -> int | None:
    for row in rows or ():
        if keys[row["accountIndex"]] == account.address and row["mint"] == account.mint:
            if row.get("owner", account.wallet) != account.wallet:
                continue  # The account has another owner now, so this is no deposit.
            if row.get("programId", TOKEN_PROGRAM) != TOKEN_PROGRAM:
                continue
            return int(row["uiTokenAmount"]["amount"])
    return None
