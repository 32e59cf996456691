"""The console through the door: at its path for everybody, and at the root for browsers."""

import pytest

from actors.console.endpoints import ConsolePage, read_document
from tests.gateway.world import a_world, call

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"


async def test_a_browser_gets_the_console_and_nobody_else_does() -> None:
    """GET / answers as ever to tools; calls are posted there as ever; the page is public and has no figures."""
    async with a_world(pages=ConsolePage().pages()) as world:
        customer = await world.customer(10)
        for path, accept in (("/console", "*/*"), ("/", BROWSER), ("/", "text/html")):
            for headers in ({}, {"x-api-key": customer.api_key}, {"x-api-key": "no"}):
                answer = await world.http.get(path, headers={"accept": accept} | headers)
                assert answer.status_code == 200 and answer.content == read_document().body
                assert answer.headers["content-type"] == "text/html; charset=utf-8"
                assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'sha256-")
                assert answer.headers["vary"] == "accept, accept-encoding"
                assert not [name for name in answer.headers if name.startswith(("x-credits", "x-rate", "x-request-id"))]
        head = await world.http.head("/", headers={"accept": BROWSER})
        assert head.status_code == 200 and head.content == b""
        posted = await world.http.post(
            "/", json=call("getSlot"), headers={"x-api-key": customer.api_key, "accept": BROWSER}
        )
        assert "result" in posted.json()


@pytest.mark.parametrize(
    ("path", "accept"),
    [
        ("/", "*/*"),
        ("/", ""),
        ("/", "application/json, text/html;q=0.5"),
        ("/", "text/html;q=0"),
        ("/?api-key=x", BROWSER),
        ("/rpc", BROWSER),
        ("/console/", BROWSER),
    ],
)
async def test_other_requests_are_answered_as_without_a_console(path: str, accept: str) -> None:
    async with a_world(pages=ConsolePage().pages()) as world:
        answer = await world.http.get(path, headers={"accept": accept})
        assert answer.status_code == (404 if path == "/console/" else 405)
        assert answer.headers["content-type"] == "application/json"
        # A cache must not give a browser the answer of a tool, nor a tool the page.
        assert answer.headers.get("vary") == ("accept" if path.startswith("/?") or path == "/" else None)


async def test_a_service_without_a_console_says_what_it_takes() -> None:
    async with a_world() as world:
        answer = await world.http.get("/", headers={"accept": BROWSER})
        assert (answer.status_code, answer.headers["allow"]) == (405, "OPTIONS, POST")


@pytest.mark.parametrize(
    ("path", "content_type", "begins"),
    [
        ("/robots.txt", "text/plain", b"# Programs"),
        ("/favicon.ico", "image/x-icon", b"\x00\x00\x01\x00"),
        ("/favicon.svg", "image/svg+xml", b"<svg "),
    ],
)
async def test_what_browsers_and_robots_look_for_is_there(path: str, content_type: str, begins: bytes) -> None:
    """Else each of them leaves a 404 in the figures."""
    async with a_world(pages=ConsolePage().pages()) as world:
        answer = await world.http.get(path)
        assert answer.status_code == 200 and answer.content.startswith(begins)
        assert answer.headers["content-type"] == content_type
        head = await world.http.head(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == answer.headers["content-length"]
