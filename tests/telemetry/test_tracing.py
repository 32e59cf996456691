"""Which requests are traced, and what the parts of a trace are to each other."""

import asyncio

import pytest
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from actors.telemetry.tracing import ToldOnce, current_traceparent, traceparent_of, working_on
from tests.telemetry.collector import NOT_SAMPLED, SAMPLED, Spans


@pytest.mark.parametrize(
    ("traceparent", "drawn", "is_traced"),
    [
        (None, 0.0099, True),
        (None, 0.01, False),
        (SAMPLED, 0.99, True),
        (NOT_SAMPLED, 0.0, False),
        ("no traceparent", 0.0099, True),
        ("no traceparent", 0.01, False),
        (SAMPLED.replace("0af7", "\r\n"), 0.99, False),
    ],
)
async def test_a_share_is_traced_and_what_the_client_traces(
    traceparent: str | None, drawn: float, is_traced: bool
) -> None:
    """The client's decision counts, both ways; a header that is none counts as none."""
    spans = Spans(traced_per_10000=100)
    spans.drawn = drawn
    span = spans.tracing.begin("call", traceparent, {})
    assert (span is not None) is is_traced
    if span is not None:
        is_the_clients = traceparent == SAMPLED
        assert (traceparent_of(span).split("-")[1] == SAMPLED.split("-")[1]) is is_the_clients
    await spans.ended()


async def test_a_client_cannot_make_traces_a_load() -> None:
    """So many in a second of this process, whatever its clients ask for."""
    spans = Spans(traces_per_second_max=3)
    begun = [spans.tracing.begin("call", SAMPLED, {}) for _ in range(10)]
    assert [span is not None for span in begun] == [True] * 3 + [False] * 7
    spans.second += 1
    assert spans.tracing.begin("call", SAMPLED, {}) is not None
    await spans.ended()


async def test_steps_belong_to_the_request_of_their_task_alone() -> None:
    """Also those of tasks that it starts. Work for no traced request makes no span."""
    spans = Spans()
    tracing = spans.tracing

    async def step() -> None:
        span = tracing.child("step", {})
        assert span is not None
        span.end()

    async def request() -> None:
        span = tracing.begin("call", SAMPLED, {})
        assert span is not None
        with working_on(span):
            assert current_traceparent() == traceparent_of(span)
            await asyncio.create_task(step())

    await asyncio.gather(request(), request())
    assert tracing.child("step", {}) is None and current_traceparent() == ""
    ended = await spans.ended()
    calls = [span.context.span_id for span in ended if span.name == "call"]
    assert sorted(span.parent.span_id for span in ended if span.name == "step") == sorted(calls)
    assert {span.context.trace_id for span in ended} == {int(SAMPLED.split("-")[1], 16)}


async def test_another_process_goes_on_with_a_trace() -> None:
    spans = Spans()
    begun = spans.tracing.begin("call", None, {}) or spans.tracing.begin("call", SAMPLED, {})
    assert begun is not None
    spans.tracing.go_on("owner: hold", traceparent_of(begun), {"request_id": "a1-7"}).end()
    begun.end()
    hold, call = await spans.ended()
    assert (hold.parent.span_id, hold.context.trace_id) == (call.context.span_id, call.context.trace_id)
    assert dict(hold.attributes) == {"request_id": "a1-7"}


async def test_a_collector_that_is_away_is_told_once_and_costs_no_call(caplog: pytest.LogCaptureFixture) -> None:
    """What waits for it is dropped. When it is back, that is told too."""
    results = [SpanExportResult.FAILURE] * 3 + [SpanExportResult.SUCCESS] * 2

    class Away(InMemorySpanExporter):
        def export(self, spans: object) -> SpanExportResult:
            return results.pop(0)

    exporter = ToldOnce(Away())
    for _ in range(5):
        exporter.export([])
    exporter.shutdown()
    assert [line.message for line in caplog.records] == [
        "the collector of telemetry.traces_url does not take traces; they are dropped until it does",
        "the collector takes traces again",
    ]
