"""Admits calls that may be tried at all, by the method's row in the catalog and by its parameters.

Implements: interface, "Method classes and credits", rules 1, 2 and 8; design, "One billed call", step 2;
threats 13 and 37.
Pure. Every refusal here is free: it comes before anything is held.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType

import msgspec

from actors.calls import PUBLIC_PRICES, HoldItem
from actors.errors import Err, Refusal
from actors.gateway.calls.jsonrpc import Call
from actors.methods import assets, catalog, prices
from actors.methods import rules as params
from actors.methods.entries import MethodRow
from actors.methods.price_lists import PriceList
from actors.methods.prices import Availability, MethodClass
from actors.methods.values import shown
from actors.pricing_config import PricingConfig
from actors.upstream.replies import NodeAnswer

_NAME_SHOWN_MAX = 64
_SENDING = frozenset((MethodClass.SEND, MethodClass.SEND_AND_CONFIRM, MethodClass.SEND_BUNDLE))

# The interface lists this refusal twice: with the code of a denied method, and as HTTP 403 METHOD_NOT_ALLOWED.
FORBIDDEN = Refusal(
    Err.METHOD_NOT_ALLOWED,
    "requestAirdrop is not offered here",
    hint="on the embedded chain `python -m devnode fund PUBKEY --sol 1` gives SOL; elsewhere a wallet sends it",
)


# Methods whose handlers need the caller.
CALLER_METHODS = tuple(row.name for row in catalog.METHODS.values() if row.for_caller)


class Plan(msgspec.Struct, frozen=True):
    """A callable method as the pipeline carries it out. ceiling: its price, fixed when a call is held.

    price_list: of which its prices are. None: of none, and they hold for every account: a payment has bought the call.
    pieces: of how many equal parts the price is the sum. public: the same at the public prices; None: this is it.
    """

    method: str
    ceiling: int
    timeout_ms: int
    items: tuple[HoldItem, ...]
    sends: bool  # True: the node acts on the call even when nobody waits for the answer.
    # True: another process executes the call and ends its hold, even if this process dies.
    deferred: bool = False
    takes_key: bool = False  # True: honours an Idempotency-Key, because the method moves money.
    # True: the price is found before the hold (calls/quoted.py); until then the ceiling is the smallest price.
    quoted: bool = False
    asks_node: bool = False  # True: one request to a node answers the call, and its caller does not matter.
    cached_ceiling: int = 0  # Price of an answer from the cache; 0: the same.
    base: int = 0  # For a deferred call: price if it does not land.
    price_list: str | None = PUBLIC_PRICES
    pieces: int = 1
    public: "Plan | None" = None


class AdmittedCall(msgspec.Struct, frozen=True):
    """answer: known before the hold, of a quoted call. credits_max, cost_max: as in Call. sent: the parameters as the
    client wrote them; empty: as in params. monotonic: as in Call."""

    id: bytes
    plan: Plan
    params: bytes
    answer: NodeAnswer | None = None
    credits_max: int | None = None
    cost_max: int | None = None
    sent: bytes = b""
    monotonic: bool = False


def _plan(row: MethodRow, pricing: PricingConfig) -> Plan:
    deferred, quoted = (row.method_class is kind for kind in (MethodClass.SEND_AND_CONFIRM, MethodClass.TRADE_BUILD))
    credits = pricing.landing_credits if deferred else pricing.build_credits if quoted else row.credits
    base = min(pricing.base_credits, pricing.landing_credits) if deferred else 0
    is_free = row.method_class in prices.FREE
    assert isinstance(credits, int) and (credits > 0 or is_free), f"{row.name}: a callable method needs a price"
    item = HoldItem(row.name, credits)
    sends = row.method_class in _SENDING
    takes_key = sends or row.method_class is MethodClass.TRADE_BUILD
    asks_node = row.availability is Availability.NODE and not (sends or deferred or quoted or row.for_caller)
    kind = sends, deferred, takes_key, quoted, asks_node
    cached = cached_of(credits, pricing) if asks_node else 0
    return Plan(row.name, credits, row.timeout_ms, (item,), *kind, cached, base)


def cached_of(credits: int, pricing: PricingConfig) -> int:
    """Return the price of a cached answer to a call of this price; 0: it has none of its own."""
    cached = max(1, -(-credits * pricing.cached_percent // 100))
    return cached if cached < credits else 0


def listed(plan: Plan, prices: PriceList, pricing: PricingConfig) -> Plan:
    """Return the plan at the prices of this list."""
    public = plan.public or plan
    if prices.name == PUBLIC_PRICES:
        return public
    method, base = public.method, 0
    if public.deferred:
        ceiling, base = prices.landing(method, public.ceiling, public.base)
    else:
        ceiling = prices.credits(method, public.ceiling // public.pieces) * public.pieces
    items = (HoldItem(method, ceiling, public.items[0].takes_unit),)
    cached = cached_of(ceiling, pricing) if public.asks_node else 0
    return msgspec.structs.replace(
        public,
        ceiling=ceiling,
        items=items,
        cached_ceiling=cached,
        base=base,
        price_list=prices.name,
        public=public,
    )


def prices_of_outcome(plan: Plan) -> tuple[int, ...]:
    """Return the price of a call that does not land, for its handler, where it differs from the public price."""
    return (plan.base,) if plan.deferred and plan.public is not None else ()


def plans(
    pricing: PricingConfig, callers: Collection[str] = CALLER_METHODS, relay: bool = True
) -> MappingProxyType[str, Plan]:
    """Of every callable method, at these prices. callers: those of CALLER_METHODS that somebody here answers; no node
    has them, so the others must not be sold. relay: whether there is a block engine."""
    rows = [
        row
        for row in catalog.METHODS.values()
        if row.callable and (relay or row.availability is not Availability.RELAY)
    ]
    return MappingProxyType(
        {row.name: _plan(row, pricing) for row in rows if row.name in callers or row.name not in CALLER_METHODS}
    )


PLANS = plans(PricingConfig())


def admit(call: Call, plans: Mapping[str, Plan] = PLANS) -> AdmittedCall | Refusal:
    """Admit a call, or refuse it: METHOD_NOT_FOUND, METHOD_NOT_ALLOWED, SERVICE_PROFILE_DISABLED or INVALID_PARAMS."""
    plan = plans.get(call.method)
    if plan is None:
        return _why_not(call.method)
    checked = params.check(call.method, call.arguments, call.params)
    if isinstance(checked, Refusal):
        return checked
    return AdmittedCall(call.id, plan, checked, None, call.credits_max, call.cost_max, call.params, call.monotonic)


def _why_not(method: str) -> Refusal:
    row = catalog.METHODS.get(method)
    if method in assets.NEED_AN_INDEX:
        return Refusal(
            Err.METHOD_NOT_FOUND, f"{method} needs an index over the whole chain, which this service has not"
        )
    if row is None:
        return Refusal(Err.METHOD_NOT_FOUND, shown(method, _NAME_SHOWN_MAX))
    if row.availability is Availability.FORBIDDEN:
        return FORBIDDEN
    if row.availability is Availability.DENIED:
        return Refusal(Err.METHOD_NOT_FOUND, f"{method} is not offered by this service")
    return Refusal(Err.SERVICE_PROFILE_DISABLED, method)
