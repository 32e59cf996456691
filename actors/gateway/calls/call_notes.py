"""Notes calls that ended here, for the log that their account can read.

Implements: decisions, "Log of calls". On the path of every answer, so it costs less than a microsecond for a call, and
awaits nothing. A call is noted where its account's owner has confirmed the credential: a stranger's calls, and those
that this replica refuses before it asks, belong to nobody's log. Not here: who keeps the notes (actors/call_log/).
"""

from collections.abc import Awaitable, Sequence

from actors.call_log.core import NODE_ERROR, RESULT, RecentCalls
from actors.clock import Clock
from actors.gateway.calls.admission import AdmittedCall
from actors.gateway.calls.jsonrpc import BadCall
from actors.gateway.calls.large_requests import AnyCall
from actors.gateway.calls.outcomes import Replies
from actors.request_ids import current
from actors.upstream.replies import AnswerKind

_RESULT = AnswerKind.RESULT


class CallNotes:
    """recent: None where no log is kept."""

    def __init__(self, recent: RecentCalls | None, clock: Clock) -> None:
        self._recent, self._clock = recent, clock

    def noted(self, done: Replies, calls: Sequence[AnyCall], began: float) -> Replies:
        """Record the calls of these replies in the log, and return the replies. began: monotonic seconds."""
        payer, recent = done.payer, self._recent
        if payer is None or recent is None:
            return done
        room = recent.room_of(payer.pubkey, len(calls))
        if room is None:
            return done
        figures, ended_at = done.figures, self._clock.monotonic()
        shared = (
            payer.key,
            ended_at - began,
            ended_at,
            current(),
            figures is not None and figures.credits_remaining > 0,
        )
        whole = done.refusal
        for at, call in enumerate(calls):
            reply = None if whole is not None else done.items[at]
            refused = whole if reply is None else reply.refusal
            method = call.plan.method if type(call) is AdmittedCall else call.method if type(call) is BadCall else ""
            if refused is not None:
                room.append((shared, method, refused.err.name, 0))
            elif reply is not None:
                charge, answer = reply.charge, reply.answer
                credits = reply.posted if charge is None else charge.charged
                is_result = answer is not None and answer.kind is _RESULT
                room.append((shared, method, RESULT if is_result else NODE_ERROR, credits))
        return done

    async def noting(self, work: Awaitable[Replies], calls: Sequence[AnyCall]) -> Replies:
        """Wait for the replies, and record them."""
        began = self._clock.monotonic()
        return self.noted(await work, calls, began)
