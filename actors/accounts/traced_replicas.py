"""Handlers of an owner with tracing: its work for a traced call is part of that call's trace.

Implements: actors/launch/README.md, "Traces". A shell around replicas.py; owners without tracing use that alone. A hold
carries its trace, and the settle that ends it only its operation: so the traces of open holds are kept, up to a limit;
the oldest is forgotten first.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from opentelemetry.trace import Span

from actors.accounts.replicas import Replicas
from actors.calls import ChargeRequest, HoldRequest, SettleRequest, operation_at
from actors.telemetry.tracing import Tracing, working_on

_KEPT_MAX = 10_000


class TracedReplicas:
    def __init__(self, replicas: Replicas, tracing: Tracing) -> None:
        self._replicas, self._tracing = replicas, tracing
        self._traces: dict[bytes, str] = {}  # By operation; the oldest is forgotten first.

    def hold(self, request: HoldRequest) -> Any:
        if not request.traceparent:
            return self._replicas.hold(request)
        for index in range(len(request.items)):
            self._traces[operation_at(request.operation, index)] = request.traceparent
        while len(self._traces) > _KEPT_MAX:
            del self._traces[next(iter(self._traces))]
        span = self._tracing.go_on("owner: hold", request.traceparent, {"request_id": request.request_id})
        return _spanned(span, self._replicas.hold, request)

    def settle(self, request: SettleRequest) -> Any:
        traceparent = self._traces.pop(request.operation, None)
        if traceparent is None:
            return self._replicas.settle(request)
        span = self._tracing.go_on("owner: settle and commit", traceparent, {"rpc.method": request.method})
        return _spanned(span, self._replicas.settle, request)

    def charge(self, request: ChargeRequest) -> Any:
        hold = request.hold
        if not hold.traceparent:
            return self._replicas.charge(request)
        attributes = {"request_id": hold.request_id, "rpc.method": request.settle.method}
        span = self._tracing.go_on("owner: charge and commit", hold.traceparent, attributes)
        return _spanned(span, self._replicas.charge, request)


def _spanned(span: Span, handle: Callable[[Any], Any], request: Any) -> Any:
    """Handle a request, and end the span now, when its group is durable, or when its awaitable is done."""
    try:
        result = handle(request)
    except BaseException:  # Includes AskAgain, which is not a fault.
        span.end()
        raise
    if isinstance(result, tuple) and result[1] is not None:
        result[1].add_done_callback(lambda _: span.end())
        return result
    if isinstance(result, Awaitable):
        return _awaited(span, result)
    span.end()
    return result


async def _awaited(span: Span, result: Awaitable[Any]) -> Any:
    with working_on(span):
        return await result
