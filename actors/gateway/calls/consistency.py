"""X-Consistency: whether the reads of a request may step back behind the reads before it.

Implements: decisions, "Monotonic reads". Pure. A call carries the wish; pipeline.py asks for the view of the account
with its hold, and the nodes' client (upstream/) keeps it.
"""

from typing import TypeVar

import msgspec

from actors.errors import Err, Refusal
from actors.gateway.calls.admission import AdmittedCall
from actors.gateway.calls.cost_limits import Calls
from actors.gateway.calls.jsonrpc import NO_ID, BadCall, Call
from actors.methods.context_slots import CONSISTENCIES

ANY, MONOTONIC = CONSISTENCIES
MALFORMED = Refusal(Err.INVALID_REQUEST, f"X-Consistency must be {ANY} or {MONOTONIC}, sent once")
_WORDS = {ANY.encode(): False, MONOTONIC.encode(): True}
_One = TypeVar("_One", Call, AdmittedCall)


def parse_consistency(value: bytes) -> bool | Refusal:
    """Parse the header: whether it asks for monotonic reads. INVALID_REQUEST: it has another value."""
    return _WORDS.get(value.strip(), MALFORMED)


def is_malformed(value: bytes | None) -> bool:
    """Return whether the header has an unknown value. value: None: no header."""
    return value is not None and parse_consistency(value) is MALFORMED


def with_consistency(parsed: Call | BadCall | Calls, value: bytes | None) -> Call | BadCall | Calls:
    """The calls of a request, as its header has it. A BadCall in place of the whole request: the header cannot be read.

    value: as it was sent; None: the request has none.
    """
    if value is None:
        return parsed
    wanted = parse_consistency(value)
    if isinstance(wanted, Refusal):
        return BadCall(NO_ID if isinstance(parsed, list) else parsed.id, wanted)
    if not wanted:
        return parsed
    return all_monotonic(parsed) if isinstance(parsed, list) else one_monotonic(parsed)


def all_monotonic(calls: Calls) -> Calls:
    return [one_monotonic(call) for call in calls]  # type: ignore[return-value, type-var]


def one_monotonic(call: _One | BadCall) -> _One | BadCall:
    return call if isinstance(call, BadCall) else msgspec.structs.replace(call, monotonic=True)
