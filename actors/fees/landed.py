"""Reads the fees of landed transactions from blocks, and computes levels over several blocks.

Implements: README.md, "Landed transactions". Pure, in whole micro-lamports per compute unit.

A block is read without parsing it whole: of a busy block 5 MB are logs and balances, and parsing them holds the event
loop. It searches for two marks, and decodes only the text after them. Neither mark can occur inside a text of the JSON,
as each quote in a text has a backslash before it. A node that writes its JSON with spaces shows no mark, and its blocks
count as unreadable. The caller takes the transactions in slices.
"""

import base64
import binascii
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from solders.message import MessageV1
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from actors.addresses import COMPUTE_BUDGET_PROGRAM
from actors.fees.core import nearest_rank
from actors.methods.transactions import BASE64_CHARACTERS_MAX, written

BLOCKS_MAX = 16
TRANSACTIONS_MIN = 20  # Fewer show the choices of single senders. Then the node's figures for slots are better.
ACCOUNT_TRANSACTIONS_MIN = 3  # As PAID_SLOTS_MIN (core.py).
_TRANSACTION, _LOADED = b'"transaction":["', b'"loadedAddresses":{'
_COMPUTE_BUDGET = Pubkey.from_string(COMPUTE_BUDGET_PROGRAM)
_VOTE = Pubkey.from_string("Vote111111111111111111111111111111111111111")
_SET_PRICE, _SET_PRICE_BYTES = 3, 9  # The instruction's tag, and its length with the price.
_MICRO = 1_000_000
_SORTED_FROM = 32
_U64_MAX = (1 << 64) - 1


class UnreadableBlock(Exception):
    """The bytes are not a block in a node's form."""


class _Loaded(msgspec.Struct):
    writable: list[str]


_LOADED_DECODER = msgspec.json.Decoder(_Loaded)


class PaidPrice(NamedTuple):
    """One transaction. price: for a compute unit. writable: the accounts that it locks for writing."""

    price: int
    writable: list[bytes]


@dataclass(frozen=True, slots=True)
class BlockFees:
    """Prices of the transactions of one block, votes left out, of all and by the accounts that they lock."""

    slot: int
    prices: "array[int]" = field(default_factory=lambda: array("Q"))
    by_account: dict[bytes, "array[int]"] = field(default_factory=dict)

    def add(self, paid: PaidPrice) -> None:
        self.prices.append(paid.price)
        for key in paid.writable:
            known = self.by_account.get(key)
            if known is None:
                self.by_account[key] = array("Q", (paid.price,))
            else:
                known.append(paid.price)

    def put_in_order(self) -> None:
        """Sort the long lists once, so that later queries only merge sorted pieces."""
        for prices in (self.prices, *self.by_account.values()):
            if len(prices) > _SORTED_FROM:
                prices[:] = array("Q", sorted(prices))


def transactions_of(body: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield each transaction of a getBlock answer: its base64, and the JSON of the addresses that it loaded.

    The members of an object may have any order, but each transaction has both, so the n-th of one kind belongs to the
    n-th of the other. Raises UnreadableBlock where that is not so; what was yielded before must then be dropped.
    """
    end = end_of_loaded = 0
    while (start := body.find(_TRANSACTION, end)) >= 0:
        start += len(_TRANSACTION)
        end, loaded = body.find(b'"', start), body.find(_LOADED, end_of_loaded)
        end_of_loaded = body.find(b"}", loaded) + 1
        if end < 0 or loaded < 0 or not end_of_loaded or end - start > BASE64_CHARACTERS_MAX:
            raise UnreadableBlock
        yield body[start:end], body[loaded + len(_LOADED) - 1 : end_of_loaded]
    if body.find(_LOADED, end_of_loaded) >= 0:
        raise UnreadableBlock


def paid_by(encoded: bytes, loaded: bytes) -> PaidPrice | None:
    """Read one transaction. None: a vote, which pays no price. Raises UnreadableBlock."""
    try:
        transaction = VersionedTransaction.from_bytes(base64.b64decode(encoded, validate=True))
        writable = [bytes(key) for key in written(transaction)]
        writable += [bytes(Pubkey.from_string(key)) for key in _LOADED_DECODER.decode(loaded).writable]
        message = transaction.message
        keys = message.account_keys
        programs = [keys[instruction.program_id_index] for instruction in message.instructions]
    except (binascii.Error, ValueError, IndexError):
        raise UnreadableBlock from None
    if programs == [_VOTE]:
        return None
    return PaidPrice(_price(transaction, programs), writable)


def _price(transaction: VersionedTransaction, programs: Sequence[Pubkey]) -> int:
    message = transaction.message
    if isinstance(message, MessageV1):  # Version 1 names its whole priority fee in lamports, and no price.
        units = message.config.compute_unit_limit or 0
        return min((message.config.priority_fee or 0) * _MICRO // units, _U64_MAX) if units else 0
    if _COMPUTE_BUDGET in programs:
        for program, instruction in zip(programs, message.instructions, strict=True):
            data = instruction.data
            if program == _COMPUTE_BUDGET and len(data) >= _SET_PRICE_BYTES and data[0] == _SET_PRICE:
                return int.from_bytes(data[1:_SET_PRICE_BYTES], "little")
    return 0


# --- levels


def within(blocks: Iterable[BlockFees], window_slots: int) -> list[BlockFees]:
    """Select the blocks of the last `window_slots` slots, up to the newest of them."""
    held = list(blocks)
    newest = max((block.slot for block in held), default=0)
    return [block for block in held if block.slot > newest - window_slots]


class LevelsOfAll:
    """Levels of all transactions of some blocks, whose prices are merged once for many queries."""

    def __init__(self) -> None:
        self._slots: list[int] = []
        self._prices: list[int] = []

    def levels(self, blocks: Sequence[BlockFees], percents: Mapping[str, int], empty_as_zero: bool) -> dict[str, int]:
        slots = [block.slot for block in blocks]
        if slots != self._slots:
            self._slots, self._prices = slots, sorted(price for block in blocks for price in block.prices)
        zeros = sum(not block.prices for block in blocks) if empty_as_zero else 0
        prices = [0] * zeros + self._prices if zeros else self._prices
        return {name: nearest_rank(prices, percent) for name, percent in percents.items()}


def levels_of_account(
    blocks: Sequence[BlockFees], account: bytes, percents: Mapping[str, int], empty_as_zero: bool
) -> tuple[int, dict[str, int]]:
    """Return how many transactions locked the account for writing, and the levels of what they paid.

    No levels: there were too few of them to say what the lock costs.
    """
    parts = [block.by_account.get(account) or () for block in blocks]
    count = sum(map(len, parts))
    if count < ACCOUNT_TRANSACTIONS_MIN:
        return count, {}
    return count, _levels(parts, percents, empty_as_zero)


def _levels(parts: Sequence[Sequence[int]], percents: Mapping[str, int], empty_as_zero: bool) -> dict[str, int]:
    """Compute the levels. empty_as_zero: a block without such a transaction counts as one that paid nothing."""
    prices = [price for part in parts for price in part]
    if empty_as_zero:
        prices += [0] * sum(not part for part in parts)
    prices.sort()
    return {name: nearest_rank(prices, percent) for name, percent in percents.items()}


def highest(found: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return each level's highest figure, as a transaction needs room in the block and all locks of its accounts."""
    every = [levels for levels in found if levels]
    return {name: max(levels[name] for levels in every) for name in every[0]}
