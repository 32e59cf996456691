"""The long reads of an owner are bounded, by account, in all, and in time."""

import asyncio
import itertools

import pytest

from actors.accounts import long_reads
from actors.accounts.long_reads import AT_ONCE_MAX, NOT_READ, LongReads
from actors.accounts.stored import StoreUnavailable
from actors.errors import Err, Refusal

ALICE = b"a" * 32


async def _written(pubkey: bytes) -> None:
    del pubkey


async def test_reads_are_bounded_for_an_account_and_for_the_owner() -> None:
    """Threat 35: what is over a bound is refused at once, and whatever ends makes place for another one."""
    reads, gate = LongReads(_written), asyncio.Event()

    async def read() -> list[int]:
        await gate.wait()
        return [1]

    waiting = [asyncio.create_task(reads.read("sums", 2, ALICE, read)) for _ in range(2)]
    waiting.append(asyncio.create_task(reads.read("listings", 1, ALICE, read)))  # Another kind has its own bound.
    others = (b"%032d" % number for number in itertools.count())
    waiting += [asyncio.create_task(reads.read("sums", 2, next(others), read)) for _ in range(AT_ONCE_MAX - 3)]
    await asyncio.sleep(0)
    assert await reads.read("sums", 2, ALICE, read) == Refusal(
        Err.CONCURRENCY_LIMITED, "at most 2 sums of an account are made at a time"
    )
    full = await reads.read("sums", 2, next(others), read)
    assert isinstance(full, Refusal) and full.err is Err.SERVICE_TEMPORARILY_UNAVAILABLE and "too many" in full.detail
    waiting.pop().cancel()  # Its asker has gone.
    await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(*waiting) == [[1]] * (AT_ONCE_MAX - 1)
    assert await reads.read("sums", 2, next(others), read) == [1]


@pytest.mark.parametrize("is_slow", [True, False])
async def test_a_read_that_fails_says_what_to_ask_instead(is_slow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer leaves before its asker gives up, and the read goes on for nobody."""
    monkeypatch.setattr(long_reads, "READ_SECONDS_MAX", 0.01)
    ended: list[str] = []

    async def read() -> list[int]:
        if not is_slow:
            raise StoreUnavailable("gone")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return []

    reads = LongReads(_written)
    for _ in range(3):
        assert await reads.read("sums", 1, ALICE, read) == NOT_READ
    assert ended == ["cancelled"] * (3 * is_slow) and "a shorter range" in NOT_READ.detail
