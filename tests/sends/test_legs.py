"""Our own node and the block engine as legs, over a chain that executes: sent, refused, dropped, away."""

from actors.clock import ManualClock
from actors.sends.engine import BlockEngineClient
from actors.sends.legs import JitoLeg, LocalRpcLeg, Submission
from actors.upstream.replies import NOT_SENT, NodeAnswer
from tests.sends.conftest import EngineServer, Here


async def test_our_node_takes_a_transaction_once(here: Here) -> None:
    """It does not send it again by itself: that is the race's decision."""
    clock = ManualClock()
    leg, payment = LocalRpcLeg(here, clock), here.payment()
    assert leg.takes(payment)
    assert await leg.send(payment) == Submission(clock.now_ms(), clock.now_ms())
    assert here.landed(payment)


async def test_a_send_that_is_dropped_on_its_way_looks_the_same(here: Here) -> None:
    here.faults(sends={"rpc": {"drop_share": 1.0}})
    clock, payment = ManualClock(), here.payment()
    assert (await LocalRpcLeg(here, clock).send(payment)).acknowledged_ms is not None
    assert not here.landed(payment)


async def test_a_node_that_says_nothing_may_have_sent_it(here: Here) -> None:
    here.silent = True
    clock = ManualClock()
    assert await LocalRpcLeg(here, clock).send(here.payment()) == Submission(clock.now_ms(), None, "timed_out")


async def test_a_node_that_cannot_be_reached_has_not(here: Here) -> None:
    class Gone:
        async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
            del method, params, timeout_ms
            return NOT_SENT

    assert await LocalRpcLeg(Gone(), ManualClock()).send(here.payment()) == Submission(None, None, "no connection")


async def test_the_block_engine_takes_what_tips(here: Here, engine_server: EngineServer) -> None:
    """Anything else would be refused, and use up its rate."""
    clock = ManualClock()
    leg = JitoLeg(BlockEngineClient(engine_server.url, clock, requests_per_second=100), clock)
    tipping, plain = here.payment(tip=True), here.payment()
    assert leg.takes(tipping) and not leg.takes(plain)
    assert (await leg.send(tipping)).acknowledged_ms == clock.now_ms()
    assert here.landed(tipping)
    await leg.close()


async def test_an_outage_of_the_block_engine_is_told(here: Here, engine_server: EngineServer) -> None:
    clock = ManualClock()
    leg = JitoLeg(BlockEngineClient(engine_server.url, clock, requests_per_second=100), clock)
    engine_server.status = 503
    tipping = here.payment(tip=True)
    assert await leg.send(tipping) == Submission(clock.now_ms(), None, "HTTP 503", refused=True)
    await leg.close()
    gone = JitoLeg(BlockEngineClient("http://127.0.0.1:1", clock), clock)
    found = await gone.send(tipping)
    assert found.submitted_ms is None and "cannot be reached" in found.error
    await gone.close()


async def test_the_rate_limit_of_the_block_engine_holds_nothing_up(here: Here, engine_server: EngineServer) -> None:
    """A leg that may not be used now is passed over; the race goes on without it."""
    clock = ManualClock()
    leg = JitoLeg(BlockEngineClient(engine_server.url, clock), clock)
    assert (await leg.send(here.payment(tip=True))).error == ""
    refused = await leg.send(here.payment(tip=True))
    assert refused.submitted_ms is None and "rate limit" in refused.error
    assert len(engine_server.requests) == 1
    await leg.close()
