"""Guards that large requests are worked on one at a time, in slices, with other work in between."""

import asyncio
import base64

import pytest

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
