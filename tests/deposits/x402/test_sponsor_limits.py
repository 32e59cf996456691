"""Limits on sponsored payments: failures count against their payers, and the shared budgets affect newcomers only."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.instruction import Instruction

from actors.deposits.x402.sponsor_limits import Budgets, Standing, Unsponsored, refusal, telling_address
from actors.deposits.x402.states import PaymentState
from actors.upstream import replies
from actors.x402_types import Lack, NotSettled, Settled
from tests.deposits.x402_world import USDC, a_payment_world, lack, with_limits

BUDGETS = Budgets(attempts_per_minute=20, failures_per_hour=60, failures_per_address_per_hour=5)


def judged(*, attempts=0, lost=0, landed=0, newcomers=0, at_address=0, claimed=False) -> Unsponsored | None:
    return refusal(Standing(attempts, lost, landed, newcomers, at_address), BUDGETS, claimed)


@pytest.mark.parametrize(
    ("lost", "landed", "refused"), [(0, 0, False), (1, 0, True), (1, 1, False), (2, 1, True), (2, 2, False)]
)
def test_a_wallet_may_fail_as_often_as_it_has_paid(lost, landed, refused):
    """Threat 52: only payments that landed here show an honest payer."""
    assert judged(lost=lost, landed=landed) is (Unsponsored.FAILED_TOO_OFTEN if refused else None)


def test_budgets_of_newcomers_do_not_touch_those_who_have_paid():
    """Threat 52: the shared budget affects newcomers only."""
    assert judged(newcomers=59, at_address=4) is None
    assert judged(newcomers=60) is Unsponsored.BUDGET_SPENT
    assert judged(at_address=5) is Unsponsored.ADDRESS_SPENT
    assert judged(landed=1, newcomers=10_000, at_address=10_000) is None
    assert judged(landed=1, lost=1, newcomers=10_000, at_address=10_000) is None


def test_a_payment_does_not_count_against_itself():
    """The verdict is the same before and after the claim: one attempt, one payment under way."""
    for claimed in (False, True):
        own = int(claimed)
        assert judged(attempts=19 + own, at_address=4 + own, claimed=claimed) is None
        assert judged(attempts=20 + own, claimed=claimed) is Unsponsored.TOO_MANY_ATTEMPTS
        assert judged(at_address=5 + own, claimed=claimed) is Unsponsored.ADDRESS_SPENT
        assert judged(newcomers=60, claimed=claimed) is Unsponsored.BUDGET_SPENT


@given(failing=st.lists(st.booleans(), max_size=60))
def test_a_wallet_costs_at_most_one_fee_more_than_it_paid_for(failing):
    """For any sequence of payments that land or fail, one after the other."""
    lost = landed = 0
    for fails in failing:
        if judged(lost=lost, landed=min(landed, lost + 1)) is None:
            lost, landed = lost + fails, landed + (not fails)
        assert lost <= landed + 1


@pytest.mark.parametrize(
    ("name", "tells"),
    [
        ("9.9.9.9", True),
        ("2620:fe::/64", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("192.168.0.7", False),
        ("fd00::/64", False),
        ("unknown", False),
        ("", False),
    ],
)
def test_an_address_that_may_be_everybodys_proxy_has_no_budget(name, tells):
    """Otherwise all clients behind a proxy would share one budget of five."""
    assert telling_address(name) == (name if tells else "")


async def test_a_spent_budget_stops_newcomers_and_is_told_once(tmp_path, caplog):
    """Threat 52, the last resort: counted over wallets and replicas, before a failure is final. A wallet that
    has paid goes on, what pays its own fee goes on, and an hour later all does."""
    world = await a_payment_world(tmp_path, limits=with_limits(failures_per_hour=2))
    assert isinstance(await world.settler.pay(world.standard(text="paid before"), 10_000, ""), Settled)
    for _ in range(2):
        await fail_on_the_chain(world, newcomer(world))
    other, new = world.new_settler(), newcomer(world)
    for text in ("one", "two"):
        found = await other.pay(world.standard(payer=new, text=text), 10_000, "")
        assert isinstance(found, NotSettled) and found.lack is Lack.UNAVAILABLE
        assert "pays no network fees" in found.message
    assert len(world.sponsor.signed) == 3
    assert [line for line in caplog.messages if "co-signing stops" in line] == [
        "co-signing stops for wallets that never paid before: 2 of their payments landed and failed within an hour"
    ]
    assert isinstance(await other.pay(world.standard(), 10_000, ""), Settled)
    assert isinstance(await other.relay(world.bare(), ""), Settled)
    assert isinstance(await other.relay(world.self_paid(), ""), Settled)
    world.clock.advance(3_601)
    assert isinstance(await other.pay(world.standard(payer=new, text="three"), 10_000, ""), Settled)
    await world.close()


async def test_a_wallet_earns_its_right_back_with_a_fee_of_its_own(tmp_path):
    """After one failure, a landed payment that pays its own fee makes the wallet sponsored again."""
    world = await a_payment_world(tmp_path)
    await fail_on_the_chain(world, world.payer, 10 * USDC)
    await world.rounds(2)
    world.chain.faucet.fund(world.payer.pubkey(), 0, USDC)
    for ask in (world.settler.pay(world.standard(), 10_000, ""), world.settler.relay(world.bare(), "")):
        found = await ask
        assert isinstance(found, NotSettled) and found.lack is Lack.NOT_SPONSORED
    assert isinstance(await world.settler.relay(world.self_paid(), ""), Settled)
    assert isinstance(await world.settler.pay(world.standard(text="again"), 10_000, ""), Settled)
    await world.close()


async def test_a_wallet_and_a_token_account_have_one_payment_under_way(tmp_path):
    """Threat 52: one at a time at all replicas; self-paid payments and other wallets are not delayed."""
    world = await a_payment_world(tmp_path)
    other, poor = world.new_settler(), world.chain.wallet(lamports=0, usdc_base_units=USDC)
    world.node.before["getSignatureStatuses"] = replies.TIMED_OUT
    first = asyncio.create_task(world.settler.pay(world.standard(text="first"), 10_000, ""))
    await world.sponsor.has_signed.wait()
    from_its_account = world.transfer(10_000, world.payer).accounts[0]
    moved = world.transfer(10_000, poor)
    moved = Instruction(moved.program_id, moved.data, [from_its_account, *moved.accounts[1:]])
    for raw in (world.standard(text="second"), world.framed(moved, poor)):
        held_up = await other.pay(raw, 10_000, "")
        assert lack(held_up) is Lack.TOO_MANY and "has not landed yet" in held_up.message
    assert lack(await other.relay(world.bare(), "")) is Lack.TOO_MANY
    assert len(world.sponsor.signed) == 1
    assert lack(await first) is Lack.PENDING
    world.node.before.clear()
    assert isinstance(await other.relay(world.self_paid(), ""), Settled)
    assert isinstance(await other.pay(world.standard(payer=poor), 10_000, ""), Settled)
    await world.rounds()
    assert isinstance(await other.pay(world.standard(text="second"), 10_000, ""), Settled)
    await world.close()


async def test_sponsored_attempts_of_one_wallet_are_limited(tmp_path):
    """Each costs the sponsor a fee; self-paid ones cost it nothing and are not counted."""
    world = await a_payment_world(tmp_path, limits=with_limits(attempts_per_minute=2))
    for text in ("a", "b"):
        assert isinstance(await world.settler.pay(world.standard(text=text), 10_000, ""), Settled)
    assert lack(await world.settler.pay(world.standard(text="c"), 10_000, "")) is Lack.TOO_MANY
    assert lack(await world.settler.relay(world.bare(), "")) is Lack.TOO_MANY
    assert isinstance(await world.settler.relay(world.self_paid(), ""), Settled)
    assert len(world.sponsor.signed) == 2
    world.clock.advance(61)
    assert isinstance(await world.settler.pay(world.standard(text="d"), 10_000, ""), Settled)
    await world.close()


async def test_attempts_that_come_at_once_are_counted_too(tmp_path):
    """One balance in many payments: all pass the simulation, one lands, and the sponsor pays for the failed ones."""
    world = await a_payment_world(tmp_path, limits=with_limits(attempts_per_minute=3))
    settlers = (world.settler, world.new_settler())
    raws = [world.standard(10_000_000, text=str(number)) for number in range(12)]
    found = await asyncio.gather(*(settlers[n % 2].pay(raw, 10_000, "") for n, raw in enumerate(raws)))
    assert len(world.sponsor.signed) <= 3
    assert [lack(one) for one in found if isinstance(one, NotSettled)].count(Lack.TOO_MANY) >= 9
    await world.close()


async def test_newcomers_of_one_address_that_come_at_once_are_counted_together(tmp_path):
    """Threat 52: each was claimed before it saw the others, so all count again, before anything is signed. One that is
    refused then is given up: its wallet does not wait for it."""
    world = await a_payment_world(tmp_path, limits=with_limits(failures_per_address_per_hour=1))
    settlers, wallets = (world.settler, world.new_settler()), [newcomer(world) for _ in range(4)]
    raws = [world.standard(payer=wallet) for wallet in wallets]
    found = await asyncio.gather(*(settlers[n % 2].pay(raw, 10_000, "9.9.9.9") for n, raw in enumerate(raws)))
    refused = [number for number, one in enumerate(found) if isinstance(one, NotSettled)]
    assert len(world.sponsor.signed) <= 1 and len(refused) >= 3
    assert {found[number].lack for number in refused} == {Lack.TOO_MANY}
    states = [record.state for record in world.store.records.values()]
    assert set(states) <= {PaymentState.ABANDONED, PaymentState.CREDITED} and states.count(PaymentState.ABANDONED) >= 3
    later = await world.settler.pay(world.standard(payer=wallets[refused[0]], text="again"), 10_000, "9.9.9.9")
    assert isinstance(later, Settled)
    await world.close()


def newcomer(world):
    return world.chain.wallet(lamports=10**9, usdc_base_units=USDC)


async def fail_on_the_chain(world, payer, amount=USDC) -> None:
    """A payment that passes the simulation; then its payer moves the money away."""
    raw = world.standard(amount, payer, text="it fails")
    rival = world.chain.signed(payer, world.transfer(amount, payer))
    simulate = world.network.simulate

    async def then_drain(transaction: bytes) -> object:
        tried = await simulate(transaction)
        world.chain.land(rival)
        return tried

    world.network.simulate = then_drain
    found = await world.settler.pay(raw, 10_000, "")
    assert isinstance(found, NotSettled) and found.lack is Lack.REJECTED and found.signature
    world.network.simulate = simulate
