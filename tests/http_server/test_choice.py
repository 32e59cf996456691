"""A process serves with uvicorn as it is where uvicorn is not as expected, and no request in doubt gets further."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from actors.http_server.choice import CautiousApp, http_server
from actors.http_server.exchange import Doorway
from actors.http_server.server import HttpServer
from tests.framings import HIDDEN, Framing, post, trailers, upgrades
from tests.raw_sockets import Line

from .test_server import App, named


def test_this_uvicorn_is_as_expected(caplog: pytest.LogCaptureFixture) -> None:
    """Rule: the versions of constraints.txt serve with the server of this folder."""
    doorway = Doorway()
    chosen = http_server(doorway)
    assert (chosen.func, chosen.args) == (HttpServer, (doorway,))
    assert caplog.text == ""


@pytest.mark.parametrize("part", ["on_url", "_start_asgi_task", "connection_made"])
def test_another_uvicorn_serves_as_it_is(
    part: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Rule: no request is read by a half of a server; the log says what is lost."""
    monkeypatch.delattr(HttpToolsProtocol, part)
    assert http_server(Doorway()) is None
    assert "uvicorn is not as expected" in caplog.text and "through the front only" in caplog.text


@contextlib.asynccontextmanager
async def connected(app: App, http: str) -> AsyncIterator[Line]:
    """A connection to uvicorn as it is."""
    config = uvicorn.Config(CautiousApp(app), log_config=None, lifespan="off", http=http, ws="none", access_log=False)
    config.load()
    protocol = partial(config.http_protocol_class, config, ServerState(), {})  # type: ignore[call-arg]
    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    line = Line(server.sockets[0].getsockname()[1])
    yield line
    line.close()
    server.close()


@pytest.mark.parametrize("http", ["httptools", "h11"])
@named([framing for framing in (*upgrades(), *trailers()) if "left open" not in framing.name])
@pytest.mark.threat(45, 46)
async def test_nothing_in_doubt_reaches_the_application(framing: Framing, http: str) -> None:
    """Threats 45 and 46: not the request, and not what is hidden behind it."""
    app = App()
    async with connected(app, http) as line:
        await line.says(*framing.pieces(b"K" * 53, b"1" * 12), HIDDEN)
        said = await line.hears()
    assert said.startswith(b"HTTP/1.1 400 ") and said.count(b"HTTP/1.1 ") == 1
    assert app.begun == 0


@pytest.mark.parametrize("http", ["httptools", "h11"])
async def test_other_requests_are_served(http: str) -> None:
    """Rule: only what is in doubt is refused, and connections are kept."""
    app = App()
    async with connected(app, http) as line:
        await line.says(post(b"content-length: %d") * 2)
        said = await line.hears(until=b"ok" + b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
    assert said.count(b"HTTP/1.1 200 ") == 2 and len(app.seen) == 2
