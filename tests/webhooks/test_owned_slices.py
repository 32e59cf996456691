"""One suite for both stores: a dispatcher that has lost a slice changes nothing of it any more."""

from typing import Any

import pytest

from actors.webhooks.core import JobState
from actors.webhooks.slices import SOURCES_SLICE, slice_of
from actors.webhooks.store import SliceTaken, SourceCursor

from .memory_store import ALL
from .test_store import ALICE, BOB, NOW, claim, hook, queue, result, states

Two = tuple[Any, Any, Any]


async def test_each_dispatcher_leases_and_counts_what_is_of_its_slices(two: Two) -> None:
    first, second, move = two
    await hook(first)
    await hook(first, BOB)
    await queue(first, 3)
    await queue(first, 2, BOB)
    assert slice_of(ALICE) != slice_of(BOB) != SOURCES_SLICE
    await move([slice_of(BOB)])
    assert {job.pubkey for job in await claim(first)} == {ALICE}
    assert {job.pubkey for job in await claim(second)} == {BOB}
    await first.pause([ALICE, BOB], NOW, NOW)
    await second.pause([BOB], NOW, NOW)
    assert await first.debts(NOW, NOW + 9, 9) == [ALICE] and await second.debts(NOW, NOW + 9, 9) == [BOB]
    assert (await first.figures())[::2] == (3, 1) and (await second.figures())[::2] == (2, 1)


async def test_late_writes_of_a_dispatcher_that_was_cut_off_are_refused(two: Two) -> None:
    """Its successor sends the same jobs again, under other leases; nothing of the former one is kept."""
    first, second, move = two
    name = await hook(first)
    await queue(first, 2)
    early = await claim(first)
    await move(ALL)
    assert await second.recover(ALL, NOW) == 2
    again = await claim(second)
    assert [job.id for job in again] == [job.id for job in early] and {job.lease for job in again} == {2}
    stale = [job._replace(lease=2) for job in early]  # Even with the lease of its successor.
    await first.finish([result(job, JobState.DELIVERED) for job in stale], NOW)
    await first.release([job.id for job in early], NOW)
    await first.put_off([job.id for job in early], NOW + 9_999, NOW)
    await first.pause([ALICE], NOW, NOW)
    assert await first.recover(ALL, NOW) == 0 and await claim(first, NOW + 9_000) == []
    assert await states(second, name) == [JobState.LEASED, JobState.LEASED]
    assert await second.debts(NOW, NOW, 9) == [] and await first.debts(NOW, NOW, 9) == []
    await second.finish([result(job, JobState.DELIVERED) for job in again], NOW)
    assert await states(first, name) == [JobState.DELIVERED, JobState.DELIVERED]


async def test_whoever_has_lost_the_sources_takes_in_nothing(two: Two) -> None:
    """Neither events nor cursors, and it ends no job of others."""
    first, second, move = two
    await hook(first)
    await queue(first)
    await move([SOURCES_SLICE])
    for late in (
        first.queue([], NOW, SourceCursor(slot=7)),
        first.take_account_events(9, NOW),
        first.expire(NOW + 1, NOW),
        first.forget(NOW + 1),
    ):
        with pytest.raises(SliceTaken):
            await late
    assert await second.cursor() == SourceCursor(None, None)
    assert (await first.figures()).waiting == 1
    await second.queue([], NOW, SourceCursor(slot=7))
    assert await first.cursor() == SourceCursor(7, None)


async def test_a_debt_is_settled_by_the_owner_of_its_account_alone(two: Two) -> None:
    first, second, move = two
    await hook(first)
    await queue(first)
    (job,) = await claim(first)
    await first.finish([result(job, JobState.UNPAID)], NOW)
    await move([slice_of(ALICE)])
    with pytest.raises(SliceTaken):
        await first.paid(ALICE, [job.id])
    assert [number for number, _ in await second.unpaid(ALICE, 9)] == [job.id]
    assert await second.paid(ALICE, [job.id])


async def test_what_another_has_claimed_is_lost_by_a_look(two: Two) -> None:
    """Before holds are released: those of the next owner have the same names."""
    first, _, move = two
    await move([slice_of(ALICE)])
    await first.confirm()
    assert first._held.epoch(slice_of(ALICE)) is None and first._held.epoch(slice_of(BOB)) is not None
