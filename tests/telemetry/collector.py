"""A collector of OpenTelemetry on the loopback, which decodes what is sent to it; and tracing without one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from actors.config import TelemetryConfig
from actors.telemetry.tracing import Tracing

SAMPLED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NOT_SAMPLED = SAMPLED[:-2] + "00"


class Collector:
    """Spans by name, as protobuf has them; of each its process too."""

    def __init__(self) -> None:
        self.url = ""
        self.spans: list[tuple[str, Any]] = []
        self._came = asyncio.Event()

    async def take(self, request: web.Request) -> web.Response:
        assert request.content_type == "application/x-protobuf"
        for of_process in ExportTraceServiceRequest.FromString(await request.read()).resource_spans:
            named = {one.key: one.value.string_value for one in of_process.resource.attributes}
            assert named["service.name"] == "ledger-gateway"
            for scope in of_process.scope_spans:
                self.spans += [(named["service.instance.id"], span) for span in scope.spans]
        self._came.set()
        return web.Response(body=b"", content_type="application/x-protobuf")

    async def received(self, count: int) -> dict[str, tuple[str, Any]]:
        """Wait for so many spans; each has a name of its own."""
        async with asyncio.timeout(30):
            while len(self.spans) < count:
                await self.more()
        found = {span.name: (process, span) for process, span in self.spans}
        assert len(found) == len(self.spans) == count
        return found

    async def more(self) -> None:
        """Wait for the next ones."""
        self._came.clear()
        await self._came.wait()


@asynccontextmanager
async def a_collector() -> AsyncIterator[Collector]:
    collector, served = Collector(), web.Application()
    served.router.add_post("/v1/traces", collector.take)
    runner = web.AppRunner(served)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    collector.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1/traces"
    try:
        yield collector
    finally:
        await runner.cleanup()


class Spans:
    """Tracing of one process whose spans stay in memory. `drawn` is what its random numbers are, `second` its clock."""

    def __init__(self, **settings: int) -> None:
        self._exporter = InMemorySpanExporter()
        self.drawn, self.second = 0.5, 100.0
        config = TelemetryConfig(traces_url="http://127.0.0.1:1/v1/traces", **settings)
        self.tracing = Tracing(config, "tests", lambda: self.second, lambda: self.drawn, self._exporter)

    async def ended(self) -> list[Any]:
        """All spans, in the order of their ends. Nothing is traced afterwards."""
        await self.tracing.close()
        return list(self._exporter.get_finished_spans())
