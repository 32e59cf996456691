"""Limits a request that comes with a payment to the calls that the payment buys.

Implements: decisions 3.6; the 402's edge cases (a batch, a call that is refused anyway); hostile input 51.
Pure. payments.py reads and settles the payment; the door answers.

No payment is taken for a request that is refused for free, whoever sends it.
"""

from collections.abc import Sequence
from typing import Any

from actors.errors import Err, Refusal
from actors.gateway.admission import AdmittedCall, admit
from actors.gateway.jsonrpc import BadCall, Call
from actors.gateway.pipeline import Replies, Reply

NOT_BOUGHT = Refusal(Err.INSUFFICIENT_CREDITS)  # Without a detail: the interface fixes the message.


def refused_for_free(parsed: Call | BadCall | Sequence[Call | BadCall]) -> Replies | None:
    """The replies to a request of which nothing could be charged; None when there is something to pay for."""
    calls = parsed if isinstance(parsed, Sequence) else (parsed,)
    refused: list[Reply] = []
    for call in calls:
        verdict = admit(call) if isinstance(call, Call) else call.refusal
        if not isinstance(verdict, Refusal):
            return None
        refused.append(Reply(call.id, None, verdict))
    return Replies(refused, None, None)


def within(calls: Sequence[Call | BadCall | AdmittedCall], credits: int) -> list[Any]:
    """The calls that a payment of so many credits buys; in place of each other call, a refusal for lack of credits.

    Counted in order and by their prices, so that the sum of what is charged cannot be more, whatever else the payer's
    account holds.
    """
    bought: list[Any] = []
    for call in calls:
        price = _price(call)
        if price > credits:
            bought.append(BadCall(call.id, NOT_BOUGHT))
        else:
            credits -= price
            bought.append(call)
    return bought


def _price(call: Call | BadCall | AdmittedCall) -> int:
    """The most that a call can cost; 0 where it is refused for free."""
    verdict = admit(call) if isinstance(call, Call) else call
    return verdict.plan.ceiling if isinstance(verdict, AdmittedCall) else 0
