"""What the sponsor loses to payments that simulate well and then fail on the chain has an end."""

from actors.settlements import Lack, NotSettled, Settled

from .x402_world import USDC, a_payment_world, with_limits


async def test_payments_that_fail_on_the_chain_have_a_budget(tmp_path, caplog):
    """Each cost the sponsor a fee, and a new wallet costs an attacker nothing: counted over wallets and replicas,
    before the failure is final; what pays its own fee goes on, and an hour later all does."""
    world = await a_payment_world(tmp_path, limits=with_limits(failures_per_hour=2))
    for _ in range(2):
        await fail_on_the_chain(world, world.chain.wallet(lamports=10**9, usdc_base_units=USDC))
    assert await world.store.fees_lost(0) == 2
    other = world.new_settler()
    for ask in (lambda: other.pay(world.standard(), 10_000), lambda: other.relay(world.bare())):
        found = await ask()
        assert isinstance(found, NotSettled) and found.lack is Lack.UNAVAILABLE
        assert "pays no network fees" in found.message
    assert len(world.sponsor.signed) == 2
    assert [line for line in caplog.messages if "co-signing pauses" in line] == [
        "co-signing pauses: 2 sponsored payments landed and failed within an hour"
    ]
    assert isinstance(await other.relay(world.self_paid()), Settled)
    world.clock.advance(3_601)
    assert isinstance(await other.pay(world.standard(), 10_000), Settled)
    await world.close()


async def fail_on_the_chain(world, payer) -> None:
    """It simulates well, and then its payer takes the money elsewhere."""
    raw = world.standard(USDC, payer)
    rival = world.chain.signed(payer, world.transfer(USDC, payer))
    simulate = world.network.simulate

    async def then_drain(transaction: bytes) -> object:
        tried = await simulate(transaction)
        world.chain.land(rival)
        return tried

    world.network.simulate = then_drain
    found = await world.settler.pay(raw, 10_000)
    assert isinstance(found, NotSettled) and found.lack is Lack.REJECTED
    world.network.simulate = simulate
