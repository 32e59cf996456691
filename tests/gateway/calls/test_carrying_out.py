"""One call that is held, to its end. What becomes of it when its caller leaves: test_callers_who_leave.py."""

from actors.accounts.api import OwnerUnavailable
from actors.calls import Figures, HoldReply
from actors.clock import ManualClock
from actors.gateway.calls.admission import AdmittedCall, admit
from actors.gateway.calls.cancelled_requests import CancelledRequests
from actors.gateway.calls.carrying_out import CarryingOut
from actors.gateway.calls.free_work import Reads
from actors.telemetry.metrics import Metrics
from tests.gateway.doubles import PUBKEY, OneAccount, ScriptedNode, a_call, node_error

OPERATION = b"replica0" + bytes(8)


def held_by(account: OneAccount) -> tuple[CarryingOut, AdmittedCall, HoldReply]:
    metrics, clock = Metrics(), ManualClock()
    node, cancelled = ScriptedNode(), CancelledRequests(account, clock, metrics)
    carrying = CarryingOut(account, node, Reads(node, clock), clock, {}, cancelled, metrics)
    call = admit(a_call("getBlock", 5))
    assert isinstance(call, AdmittedCall)
    account.held[OPERATION] = call.plan.ceiling
    return carrying, call, HoldReply(PUBKEY, 1, None, (None,), Figures(75, 100, 99, 1))


async def test_the_answer_leaves_with_its_charge() -> None:
    """Money rules 1 and 2."""
    account = OneAccount(100)
    carrying, call, held = held_by(account)
    reply = await carrying.call(call, OPERATION, held, 0, None)
    assert reply.answer is not None and reply.charge is not None and reply.credits_remaining == 75
    assert account.posted == {"getBlock": 25} and carrying.messages == reply.told == 1


async def test_an_answer_that_is_known_is_not_asked_for_again() -> None:
    """As of a call that was asked ahead by another price list: only its hold was missing."""
    account = OneAccount(100)
    carrying, call, held = held_by(account)
    known = AdmittedCall(call.id, call.plan, call.params, node_error(-32007, "skipped"))
    reply = await carrying.call(known, OPERATION, held, 0, None)
    assert reply.answer is known.answer and not carrying._node.calls  # type: ignore[attr-defined]


async def test_an_answer_whose_charge_is_not_known_is_withheld_and_voided() -> None:
    """Money rules 2 and 9."""
    account = OneAccount(100)
    carrying, call, held = held_by(account)

    async def away(request: object) -> None:
        raise OwnerUnavailable("the test says so")

    account.before_settle = away
    reply = await carrying.call(call, OPERATION, held, 0, None)
    assert (
        reply.answer is None and reply.refusal is not None and [one.operation for one in account.voided] == [OPERATION]
    )
