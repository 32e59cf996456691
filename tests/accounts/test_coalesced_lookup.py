"""Many questions about deposits, asked of the store together."""

import asyncio
from collections.abc import Sequence

import pytest

from actors.accounts.coalesced_lookup import CoalescedLookup
from actors.accounts.stored import Credited, StoreUnavailable
from tests.accounts.memory_store import MemoryAccountStore

FOUND = Credited(b"p" * 32, 5, False, False, 0, 0)


class Counting(MemoryAccountStore):
    def __init__(self) -> None:
        super().__init__()
        self.questions: list[int] = []
        self.away = False
        self.known: dict[bytes, Credited] = {}

    async def find_deposits(self, operations: Sequence[bytes]) -> dict[bytes, Credited]:
        self.questions.append(len(operations))
        known = dict(self.known)
        await asyncio.sleep(0)
        if self.away:
            raise StoreUnavailable("nobody listens")
        return {operation: known[operation] for operation in operations if operation in known}


async def test_who_asks_at_once_is_answered_at_once() -> None:
    store = Counting()
    store.known[b"7"] = FOUND
    finds = CoalescedLookup(store.find_deposits)
    answers = await asyncio.gather(*(finds.find(b"%d" % (number % 10)) for number in range(100)))
    assert store.questions == [10]
    assert [answer is FOUND for answer in answers] == [number % 10 == 7 for number in range(100)]


async def test_a_question_under_way_takes_nobody_in() -> None:
    """Its answer may be older than what they know: a deposit written meanwhile would be credited again."""
    store = Counting()
    finds = CoalescedLookup(store.find_deposits)
    first = asyncio.create_task(finds.find(b"1"))
    for _ in range(2):
        await asyncio.sleep(0)
    assert store.questions == [1]
    store.known[b"1"] = FOUND
    assert await finds.find(b"1") is FOUND
    assert await first is None and store.questions == [1, 1]


async def test_a_store_that_is_away_is_told_to_all_and_asked_again() -> None:
    store = Counting()
    store.away = True
    finds = CoalescedLookup(store.find_deposits)
    for ended in await asyncio.gather(*(finds.find(b"%d" % number) for number in range(3)), return_exceptions=True):
        assert isinstance(ended, StoreUnavailable)
    store.away = False
    assert await finds.find(b"1") is None


async def test_an_asker_who_leaves_stops_nobody() -> None:
    store = Counting()
    finds = CoalescedLookup(store.find_deposits)
    first, second = (asyncio.create_task(finds.find(b"1")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second is None
    with pytest.raises(asyncio.CancelledError):
        await first
