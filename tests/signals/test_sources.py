"""What sources say when they end, and how one waits for them."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence

import pytest

from actors.signals.sources import SlotSeen, SlotsGone, SlotState, SourceUnavailable, Update, with_pauses


def test_lost_slots_name_the_first_one_that_is_left() -> None:
    assert SlotsGone(7).first == 7 and "7" in str(SlotsGone(7))


async def _batches(*kinds: str) -> AsyncGenerator[Sequence[Update], None]:
    for kind in kinds:
        if kind == "silent":
            await asyncio.Event().wait()
        if kind == "broken":
            raise SourceUnavailable("broken")
        yield [SlotSeen(len(kind), None, SlotState.PROCESSED)]


@pytest.mark.parametrize("seconds", [None, 60.0])
async def test_batches_pass_with_and_without_pauses_to_their_end(seconds: float | None) -> None:
    told = [batch async for batch in with_pauses(_batches("a", "bb"), lambda: seconds)]
    assert [[update.slot for update in batch or ()] for batch in told] == [[1], [2]]
    with pytest.raises(SourceUnavailable):
        assert [batch async for batch in with_pauses(_batches("a", "broken"), lambda: seconds)] == []


async def test_a_silent_source_gives_pauses_and_is_closed_with_its_reader() -> None:
    async with contextlib.aclosing(with_pauses(_batches("a", "silent"), lambda: 0.0)) as told:
        while (batch := await anext(told)) is None:
            pass
        assert [update.slot for update in batch] == [1]
        assert await anext(told) is None and await anext(told) is None
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
