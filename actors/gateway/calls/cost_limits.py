"""X-Max-Credits: a request that can cost more than its client allows is refused before anything is held.

Implements: COSTS.md. Pure.

The ceiling of a call counts: of a sendAndConfirm its landing price, of a list the price of all its entries. A batch is
judged as a whole: if its ceilings add up to more, none of its calls runs. The price of a builder (calls/quoted.py) is
not known yet; it may be what the other calls of its request leave.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeVar

import msgspec

from actors.errors import Err, Refusal
from actors.gateway.calls.admission import PLANS, AdmittedCall, Plan, admit
from actors.gateway.calls.jsonrpc import NO_ID, BadCall, Call
from actors.gateway.calls.refused_work import cost_of_call

_DIGITS_MAX = 18
_MALFORMED = Refusal(Err.INVALID_REQUEST, "X-Max-Credits must be a whole number of credits, sent once")

AnyCall: TypeAlias = Call | BadCall | AdmittedCall
Calls: TypeAlias = list[Call | BadCall] | list[AdmittedCall | BadCall]
_One = TypeVar("_One", Call, AdmittedCall)


def within_limit(
    parsed: Call | BadCall | Calls, limit: bytes | None, plans: Mapping[str, Plan]
) -> Call | BadCall | Calls:
    """The calls of a request, if together they can cost at most this many credits; else each is a refusal.

    limit: the header as it was sent; None: the request has none. plans: of the callable methods, at their prices.
    """
    if isinstance(parsed, list):
        return batch_within_limit(parsed, limit, plans)
    return one_within_limit(parsed, limit, plans)


def batch_within_limit(calls: Calls, limit: bytes | None, plans: Mapping[str, Plan]) -> BadCall | Calls:
    """A BadCall in place of the whole batch: the header cannot be read."""
    if limit is None:
        return calls
    credits = parse_limit(limit)
    return BadCall(NO_ID, credits) if isinstance(credits, Refusal) else _limited(calls, credits, plans)  # type: ignore[type-var, return-value]


def one_within_limit(call: _One | BadCall, limit: bytes | None, plans: Mapping[str, Plan] = PLANS) -> _One | BadCall:
    if limit is None:
        return call
    credits = parse_limit(limit)
    return BadCall(call.id, credits) if isinstance(credits, Refusal) else _limited([call], credits, plans)[0]


def parse_limit(value: bytes) -> int | Refusal:
    text = value.strip()
    return int(text) if text.isdigit() and len(text) <= _DIGITS_MAX else _MALFORMED


def ceiling_of(call: AnyCall, plans: Mapping[str, Plan]) -> int:
    """Return the most that a call can cost; for a builder the least. 0: the call is refused for free."""
    verdict = admit(call, plans) if isinstance(call, Call) else call
    return verdict.plan.ceiling if isinstance(verdict, AdmittedCall) else 0


def _limited(calls: Sequence[_One | BadCall], credits: int, plans: Mapping[str, Plan]) -> list[_One | BadCall]:
    ceilings = [ceiling_of(call, plans) for call in calls]
    left = credits - sum(ceilings)
    if left < 0:
        over = Refusal(Err.MAX_CREDITS_EXCEEDED, f"{sum(ceilings)} credits, and {credits} are allowed")
        return [
            call if isinstance(call, BadCall) else BadCall(call.id, over, _work(call), _known(call, plans))
            for call in calls
        ]
    # What is left goes to a builder, as its price may be higher; without one to any call, as the account's price list
    # may turn out to be another one (account_prices.py).
    open_to_more = [at for at, call in enumerate(calls) if _is_quoted(call, plans)]
    limited: list[_One | BadCall] = []
    for at, (call, ceiling) in enumerate(zip(calls, ceilings, strict=True)):
        if isinstance(call, BadCall):
            limited.append(call)
            continue
        more = left if not open_to_more or at in open_to_more else 0
        most = ceiling + more
        if call.cost_max is not None:  # By another limit of the same request, which applies too.
            most = min(most, call.cost_max)
        limited.append(msgspec.structs.replace(call, cost_max=most))
        left -= more
    return limited


def _is_quoted(call: Call | BadCall | AdmittedCall, plans: Mapping[str, Plan]) -> bool:
    plan = plans.get(call.method) if isinstance(call, Call) else getattr(call, "plan", None)
    return plan is not None and plan.quoted


def _known(call: Call | AdmittedCall, plans: Mapping[str, Plan]) -> str:
    name = call.method if isinstance(call, Call) else call.plan.method
    return name if isinstance(call, AdmittedCall) or name in plans else ""


def _work(call: Call | AdmittedCall) -> int:
    """Return the work units of a call that its limit refuses; it was checked all the same."""
    return cost_of_call(call.method if isinstance(call, Call) else call.plan.method, call.params)
