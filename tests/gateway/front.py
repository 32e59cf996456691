"""HAProxy, configured as Ray Serve configures it, in front of a door of this process; both say what they saw.

HAProxy adds two headers to each request that it forwards: an id that no client can know, and the names of the headers
that it read. A request that reaches the door without a fresh id was never a request for HAProxy.
"""

import asyncio
import contextlib
import json
import secrets
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import httptools
import uvicorn
from ray.serve._private.haproxy import BackendConfig, HAProxyApi, HAProxyConfig, ServerConfig, get_haproxy_binary
from ray.serve.config import HTTPOptions

from actors.gateway.calls.replies import Response
from actors.http_server.exchange import Doorway, HttpRequest
from actors.http_server.server import HttpServer
from bench.systems import free_port

BODY_BYTES_MAX = 65_536
ID = b"x-front-id"
NAMES = b"x-front-names"
# Headers of a connection rather than of a request: HAProxy writes its own.
HOP = {"connection", "proxy-connection", "keep-alive", "upgrade", "http2-settings", "te"}
HOP |= {"transfer-encoding", "content-length"}
QUIET_SECONDS = 0.02


class Echo:
    """A door that answers every request with what it saw of it."""

    body_bytes_max = BODY_BYTES_MAX

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    late = None

    def takes(self, request: HttpRequest) -> bool:
        return request.target.partition(b"?")[0] in (b"/", b"/rpc")

    async def answer(self, request: HttpRequest) -> Response:
        text = self._note(request.headers, request.body)
        return Response(200, text, [(b"content-length", b"%d" % len(text))])

    def too_long(self, request: HttpRequest) -> Response:
        return self.refused("", 400)

    def refused(self, reason: str, status: int) -> Response:
        return Response(status, b"", [(b"content-length", b"0"), (b"connection", b"close")])

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """The same by way of ASGI."""
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                break
        else:
            return  # The client left, or what it sent was refused.
        is_check = scope["raw_path"] == b"/-/healthz"  # Of HAProxy's own; a client's gets no further than HAProxy.
        text = b"ok" if is_check else self._note(scope["headers"], body)
        headers = [(b"content-length", b"%d" % len(text))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": text})

    def _note(self, sent: list[tuple[bytes, bytes]], body: bytes) -> bytes:
        names = [name.decode("latin-1") for name, _ in sent]
        found = {
            "ids": [value.decode("latin-1") for name, value in sent if name == ID],
            "front_names": [value.decode("latin-1") for name, value in sent if name == NAMES],
            "names": sorted(name for name in names if name not in HOP and not name.startswith("x-front-")),
            "keys": [value.decode("latin-1") for name, value in sent if name == b"x-api-key"],
            "body": body.decode("latin-1"),
        }
        self.seen.append(found)
        return json.dumps(found).encode()


class Counting(HttpServer):
    """Counts the requests that the parser of the door began."""

    begun = 0

    def on_message_begin(self) -> None:
        Counting.begun += 1
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        Counting.begun -= url == b"/-/healthz"
        super().on_url(url)


class Front:
    """One HAProxy process before the door on this port."""

    def __init__(self, folder: Path, replica_port: int) -> None:
        self.secret = secrets.token_hex(8)
        self.port, *others = (free_port() for _ in range(3))
        self._admin = folder / "admin.sock"
        config = HAProxyConfig(
            socket_path=str(self._admin),
            server_state_base=str(folder),
            server_state_file=str(folder / "server-state"),
            metrics_enabled=False,
            metrics_port=others[0],
            stats_port=others[1],
            nbthread=1,  # One pool of idle connections: the next client gets the one that was used last.
            log_target="/dev/null",
            timeout_client_s=75,
            health_check_inter="1h",  # No check of HAProxy's own is to be counted as a request.
            http_options=HTTPOptions(host="127.0.0.1", port=self.port),
            has_received_routes=True,
            has_received_servers=True,
        )
        replica = ServerConfig("replica", "127.0.0.1", replica_port)
        backend = BackendConfig("app", "/", servers=[replica], app_name="app")
        path = folder / "haproxy.cfg"
        HAProxyApi(config, {"app": backend}, str(path))._generate_config_file_internal()
        bind = f"    bind 127.0.0.1:{self.port}\n"
        text = path.read_text()
        assert bind in text
        marks = (
            f"    http-request set-header {NAMES.decode()} %[req.hdr_names]\n"
            f"    http-request set-header {ID.decode()} {self.secret}-%[uuid]\n"
        )
        path.write_text(text.replace(bind, bind + marks))
        self.process = subprocess.Popen([get_haproxy_binary(), "-db", "-f", str(path)])

    async def listens(self) -> None:
        async with asyncio.timeout(20):
            while not self._answers():  # noqa: ASYNC110  # HAProxy tells nobody.
                await asyncio.sleep(0.01)

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
            return self.forwarded() >= 0
        except OSError:
            return False

    def forwarded(self) -> int:
        """How many requests it has handed to the door."""
        with socket.socket(socket.AF_UNIX) as admin:
            admin.connect(str(self._admin))
            admin.sendall(b"show stat app 2 -1\n")
            lines = admin.makefile().read().splitlines()
        row = dict(zip(lines[0].split(","), lines[1].split(","), strict=False))
        return int(row["stot"])

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


class Client:
    """One connection to the front, for honest requests, one at a time."""

    def __init__(self, port: int, key: bytes) -> None:
        self._port, self._key = port, key
        self._writer: asyncio.StreamWriter | None = None
        self._number = 0

    async def asks(self) -> tuple[str, dict[str, Any]]:
        """A body that nobody else has, and what came back."""
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._number += 1
        body = b"%b %d" % (self._key, self._number)
        head = b"POST / HTTP/1.1\r\nhost: a\r\nx-api-key: %b\r\ncontent-length: %d\r\n\r\n" % (self._key, len(body))
        self._writer.write(head + body)
        answer = await asyncio.wait_for(_read_answer(self._reader), 5)
        return body.decode(), json.loads(answer)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
            self._writer = None


async def _read_answer(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), head
    (length,) = (line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return await reader.readexactly(int(length.partition(b":")[2]))


async def speak(
    port: int, pieces: Sequence[bytes], quiet_seconds: float = QUIET_SECONDS
) -> tuple[bytes, asyncio.StreamWriter]:
    """All that comes back until nothing more does; the connection is left open."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    said = b""
    with contextlib.suppress(ConnectionError):
        for number, piece in enumerate(pieces):
            if number:
                await asyncio.sleep(0.002)
            writer.write(piece)
            await writer.drain()
    with contextlib.suppress(ConnectionError, TimeoutError):
        while more := await asyncio.wait_for(reader.read(65_536), quiet_seconds):
            said += more
    return said, writer


class Answers:
    """The whole answers in a run of bytes."""

    def __init__(self, said: bytes) -> None:
        self.statuses: list[int] = []
        self.bodies: list[bytes] = []
        self._body = b""
        self._parser = httptools.HttpResponseParser(self)
        with contextlib.suppress(httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._parser.feed_data(said)

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self.statuses.append(self._parser.get_status_code())
        self.bodies.append(self._body)
        self._body = b""


@contextlib.asynccontextmanager
async def standing(swift: bool = True) -> AsyncIterator[tuple[Front, Echo]]:
    """A front and a door behind it. swift: with the door's own protocol."""
    echo = Echo()
    http: Any = partial(Counting, Doorway(echo)) if swift else "httptools"  # type: ignore[arg-type]
    server = uvicorn.Server(uvicorn.Config(echo, port=0, log_config=None, lifespan="off", http=http, access_log=False))
    running = asyncio.ensure_future(server.serve())
    while not server.started:  # noqa: ASYNC110  # uvicorn tells nobody when it has started.
        await asyncio.sleep(0)
    with tempfile.TemporaryDirectory(prefix="front-") as folder:
        front = Front(Path(folder), server.servers[0].sockets[0].getsockname()[1])
        try:
            await front.listens()
            yield front, echo
        finally:
            front.close()
            server.should_exit = server.force_exit = True
            await running
