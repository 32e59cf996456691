"""Guards that large requests are worked on one at a time, in slices, with other work in between."""

import asyncio
import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import Err, Refusal
from actors.gateway.calls import large_requests
from actors.gateway.calls.admission import PLANS, AdmittedCall
from actors.gateway.calls.jsonrpc import BadCall
from actors.gateway.calls.large_requests import LARGE_BYTES, SLICE_BYTES, TOO_MANY, LargeRequests, cost_of_work
from actors.gateway.calls.outcomes import Replies, Reply
from tests.gateway.doubles import TRANSACTION, a_call

HERE, THERE = "192.0.2.1", "192.0.2.2"


async def test_of_many_large_requests_one_is_worked_on_in_a_round_of_the_loop():
    """Threat 61: 400 bodies that arrive in the same moment must not hold the loop together."""
    large, rounds, done_in = LargeRequests(), 0, []

    async def work() -> None:
        done_in.append(rounds)

    tasks = [asyncio.ensure_future(large.run(HERE, 100_000, work)) for _ in range(20)]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        rounds += 1
    assert len(done_in) == 20 and len(set(done_in)) == 20


async def test_the_calls_of_a_large_batch_are_checked_in_slices():
    """Rule: other requests get their turn after SLICE_BYTES of parameters, as checking transactions is dear."""
    calls = [a_call("sendTransaction", TRANSACTION) for _ in range(100)]
    size = sum(len(call.params) for call in calls)
    assert size > LARGE_BYTES
    rounds, task = 0, asyncio.ensure_future(LargeRequests().admitted(lambda: HERE, calls, PLANS))
    while not task.done():
        await asyncio.sleep(0)
        rounds += 1
    assert rounds >= size // (SLICE_BYTES + len(calls[0].params))
    assert len(await task) == 100


async def test_small_requests_do_not_wait_for_large_ones():
    """Rule: a batch below LARGE_BYTES is admitted in the same turn, also while a large request is worked on."""
    large = LargeRequests()
    stuck = asyncio.ensure_future(large.run(HERE, 1, asyncio.Event().wait))
    await asyncio.sleep(0)
    small = large.admitted(lambda: HERE, [a_call("getSlot"), BadCall(b"1", Refusal(Err.INVALID_REQUEST))], PLANS)
    with pytest.raises(StopIteration) as stopped:
        small.send(None)
    first, second = stopped.value.value
    assert isinstance(first, AdmittedCall) and isinstance(second, BadCall)
    stuck.cancel()


async def test_what_waits_is_bounded_in_all_and_for_each_name():
    """Rule: the bodies that wait have a bound in bytes, and a refused one leaves nothing behind."""
    large = LargeRequests(waiting_bytes_max=100, name_bytes_max=60)
    hold, done = asyncio.Event(), asyncio.Event()
    done.set()
    held = asyncio.ensure_future(large.run(HERE, 50, hold.wait))
    await asyncio.sleep(0)
    assert await large.run(HERE, 20, done.wait) == TOO_MANY
    other = asyncio.ensure_future(large.run(THERE, 50, done.wait))
    await asyncio.sleep(0)
    assert await large.run("192.0.2.3", 1, done.wait) == TOO_MANY
    hold.set()
    assert await held is True and await other is True
    assert await large.run(HERE, 60, done.wait) is True


async def test_a_call_is_admitted_once(monkeypatch):
    """Rule: a door may have calls admitted to learn their prices; the pipeline does not check them again."""
    large, calls = LargeRequests(), [a_call("getSlot"), a_call("invented")]
    ends = await large.admitted(lambda: HERE, calls, PLANS)
    monkeypatch.setattr(large_requests, "admit", None)
    assert await large.admitted(lambda: HERE, ends, PLANS) == ends


def test_refused_calls_cost_what_they_were_to_check_and_admitted_ones_nothing():
    """Threat 61: of a batch, the work on its refused calls counts, and that on its good calls is paid for."""
    text = base64.b64encode(bytes(1_232)).decode()
    bad = large_requests.admitted(a_call("sendTransaction", text, {"encoding": "base64"}), PLANS)
    good = large_requests.admitted(a_call("sendTransaction", TRANSACTION, {"encoding": "base64"}), PLANS)
    assert isinstance(bad, BadCall) and isinstance(good, AdmittedCall)
    refused, answered = Reply(b"1", None, Refusal(Err.INVALID_PARAMS)), Reply(b"1", None, None)
    assert cost_of_work([bad, good], Replies([refused, answered], None, None)) == bad.cost == 10
    assert cost_of_work([bad, good], Replies([], Refusal(Err.AUTH_FAILED), None)) == 20


async def test_accounts_take_turns():
    """Threat 61: who sends one large request waits for one of each other sender, and not for all of them."""
    large, done = LargeRequests(), []

    async def work(name: str) -> None:
        done.append(name)

    senders = [HERE] * 20 + [THERE]
    tasks = [asyncio.ensure_future(large.run(name, 1_000, lambda name=name: work(name))) for name in senders]
    await asyncio.gather(*tasks)
    assert done.index(THERE) <= 2 and len(done) == 21


async def test_a_request_that_is_cancelled_gives_its_turn_away():
    """Rule: it may be cancelled while it waits, and in the moment in which it gets its turn."""
    large, hold = LargeRequests(), asyncio.Event()
    first = asyncio.ensure_future(large.run(HERE, 1, hold.wait))
    await asyncio.sleep(0)
    early, late, last = [asyncio.ensure_future(large.run(HERE, 1, hold.wait)) for _ in range(3)]
    await asyncio.sleep(0)
    early.cancel()
    hold.set()
    await first
    late.cancel()
    assert await last is True and early.cancelled() and late.cancelled()
    assert await large.run(HERE, large_requests.NAME_WAITING_BYTES_MAX, hold.wait) is True


_STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 7), st.integers(1, 256)), max_size=200)


@pytest.mark.threat(61)
@given(steps=_STEPS)
def test_eight_senders_leave_room_for_a_ninth(steps):
    """Threat 61: whatever eight accounts send and in which order it ends, a third of the room is free, so that the
    ninth gets several requests of the largest size in. No account holds more than its bound."""

    async def play() -> None:
        room, most = 64 * 256, 8 * 256
        large, under_way = LargeRequests(room, most), {name: [] for name in range(8)}
        for comes, name, size in [*steps, *((True, name, 256) for name in range(8) for _ in range(40))]:
            if comes:
                task = asyncio.ensure_future(large.run(str(name), size, asyncio.Event().wait))
                await asyncio.sleep(0)
                if not task.done():
                    under_way[name].append((size, task))
            elif under_way[name]:
                task = under_way[name].pop()[1]
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        held = [sum(size for size, _ in sent) for sent in under_way.values()]
        assert max(held) <= most and sum(held) <= room * 2 // 3
        ninth = [asyncio.ensure_future(large.run("ninth", 256, asyncio.Event().wait)) for _ in range(2)]
        await asyncio.sleep(0)
        assert not any(task.done() for task in ninth)
        for task in (*ninth, *(task for sent in under_way.values() for _, task in sent)):
            task.cancel()
        await asyncio.sleep(0)

    asyncio.run(play())
