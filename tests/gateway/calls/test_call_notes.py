"""Which ended calls are noted, and as what; and that a note keeps nothing of a call."""

import asyncio
import gc
import weakref

from actors.call_log.core import RecentCalls
from actors.calls import Figures, ProvenProof
from actors.clock import ManualClock
from actors.errors import Err, Refusal
from actors.gateway.calls.admission import PLANS, AdmittedCall
from actors.gateway.calls.call_notes import CallNotes
from actors.gateway.calls.jsonrpc import BadCall, Call
from actors.gateway.calls.outcomes import Replies, Reply
from actors.request_ids import work_for
from actors.upstream.replies import AnswerKind, NodeAnswer
from tests.gateway.world import a_world, call

PAYER, FIGURES = ProvenProof(b"a" * 32, 7), Figures(5, 1, 1, 1)
SLOT = AdmittedCall(b"1", PLANS["getSlot"], b"[]")


def noted_of(done: Replies, *calls: AdmittedCall | BadCall | Call) -> list[tuple[str, str, int]]:
    recent, clock = RecentCalls(), ManualClock()
    assert CallNotes(recent, clock).noted(done, calls, clock.monotonic()) is done
    return [tuple(one[1:]) for _, calls in recent.take() for one in calls]  # type: ignore[misc]


def replies(*items: Reply, refusal: Refusal | None = None, payer: ProvenProof | None = PAYER) -> Replies:
    return Replies(items, refusal, FIGURES, 5, payer)


def test_an_outcome_is_the_nodes_answer_or_the_refusal() -> None:
    result, fault = (Reply(b"1", NodeAnswer(kind, b"{}", 0, 0), None, posted=3) for kind in list(AnswerKind)[:2])
    refused = Reply(b"1", None, Refusal(Err.TIMEOUT))
    assert noted_of(replies(result, fault, refused), SLOT, SLOT, SLOT) == [
        ("getSlot", "result", 3),
        ("getSlot", "node_error", 3),
        ("getSlot", "TIMEOUT", 0),
    ]


def test_a_request_that_is_refused_whole_is_noted_for_each_of_its_calls() -> None:
    bad = BadCall(b"1", Refusal(Err.INVALID_PARAMS), 0, "getBlock")
    done = replies(refusal=Refusal(Err.METHOD_NOT_ALLOWED))
    assert noted_of(done, SLOT, bad) == [(name, "METHOD_NOT_ALLOWED", 0) for name in ("getSlot", "getBlock")]


def test_a_caller_that_nobody_has_confirmed_has_no_log() -> None:
    assert noted_of(replies(refusal=Refusal(Err.AUTH_FAILED), payer=None), SLOT) == []


def test_a_note_keeps_no_answer() -> None:
    """Answers may be large, and a second of them would be much memory."""

    class Watched(NodeAnswer, frozen=True, weakref=True):
        pass

    recent, clock = RecentCalls(), ManualClock()
    answer = Watched(AnswerKind.RESULT, b"x" * 1_000, 0, 0)
    gone = weakref.ref(answer)
    CallNotes(recent, clock).noted(replies(Reply(b"1", answer, None)), (SLOT,), 0.0)
    del answer
    gc.collect()
    assert gone() is None and len(recent.take()) == 1


async def test_a_call_whose_client_left_is_in_the_log_where_it_ran_to_its_end() -> None:
    """Sends with a key go on without their client."""
    recent, clock = RecentCalls(), ManualClock()
    notes, began = CallNotes(recent, clock), asyncio.Event()

    async def work() -> Replies:
        began.set()
        clock.advance(2)
        return replies(Reply(b"1", None, Refusal(Err.TIMEOUT)))

    work_for("r-5")
    await notes.noting(work(), (SLOT,))
    ((_, ((shared, *_),)),) = recent.take()
    assert (shared[0], shared[1], shared[3]) == (7, 2.0, "r-5")


async def test_calls_of_every_way_through_the_pipeline_are_noted_once() -> None:
    """Held first, asked ahead, refused before the hold, refused by the owner."""
    recent = RecentCalls()
    async with a_world(recent=recent) as world:
        wallet = await world.customer(3)
        for method, params in (("getSlot", ()), ("getSlot", ()), ("getSlot", ("x", 1, 2)), ("getBlock", (5,))):
            await world.rpc(wallet, call(method, *params))
        ((pubkey, noted),) = recent.take()
        assert pubkey == wallet.pubkey
        assert [one[2] for one in noted] == ["result", "result", "INVALID_PARAMS", "INSUFFICIENT_CREDITS"]
