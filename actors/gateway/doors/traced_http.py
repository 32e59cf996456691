"""The HTTP door of a replica that traces: a request's trace begins here, or goes on from the client's traceparent.

Implements: actors/launch/README.md, "Traces". A shell; replicas that trace nothing use http.py alone. No span has a
URL's query, a header, a parameter or an account: they may hold keys.
"""

from collections.abc import MutableMapping
from typing import Any

from opentelemetry.trace import Span

from actors.gateway.calls.replies import Response
from actors.gateway.calls.requests import Receive, Scope, Send
from actors.gateway.doors.http import HttpDoor
from actors.gateway.doors.parts import Dependencies
from actors.http_server.exchange import HttpRequest
from actors.request_ids import current
from actors.telemetry.logs import redact
from actors.telemetry.tracing import HEADER, Tracing, working_on

_HEADER = HEADER.encode()
_PATH_MAX = 100


class TracedHttpDoor(HttpDoor):
    def __init__(self, dependencies: Dependencies, tracing: Tracing) -> None:
        super().__init__(dependencies)
        self._tracing = tracing

    async def close(self) -> None:
        await super().close()
        await self._tracing.close()

    async def answer(self, posted: HttpRequest) -> Response:
        path = posted.target.partition(b"?")[0]
        span = self._tracing.begin("call", _text(posted.by_name.get(_HEADER)), _attributes("POST", path))
        if span is None:
            return await super().answer(posted)
        with working_on(span):
            response = await super().answer(posted)
            span.set_attributes({"http.response.status_code": response.status, "request_id": current()})
            return response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        span = self._begun(scope) if scope["type"] == "http" else None
        if span is None:
            await super().__call__(scope, receive, send)
            return

        async def observed(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                span.set_attributes({"http.response.status_code": message["status"], "request_id": current()})
            await send(message)

        with working_on(span):
            await super().__call__(scope, receive, observed)

    def _begun(self, scope: Scope) -> Span | None:
        sent = next((value for name, value in scope["headers"] if name == _HEADER), None)
        path = scope["path"].encode(errors="replace")
        return self._tracing.begin("request", _text(sent), _attributes(scope["method"], path))


def _attributes(method: str, path: bytes) -> dict[str, str]:
    return {"http.request.method": method[:16], "url.path": redact(path[:_PATH_MAX].decode("latin-1"))}


def _text(header: object) -> str | None:
    return header.decode("latin-1") if isinstance(header, bytes) else None
