"""A request to a node as a step of a trace, over kept connections and over single ones."""

import pytest

from actors.config import UpstreamConfig
from actors.telemetry.tracing import working_on
from actors.upstream.traced_node import TracedNode
from tests.telemetry.collector import SAMPLED, Spans

from .nodes import RawNode, running

pytestmark = pytest.mark.usefixtures("way")


async def test_the_node_gets_the_id_of_its_step_and_only_for_a_traced_request() -> None:
    """The request is the same otherwise, and the connection is kept."""
    spans = Spans()
    async with running(RawNode()) as node:
        client = TracedNode(UpstreamConfig(), node.url, "n1", None, spans.tracing)
        span = spans.tracing.begin("call", SAMPLED, {})
        assert span is not None
        await client.call("getSlot", b"[]", 5_000)
        with working_on(span):
            answers = [await client.call("getSlot", b"[]", 5_000) for _ in range(2)]
        await client.call("getSlot", b"[]", 5_000)
        await client.close()
    first, second, _ = ended = await spans.ended()
    assert [one.name for one in ended] == ["node", "node", "call"]
    wanted = [f"\r\ntraceparent: 00-{SAMPLED[3:35]}-{one.context.span_id:016x}-01\r\n" for one in (first, second)]
    heads = [exchange.head.decode() for exchange in node.exchanges]
    assert [line in head for line, head in zip(wanted, heads[1:3], strict=True)] == [True, True]
    assert ["traceparent" in head for head in heads] == [False, True, True, False]
    assert dict(first.attributes) == {"rpc.method": "getSlot", "node": "n1", "answer": "RESULT"}
    assert all(answer.answered for answer in answers)


async def test_a_node_that_does_not_answer_is_told_in_its_step() -> None:
    spans = Spans()
    client = TracedNode(UpstreamConfig(), "http://127.0.0.1:1", "n1", None, spans.tracing)
    span = spans.tracing.begin("call", SAMPLED, {})
    assert span is not None
    with working_on(span):
        await client.call("getSlot", b"[]", 5_000)
    await client.close()
    assert (await spans.ended())[0].attributes["answer"] == "UNREACHABLE"
