import pytest

from actors.errors import Err
from actors.gateway.calls.admission import PLANS, AdmittedCall, admit
from actors.gateway.calls.jsonrpc import Call
from actors.methods.catalog import METHODS
from actors.methods.prices import Availability
from actors.pricing_config import PricingConfig


def call(method: str, arguments: list | None = None) -> Call:
    return Call(b"1", method, b"[]", arguments or [])


@pytest.mark.threat(37)
def test_every_plan_has_a_whole_price_above_zero():
    """Threat 37: a method without a price is refused, never free."""
    assert PLANS
    for name, plan in PLANS.items():
        assert type(plan.ceiling) is int
        # Free on purpose: what became of a paid send, and what there is to buy.
        if name in ("getSendStatus", "rpc.discover"):
            assert plan.ceiling == METHODS[name].credits == 0
            continue
        assert plan.ceiling > 0
        price = PricingConfig().landing_credits if plan.deferred else METHODS[name].credits
        if plan.quoted:  # Its smallest price, which its own replaces before anything is held.
            price = PricingConfig().build_credits
        assert plan.items[0].ceiling == plan.ceiling == price
        assert plan.timeout_ms == METHODS[name].timeout_ms


@pytest.mark.threat(37)
def test_the_price_is_pinned_in_the_plan():
    """Threat 37: what is held for a call is what its plan said, whatever tables say later."""
    admitted = admit(call("getSlot"))
    assert isinstance(admitted, AdmittedCall)
    assert admitted.plan is PLANS["getSlot"]


@pytest.mark.parametrize(
    "method",
    [row.name for row in METHODS.values() if row.availability in (Availability.NOT_BUILT, Availability.ARCHIVE)],
)
def test_what_is_not_enabled_says_service_profile(method):
    """Interface: -32004 with a message that contains 'service' or 'profile'."""
    refusal = admit(call(method))
    assert refusal.err is Err.SERVICE_PROFILE_DISABLED
    assert "service profile" in refusal.message


def test_sends_are_marked():
    """The node acts on a send even when nobody waits for its answer."""
    assert {name for name, plan in PLANS.items() if plan.sends} == {
        *("sendTransaction", "sendSmartTransaction", "sendAndConfirm", "sendBundle"),
    }
    assert [name for name, plan in PLANS.items() if plan.deferred] == ["sendAndConfirm"]
