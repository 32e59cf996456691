"""Raydium's AMM v4: new pools and swaps.

Implements: interface, "Signal kinds", for program 675k...1Mp8. It has one-byte tags and no events; the account lists of
its swaps have two lengths, so the trader's accounts count from the end.
Pure.
"""

from collections.abc import Iterator

from actors.signals.observations import Observation, Reader
from actors.signals.pools import by_transfers, creation
from actors.signals.transaction import Transaction, known_key

PROGRAM = known_key("675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8")
_INITIALIZE2_BYTES, _INITIALIZE2_ACCOUNTS = 26, 21
_SWAP_BYTES = 17
_initialize2 = creation(pool=4, first=8, second=9, wallet=17)


def _create(transaction: Transaction, index: int) -> Iterator[Observation]:
    mine = transaction.instructions[index]
    if len(mine.data) >= _INITIALIZE2_BYTES and len(mine.accounts) >= _INITIALIZE2_ACCOUNTS:
        yield from _initialize2(transaction, index)


def _swap(transaction: Transaction, index: int) -> Iterator[Observation]:
    if len(transaction.instructions[index].data) >= _SWAP_BYTES:
        yield by_transfers(transaction, index, pool=1, wallet=-1, wallet_tokens=(-3, -2))


# By the first byte. 0x09, 0x0b: exact input, exact output; 0x10, 0x11: the same with a shorter list of accounts.
READERS: dict[bytes, Reader] = {b"\x01": _create, **dict.fromkeys((b"\t", b"\x0b", b"\x10", b"\x11"), _swap)}
