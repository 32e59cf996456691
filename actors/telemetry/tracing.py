"""Traces of calls, some of all, for a collector of OpenTelemetry: off unless `telemetry.traces_url` is set.

Implements: actors/launch/README.md, "Traces". A process without tracing never imports this module, and runs classes
without tracing code; one with tracing runs their subclasses (accounts/traced_client.py, upstream/traced_node.py,
gateway/doors/traced_http.py) and accounts/traced_replicas.py. A shell around OpenTelemetry's SDK, which is an extra of
this distribution. It sends spans from a thread of its own, and drops them when too many wait: no call waits for them.

A request is traced when it brings a `traceparent` that says so, or is one of a share, and then only while this process
has begun fewer than so many traces in this second: clients can request traces, but cannot overload the process with
them.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final

import requests
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Span, SpanKind, get_current_span, set_span_in_context, use_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from actors.config import TelemetryConfig
from actors.release import RELEASE

logger = logging.getLogger(__name__)

HEADER: Final = "traceparent"
_OF_ALL = 10_000
_EXPORT_SECONDS = 5.0  # A slow collector delays only its thread, and no call.
_SEND_EVERY_MS = 1_000
_WAITING_MAX = 2_048  # Spans that may wait; further ones are dropped.
_CLOSE_SECONDS = 3.0
_W3C = TraceContextTextMapPropagator()


class Tracing:
    """Of one process. random: from 0 to below 1. exporter: of the spans; None: to the configured collector."""

    def __init__(
        self,
        config: TelemetryConfig,
        process: str,
        monotonic: Callable[[], float],
        random: Callable[[], float],
        exporter: SpanExporter | None = None,
    ) -> None:
        names = {"service.name": "ledger-gateway", "service.version": RELEASE, "service.instance.id": process}
        self._provider = TracerProvider(sampler=ALWAYS_ON, resource=Resource(names), shutdown_on_exit=False)
        self._provider.add_span_processor(
            BatchSpanProcessor(
                ToldOnce(exporter or _exporter(str(config.traces_url))),
                max_queue_size=_WAITING_MAX,
                schedule_delay_millis=_SEND_EVERY_MS,
                max_export_batch_size=_WAITING_MAX // 4,
            )
        )
        self._tracer = self._provider.get_tracer("ledger-gateway")
        self._monotonic, self._random = monotonic, random
        self._share, self._each_second_max = config.traced_per_10000, config.traces_per_second_max
        self._second, self._begun = 0, 0

    def begin(self, name: str, traceparent: str | None, attributes: Mapping[str, AttributeValue]) -> Span | None:
        """Begin the part of a trace that this process adds for a client's request. None: it is not traced.

        traceparent: the header that came with it; None: none did. What is no traceparent counts as none.
        """
        parent = Context() if traceparent is None else _W3C.extract({HEADER: traceparent}, context=Context())
        before = get_current_span(parent).get_span_context()
        wanted = before.trace_flags.sampled if before.is_valid else self._random() * _OF_ALL < self._share
        if not wanted or not self._has_room():
            return None
        return self._tracer.start_span(name, context=parent, kind=SpanKind.SERVER, attributes=attributes)

    def child(self, name: str, attributes: Mapping[str, AttributeValue]) -> Span | None:
        """Begin a step of the traced request that this code works for. None: it works for none."""
        parent = get_current_span()
        if not parent.is_recording():
            return None
        return self._tracer.start_span(name, kind=SpanKind.CLIENT, attributes=attributes)

    def go_on(self, name: str, traceparent: str, attributes: Mapping[str, AttributeValue]) -> Span:
        """Begin a step of a trace that another process of ours has begun."""
        parent = _W3C.extract({HEADER: traceparent}, context=Context())
        return self._tracer.start_span(name, context=parent, kind=SpanKind.SERVER, attributes=attributes)

    def _has_room(self) -> bool:
        second = int(self._monotonic())
        if second != self._second:
            self._second, self._begun = second, 0
        self._begun += 1
        return self._begun <= self._each_second_max

    async def close(self) -> None:
        """Send waiting spans, for some seconds at most."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await asyncio.to_thread(self._provider.shutdown)
        except TimeoutError:
            pass  # The collector does not answer; its thread ends with this process.


class ToldOnce(SpanExporter):
    """An exporter that logs failures only when they begin and end, not every second."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter, self._fails = exporter, False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        fails = result is not SpanExportResult.SUCCESS
        if fails and not self._fails:
            logger.warning("the collector of telemetry.traces_url does not take traces; they are dropped until it does")
        elif self._fails and not fails:
            logger.warning("the collector takes traces again")
        self._fails = fails
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


def working_on(span: Span) -> AbstractContextManager[Span]:
    """Make this the span that steps belong to, and end it with the block; an exception is recorded in it."""
    return use_span(span, end_on_exit=True)


def traceparent_of(span: Span) -> str:
    """Return what the next process needs to go on with the trace."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, context=set_span_in_context(span, Context()))
    return carrier[HEADER]


def current_traceparent() -> str:
    """Return the traceparent of the step that this code works on; empty: it works on none."""
    span = get_current_span()
    return traceparent_of(span) if span.is_recording() else ""


def _exporter(url: str) -> SpanExporter:
    logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)  # `ToldOnce` reports it once.
    session = requests.Session()
    session.trust_env = False  # A proxy or password of the environment is not meant for the collector.
    return OTLPSpanExporter(endpoint=url, timeout=_EXPORT_SECONDS, session=session)
