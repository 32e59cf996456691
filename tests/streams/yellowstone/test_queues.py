"""What the queues of all clients may hold together, with real queues."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.streams.yellowstone.outbox import GeyserOutbox, StreamEnded
from actors.streams.yellowstone.queues import GeyserQueues

ACCOUNT_MAX, MAX, LARGEST = 300, 500, 100
STEPS = st.lists(st.tuples(st.integers(0, 7), st.sampled_from(("put", "put", "put", "next", "close"))), max_size=120)


@given(steps=STEPS, size=st.integers(1, LARGEST))
@pytest.mark.threat(30)
def test_no_account_and_no_replica_holds_more_than_its_limit(steps: list[tuple[int, str]], size: int) -> None:
    """Threat 30: whatever clients read. The bytes behind the first update of each queue are bounded after every
    step, one that has no such bytes is never ended, and nothing stays counted of queues that are gone."""

    async def play() -> None:
        queues = GeyserQueues(MAX, ACCOUNT_MAX)
        outboxes = [GeyserOutbox(1_000, 1 << 20, queues, b"%d" % (number // 3)) for number in range(8)]
        for number, step in steps:
            outbox, keeps_up = outboxes[number], {one for one in outboxes if not one.behind_bytes and not one.is_ended}
            if step == "put":
                outbox.put(1, b"", b"x" * size)
            elif step == "next" and outbox.waiting_bytes:
                await outbox.next()
            elif step == "close":
                outbox.close()
            ended = {one for one in keeps_up if one.is_ended}
            assert not ended or (step == "close" and ended == {outbox})
            assert queues.bytes == sum(one.behind_bytes for one in outboxes) <= MAX
            for account in range(3):
                assert sum(one.behind_bytes for one in outboxes[account * 3 : account * 3 + 3]) <= ACCOUNT_MAX
        for one in outboxes:
            one.close()
        assert (queues.bytes, queues.accounts) == (0, 0)

    asyncio.run(play())


@pytest.mark.parametrize(("of_others", "limit"), [(b"hog", "of this account's streams"), (b"other", "of all streams")])
@pytest.mark.threat(30)
async def test_the_stream_that_is_furthest_behind_ends_and_says_why(of_others: bytes, limit: str) -> None:
    """Threat 30: not the one whose update came when there was no room."""
    queues = GeyserQueues(350 if of_others == b"other" else 10_000, 350)
    hog, slow = GeyserOutbox(1_000, 1 << 20, queues, b"hog"), GeyserOutbox(1_000, 1 << 20, queues, of_others)
    for slot in range(4):
        hog.put(slot, b"", b"x" * 100)
    await hog.next()
    for slot in range(4):
        slow.put(slot, b"", b"x" * 60)
    assert hog.is_ended and not slow.is_ended
    with pytest.raises(StreamEnded, match=f"reads too slowly, 3[0-9]+ bytes {limit} wait; the last slot sent is 0"):
        await hog.next()
    assert queues.bytes == 180
