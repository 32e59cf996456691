"""Events of open streams by the price list of their account: exactly, and by another list from its next hold on.

Rule: decisions, "Price lists"; money rules 1 and 10. By the public prices: test_meters.py.
"""

from math import floor

from hypothesis import given
from hypothesis import strategies as st

from actors.calls import OTHER_PRICES, ProvenProof
from actors.clock import ManualClock
from actors.errors import Refusal
from actors.metering.allowance import HELD_CREDITS_MAX
from actors.metering.meters import HeldCharge, Meters
from actors.methods.price_lists import PriceList
from tests.gateway.doubles import PROOF, PUBKEY, REPLICA, OneAccount
from tests.metering.test_meters import NAME, Stream, _quiet

LISTS = {name: PriceList(name, percent) for name, percent in (("cheap", 30), ("dear", 250), ("same", 100))}


def meters_of(owner: OneAccount, clock: ManualClock) -> Meters:
    return Meters(owner, clock, REPLICA, lists=LISTS)


async def test_notifications_cost_their_percentage_to_the_hundredth() -> None:
    """30 % of a tenth of a credit each: 1,000 of them cost 30, and not 1,000 that are rounded up one by one."""
    for name, events, cost in (("cheap", 1_000, 30), ("dear", 100, 25), ("same", 100, 10), ("gone", 100, 10)):
        owner = OneAccount(10_000)
        owner.price_list = name
        meters = meters_of(owner, ManualClock())
        stream = Stream(meters.open(ProvenProof(PUBKEY), NAME))
        assert await stream.spend(events) == events and stream.ended is None
        assert [one.price_list for one in owner.holds][:2] == ["", name]
        stream.meter.leave(stream)
        await meters.stop()
        assert owner.posted == {NAME: cost} and owner.held == {}


async def test_a_list_that_changes_counts_when_credits_are_held_again_and_posts_what_was_delivered() -> None:
    """What is held was held by the former list; ten seconds later nothing is."""
    owner, clock = OneAccount(10_000), ManualClock()
    owner.price_list = "cheap"
    meters = meters_of(owner, clock)
    stream = Stream(meters.open(ProvenProof(PUBKEY), NAME))
    assert await stream.spend(100) == 100  # 3 credits.
    owner.price_list = "dear"
    assert await stream.spend(100) == 100  # Of the credits that are held: 3 more.
    clock.advance(11)
    meters.look()
    await _quiet()
    assert owner.posted == {NAME: 6}
    assert await stream.spend(40) == 40  # 10 credits.
    stream.meter.leave(stream)
    await meters.stop()
    assert owner.posted == {NAME: 16} and owner.held == {}
    assert [one.price_list for one in owner.holds][-2:] == ["cheap", "dear"]


async def test_charges_are_by_the_list_whole_and_rounded_up() -> None:
    """A connection, a minute, and several pieces at once: each piece is rounded up, as the page of prices says."""
    owner = OneAccount(10_000)
    owner.price_list = "cheap"
    meters = meters_of(owner, ManualClock())
    for credits, pieces, cost in ((5, 1, 2), (60, 1, 18), (10, 3, 9), (1, 4, 4)):
        held = await meters.hold(PROOF, NAME, credits, pieces=pieces)
        assert isinstance(held, HeldCharge) and held.settle.ceiling == held.settle.charged == cost
        assert await meters.post(held)
    assert [one.price_list for one in owner.holds] == ["", *["cheap"] * 4]
    assert meters.prices_of(ProvenProof(PUBKEY)).name == "cheap"  # The account is known by now, not only the key.
    owner.price_list = ""
    held = await meters.hold(PROOF, NAME, 5)
    assert isinstance(held, HeldCharge) and held.settle.ceiling == 5
    await meters.release(held)


async def test_an_owner_that_changes_its_mind_all_the_time_refuses_for_now() -> None:
    owner = OneAccount(10_000)
    meters = meters_of(owner, ManualClock())

    async def change(request) -> None:
        owner.price_list = "dear" if request.price_list != "dear" else "cheap"

    owner.before_hold = change
    refused = await meters.hold(PROOF, NAME, 5)
    assert isinstance(refused, Refusal) and refused.err.name == "SERVICE_TEMPORARILY_UNAVAILABLE"
    assert len(owner.holds) == 3 and not owner.held and refused.err.name != OTHER_PRICES


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["", *LISTS]), st.integers(0, 400), st.booleans()),
        min_size=1,
        max_size=6,
    )
)
async def test_whatever_changes_an_event_costs_what_one_list_of_the_last_ten_seconds_says(
    steps: list[tuple[str, int, bool]],
) -> None:
    """And fewer credits are lost to the customer's favour than there are changes; nothing is left held."""
    owner, clock = OneAccount(100_000), ManualClock()
    meters = meters_of(owner, clock)
    stream = Stream(meters.open(ProvenProof(PUBKEY), NAME))
    least = most = 0.0
    recent = {""}
    for name, events, waits in steps:
        owner.price_list = name
        recent.add(name)
        if waits:
            recent = {name}
            clock.advance(11)
            meters.look()
            await _quiet()
        assert await stream.spend(events) == events
        assert sum(owner.held.values()) <= HELD_CREDITS_MAX
        tenths = [LISTS[one].percent if one in LISTS else 100 for one in recent]
        least, most = least + events * min(tenths) / 1_000, most + events * max(tenths) / 1_000
    stream.meter.leave(stream)
    await meters.stop()
    cost = owner.posted.get(NAME, 0)
    assert floor(least) - 2 * len(steps) - 1 <= cost <= most and owner.held == {}
