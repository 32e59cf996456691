"""What a subscription makes of notifications, whatever they hold."""

from typing import Any

import pytest
from hypothesis import given

from ledger_gateway.errors import BadAnswer, Denied
from ledger_gateway.signals import Signal, SignalGap
from ledger_gateway.subscriptions import QUEUE_MAX, Gap, NativeSubscription, Notification, SignalSubscription, slot_of

from .test_answers import VALUES


class Owner:
    def __init__(self) -> None:
        self.dropped: list[Any] = []

    def drop(self, subscription: Any) -> None:
        self.dropped.append(subscription)

    async def forget(self, subscription: Any) -> None:
        self.dropped.append(subscription)


async def _all(subscription: Any) -> list[Any]:
    subscription.end(None)
    return [event async for event in subscription]


@given(result=VALUES)
async def test_a_native_result_of_any_form_is_passed_on(result: Any) -> None:
    """Results are the node's; only the slot is looked for, and may be missing."""
    subscription = NativeSubscription(Owner(), "slotSubscribe", [])
    await subscription.take("slotNotification", result)
    await subscription.take("gapNotification", result)
    told, gap = await _all(subscription)
    assert isinstance(told, Notification) and isinstance(gap, Gap) and told.slot == slot_of(result)


@pytest.mark.parametrize("result", [{"context": {"slot": 7}, "value": 1}, {"slot": 7, "parent": 6}, 7])
async def test_slots_are_found_in_every_form_and_told_after_a_break(result: Any) -> None:
    subscription = NativeSubscription(Owner(), "x", [])
    await subscription.take("n", result)
    await subscription.broke()
    assert await _all(subscription) == [Notification(result, 7), Gap(7, None, "the connection was lost")]


async def test_a_signature_is_told_once() -> None:
    """The gateway ends this subscription itself; made anew after a break it would be told again."""
    owner = Owner()
    subscription = NativeSubscription(owner, "signatureSubscribe", ["sig"])
    await subscription.take("n", {"context": {"slot": 1}, "value": "receivedSignature"})
    assert owner.dropped == []
    await subscription.take("n", {"context": {"slot": 2}, "value": {"err": None}})
    assert owner.dropped == [subscription] and len([event async for event in subscription]) == 2


async def test_signals_go_on_behind_the_last_one() -> None:
    """`since` is the caller's at first, then the newest cursor; duplicates are left out; a gap moves the cursor."""
    subscription = SignalSubscription(Owner(), {"kinds": ["newPair"]}, None)
    subscription.continuity.cursor = "1-0"  # The log's end, for a break before the first signal.
    assert subscription.params == [{"kinds": ["newPair"]}]
    assert subscription.params == [{"kinds": ["newPair"], "since": "1-0"}]
    body = {"kind": "newPair", "program": "P", "signature": "S", "slot": 5, "mint": "M", "cursor": "2-0"}
    await subscription.take("signalNotification", body)
    await subscription.take("signalNotification", body)
    await subscription.take("signalNotification", {"gap": {"reason": "trimmed", "to_cursor": "9-0"}})
    assert subscription.params[0]["since"] == "9-0"
    first, gap = await _all(subscription)
    assert isinstance(first, Signal) and isinstance(gap, SignalGap)
    with pytest.raises(BadAnswer):
        await subscription.take("signalNotification", {"kind": 5})


async def test_an_error_comes_after_all_that_waits_also_in_a_full_queue() -> None:
    subscription = NativeSubscription(Owner(), "slotSubscribe", [])
    for slot in range(QUEUE_MAX):
        await subscription.take("n", slot)
    subscription.end(Denied("AUTH_FAILED", 401, "replaced"))
    told = []
    with pytest.raises(Denied):
        async for event in subscription:
            told.append(event)
    assert len(told) == QUEUE_MAX
