"""Guards what a stranger may tell Serve: nothing."""

from typing import Any

from actors.gateway.serve_edge import ServeEdge, middlewares


async def seen_behind(headers: list[tuple[bytes, bytes]], kind: str = "http") -> list[tuple[bytes, bytes]]:
    scope: dict[str, Any] = {"type": kind, "headers": headers}

    async def app(inner: Any, receive: Any, send: Any) -> None:
        del receive, send
        scope.update(inner)

    await ServeEdge(app)(scope, None, None)
    return list(scope["headers"])


async def test_a_client_sets_none_of_the_headers_that_serve_obeys() -> None:
    """Rule: a stranger chooses no log entry, no time limit, and not whether its leaving is noticed."""
    sent = [
        (b"x-request-id", b"forged"),
        (b"x-request-timeout-seconds", b"0.001"),
        (b"x-request-disconnect-disabled", b"?0"),
        (b"x-api-key", b"kept"),
    ]
    seen = await seen_behind(sent)
    assert (b"x-api-key", b"kept") in seen
    assert dict(seen)[b"x-request-disconnect-disabled"] == b"?1"
    assert b"x-request-timeout-seconds" not in dict(seen)
    assert [value for name, value in seen if name == b"x-request-id"] != [b"forged"]


async def test_every_request_has_an_id_of_its_own() -> None:
    """Rule: X-Request-Id is one, and made here."""
    ids = set()
    edge_headers: list[list[tuple[bytes, bytes]]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        del receive, send
        edge_headers.append(scope["headers"])

    edge = ServeEdge(app)
    for _ in range(100):
        await edge({"type": "http", "headers": []}, None, None)
    for headers in edge_headers:
        ids.add(dict(headers)[b"x-request-id"])
    assert len(ids) == 100


async def test_other_protocols_pass_as_they_are() -> None:
    """Rule: only HTTP requests carry these headers."""
    assert await seen_behind([(b"x-request-id", b"1")], "websocket") == [(b"x-request-id", b"1")]


def test_serve_gets_it_as_a_middleware() -> None:
    """Rule: Serve's hook wants a list of Starlette middlewares."""
    assert [middleware.cls for middleware in middlewares()] == [ServeEdge]
