"""Large answers are joined beside the event loop, and stay the answers that they were."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from actors.upstream import replies
from actors.upstream.read_cache import COALESCED, MISS, marked
from actors.upstream.replies import Lease, NodeAnswer
from actors.upstream.whole_bodies import in_one_part, joined


def in_parts(answer: NodeAnswer, part_bytes: int) -> NodeAnswer:
    parts = [answer.body[start : start + part_bytes] for start in range(0, answer.size, part_bytes)]
    return msgspec.structs.replace(answer, first=parts[0], further=tuple(parts[1:]))


@pytest.mark.parametrize(("size", "is_in_thread"), [(5 << 20, True), (1 << 20, False)])
async def test_many_bytes_are_joined_in_a_thread(
    size: int, is_in_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few are joined at once, as a thread costs more. The memory that an answer has claimed goes along."""
    threads: list[object] = []

    async def in_thread(work: Callable[..., Any], *arguments: Any) -> Any:
        threads.append(work)
        return work(*arguments)

    monkeypatch.setattr(asyncio, "to_thread", in_thread)
    whole, lease = replies.made(b'"%b"' % (b"x" * size)), Lease(lambda: None)
    answer = await in_one_part(msgspec.structs.replace(in_parts(whole, 256 << 10), lease=lease))
    assert bool(threads) is is_in_thread
    assert not answer.further and answer.lease is lease
    assert answer.value() == whole.value() and answer.reply(b"7") == whole.reply(b"7")


async def test_what_is_in_one_part_stays_as_it_is() -> None:
    small = replies.made(b"1")
    assert await in_one_part(small) is small
    assert await joined([small.first]) is small.first


async def test_callers_who_share_an_answer_share_its_copy() -> None:
    """Each had one of its own: 128 look-ups of one large wallet took 2 GB. One who leaves takes it from nobody."""
    given_back: list[int] = []
    whole = replies.made(b'"%b"' % (b"x" * (3 << 20)))
    shared = msgspec.structs.replace(in_parts(whole, 1 << 20), lease=Lease(lambda: given_back.append(1)))
    leaving = asyncio.create_task(in_one_part(marked(shared, MISS)))
    await asyncio.sleep(0)
    leaving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await leaving
    other = asyncio.create_task(in_one_part(marked(shared, MISS)))
    second, first = await in_one_part(marked(shared, COALESCED)), await other
    assert first.first is second.first and first.value() == whole.value() and second.cache == COALESCED
    del shared, leaving, other, first
    await asyncio.sleep(0)  # The loop keeps the task of this round.
    assert not given_back
    del second
    assert given_back == [1]
