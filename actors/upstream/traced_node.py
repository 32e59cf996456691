"""The client of one node in a replica with tracing: each request to the node is a step, and carries its traceparent.

Implements: actors/launch/README.md, "Traces". A shell; replicas without tracing use client.py alone. A read that many
clients wait for is a step of the trace of the request that began it, if that one is traced.
"""

from actors.config import UpstreamConfig
from actors.telemetry.tracing import HEADER, Tracing, current_traceparent, working_on
from actors.upstream.client import NodeClient
from actors.upstream.memory_budget import MemoryBudget
from actors.upstream.replies import NodeAnswer


class TracedNode(NodeClient):
    def __init__(
        self, config: UpstreamConfig, node_url: str, name: str, budget: MemoryBudget | None, tracing: Tracing
    ) -> None:
        super().__init__(config, node_url, name, budget)
        self._tracing = tracing

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        span = self._tracing.child("node", {"rpc.method": method, "node": self._name})
        if span is None:
            return await super().call(method, params, timeout_ms)
        with working_on(span):
            answer = await super().call(method, params, timeout_ms)
            span.set_attribute("answer", answer.kind.name)
            return answer

    def _further_headers(self) -> bytes:
        traceparent = current_traceparent()
        return f"{HEADER}: {traceparent}\r\n".encode() if traceparent else b""
