"""The log of calls by the client: one page, a search, and all of it."""

from actors.call_log.endpoints import CallLogPages
from actors.call_log.writer import CallLogWriter
from actors.clock import ManualClock
from actors.telemetry.metrics import Metrics
from ledger_gateway.call_log import CallLog
from ledger_gateway.errors import GatewayError
from tests.call_log.memory_store import MemoryCallLogStore

from .world import a_gateway


async def test_the_log_is_read_whole_and_searched() -> None:
    store, clock = MemoryCallLogStore(1_000), ManualClock()
    writer = CallLogWriter(store, clock, Metrics())
    async with a_gateway(pages=CallLogPages(store, clock).pages(), clock=clock, recent=writer.recent) as served:
        wallet = await served.wallet(1_000)
        async with served.gateway(wallet) as gateway:
            for _ in range(3):
                await gateway.batch([("getSlot", [])] * 90)
                clock.advance(1)
            refused = ""
            try:
                await gateway.call("getBalance", "x")
            except GatewayError as error:
                refused = error.request_id
            await writer.write()
            log = CallLog(gateway)
            (found,) = await log.newest(request_id=refused)
            assert (found.method, found.outcome, found.credits) == ("getBalance", "INVALID_PARAMS", 0)
            assert await log.newest(outcome="refused", method="getBalance", key=0) == [found]
            assert [call.method for call in await log.newest(2)] == ["getBalance", "getSlot"]
            everything = [call async for call in log.all()]
            assert len(everything) == 271 and everything[0] == found
            assert await log.newest(1, before=found.id) == everything[1:2]
