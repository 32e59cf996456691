"""Admits calls that may be tried at all, by the method's row in the catalog and by its parameters.

Implements: interface specification, "Method classes and credits", rules 1, 2 and 8; design, section 4, step 2;
hostile inputs 13 and 37.
Pure. Every refusal here is free: it comes before anything is held.
"""

from types import MappingProxyType

import msgspec

from actors import catalog
from actors.calls import HoldItem
from actors.catalog import Availability, MethodClass, MethodRow
from actors.errors import Err, Refusal
from actors.gateway import params
from actors.gateway.jsonrpc import Call
from actors.gateway.params_values import shown

_NAME_SHOWN_MAX = 64
_SENDING = frozenset((MethodClass.SEND, MethodClass.SEND_AND_CONFIRM, MethodClass.SEND_BUNDLE))

# The interface lists this refusal twice: with the code of a denied method, and as HTTP 403 METHOD_NOT_ALLOWED.
FORBIDDEN = Refusal(Err.METHOD_NOT_ALLOWED, "requestAirdrop is not offered here; no chain served here has a faucet")


class Plan(msgspec.Struct, frozen=True):
    """What the pipeline needs to know of a callable method. ceiling: its price, fixed when a call is held."""

    method: str
    ceiling: int
    timeout_ms: int
    items: tuple[HoldItem, ...]
    sends: bool  # The node acts on it even when nobody waits for the answer.


class AdmittedCall(msgspec.Struct, frozen=True):
    id: bytes
    plan: Plan
    params: bytes


def _plan(row: MethodRow) -> Plan:
    assert isinstance(row.credits, int) and row.credits > 0, f"{row.name}: a callable method needs a price"
    item = HoldItem(row.name, row.credits)
    return Plan(row.name, row.credits, row.timeout_ms, (item,), row.method_class in _SENDING)


PLANS: MappingProxyType[str, Plan] = MappingProxyType(
    {row.name: _plan(row) for row in catalog.METHODS.values() if row.callable}
)


def admit(call: Call) -> AdmittedCall | Refusal:
    """Admit a call, or refuse it: METHOD_NOT_FOUND, METHOD_NOT_ALLOWED, SERVICE_PROFILE_DISABLED or INVALID_PARAMS."""
    plan = PLANS.get(call.method)
    if plan is None:
        return _why_not(call.method)
    checked = params.check(call.method, call.arguments, call.params)
    return checked if isinstance(checked, Refusal) else AdmittedCall(call.id, plan, checked)


def _why_not(method: str) -> Refusal:
    row = catalog.METHODS.get(method)
    if row is None:
        return Refusal(Err.METHOD_NOT_FOUND, shown(method, _NAME_SHOWN_MAX))
    if row.availability is Availability.FORBIDDEN:
        return FORBIDDEN
    if row.availability is Availability.DENIED:
        return Refusal(Err.METHOD_NOT_FOUND, f"{method} is not offered by this service")
    return Refusal(Err.SERVICE_PROFILE_DISABLED, method)
