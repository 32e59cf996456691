"""The edge as a real process before a real front: TLS clients of every kind, and what they must not get away with."""

import asyncio
import contextlib
import json
import ssl
import stat
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets
from websockets.utils import accept_key

from actors.config import Config
from actors.launch.front import installation as front
from actors.launch.front import tls_edge as edge
from actors.launch.front.tls_edge import Edge
from bench.systems import free_port
from tests.launch.fronts import Front, Replica, answer_whole, headers_of, read_answer, running, settled

_GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"


@dataclass(frozen=True)
class Edged:
    """A front with an edge before it."""

    front: Front
    edge: Edge
    config: Config
    process: asyncio.subprocess.Process

    @property
    def port(self) -> int:
        return self.config.serve.tls_port

    def trusting(self, *protocols: str) -> ssl.SSLContext:
        assert self.edge.ca_file is not None
        context = ssl.create_default_context(cafile=str(self.edge.ca_file))
        if protocols:
            context.set_alpn_protocols(list(protocols))
        return context

    async def connect(
        self, source: str = "127.0.0.1", *protocols: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = self.trusting(*protocols or ("http/1.1",))
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=context, local_addr=(source, 0))


@contextlib.asynccontextmanager
async def edged(
    replica: Replica, grpc_replica_port: int = 0, front_connections_max: int | None = None, **serve: Any
) -> AsyncIterator[Edged]:
    """front_connections_max: of the front alone; None: as many as the edge has."""
    given = {"tls": True, "tls_port": free_port(), **serve}
    front_given = given if front_connections_max is None else {**given, "connections_max": front_connections_max}
    async with running(replica, grpc_replica_port=grpc_replica_port, **front_given) as found:
        config = settled(**given)
        installed = edge.install(found.folder, config, found.folder / "tls")
        process = await asyncio.create_subprocess_exec(*installed.command, stderr=subprocess.PIPE)
        try:
            result = Edged(found, installed, config, process)
            await _until_up(result)
            yield result
        finally:
            process.kill()
            await process.communicate()


async def _until_up(found: Edged) -> None:
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(OSError):
                (await found.connect())[1].close()
                return
            if found.process.returncode is not None:
                raise AssertionError((await found.process.communicate())[1].decode())
            await asyncio.sleep(0.02)


async def upgraded(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """A replica that takes a WebSocket, says one text frame, and then returns the client's bytes."""
    key = headers_of(head)[b"sec-websocket-key"].decode()
    writer.write(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n")
    writer.write(b"sec-websocket-accept: %b\r\n\r\n" % accept_key(key).encode() + b"\x81\x05hello")
    await writer.drain()
    await reader.read(100)
    return False


@pytest.mark.parametrize("is_http_2", [False, True])
async def test_an_https_call_comes_from_its_clients_address(is_http_2: bool) -> None:
    """Both versions of HTTP; what the client writes about its address is dropped or replaced (threat 49)."""
    replica = Replica()
    async with edged(replica) as found:
        transport = httpx.AsyncHTTPTransport(
            verify=found.trusting(), http1=not is_http_2, http2=is_http_2, local_address="127.0.0.4"
        )
        forged = {"X-Forwarded-For": "203.0.113.9", "X-Front-Peer": f"{'0' * 32} 203.0.113.9", "Forwarded": "for=a"}
        async with httpx.AsyncClient(transport=transport, base_url=found.edge.url) as client:
            answer = await client.post("/", content=b"x" * 30_000, headers=forged)
        assert (answer.status_code, answer.json()) == (200, {"received": 30_000})
        assert answer.http_version == ("HTTP/2" if is_http_2 else "HTTP/1.1")
        head = headers_of(replica.requests[-1])
        told = json.loads((found.front.folder / "front.json").read_text(encoding="utf-8"))
        assert head[b"x-front-peer"].decode() == f"{told['token']} 127.0.0.4"
        assert not {b"x-forwarded-for", b"forwarded"} & set(head)


async def test_a_websocket_over_tls_reaches_the_replica() -> None:
    """WSS, with an unmodified client, at the path and with the subprotocol header that it asked for."""
    replica = Replica(behave=upgraded)
    async with edged(replica) as found:
        url = f"wss://127.0.0.1:{found.port}/ws"
        async with websockets.connect(url, ssl=found.trusting("http/1.1")) as socket:
            assert await asyncio.wait_for(socket.recv(), 10) == "hello"
        assert replica.requests[-1].startswith(b"GET /ws HTTP/1.1\r\n")
        assert headers_of(replica.requests[-1])[b"x-front-peer"].endswith(b" 127.0.0.1")


@pytest.mark.threat(35)
async def test_the_front_counts_the_connections_of_the_edges_clients() -> None:
    """Threat 35: when the front is nearly full, an address with an eighth of it gets no more over the edge
    either, and another address does."""
    release = asyncio.Event()

    async def wait(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if b"x-held" in head:
            await release.wait()
        return await answer_whole(head, reader, writer)

    replica = Replica(behave=wait)
    async with (
        edged(replica, front_connections_max=256, connections_max=1_024) as found,
        contextlib.AsyncExitStack() as stack,
    ):
        held_request = b"GET / HTTP/1.1\r\nhost: a\r\nx-held: 1\r\n\r\n"
        for number in range(40 + 153):  # Three quarters of 256 are 192, and an eighth is 32.
            is_hog = number < 40
            reader, writer = await (found.connect("127.0.0.2") if is_hog else found.front.connect("127.0.0.9"))
            stack.callback(writer.close)
            writer.write(held_request if is_hog else b"G")
        while len(replica.requests) < 40:  # noqa: ASYNC110 - the replica tells nobody.
            await asyncio.sleep(0.02)
        answers = {}
        for source in ("127.0.0.2", "127.0.0.3"):
            reader, writer = await found.connect(source)
            stack.callback(writer.close)
            writer.write(_GET)
            answers[source] = (await read_answer(reader))[0]
        assert answers == {"127.0.0.2": 502, "127.0.0.3": 200}
        release.set()


@pytest.mark.threat(48)
async def test_slow_heads_and_bodies_end_at_the_edge() -> None:
    """Threat 48: over HTTP/1.1 and in a header frame of HTTP/2 that never ends; the replica sees neither."""
    replica = Replica()
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
    beginnings = {
        "http/1.1": (b"POST / HTTP/1.1\r\nhost: a\r\nx-slow: ", b"POST / HTTP/1.1\r\ncontent-length: 99\r\n\r\n"),
        "h2": (preface + b"\0\0\x40\1\4\0\0\0\1",),  # A HEADERS frame of 64 bytes.
    }

    async def dripped(protocol: str, beginning: bytes) -> bytes:
        reader, writer = await found.connect("127.0.0.1", protocol)
        said = b""
        with contextlib.closing(writer):
            writer.write(beginning)
            ended = asyncio.ensure_future(reader.read())
            while not ended.done():
                writer.write(b"x")
                await asyncio.wait((ended,), timeout=0.5)
            with contextlib.suppress(OSError):
                said = ended.result()
        return said

    async with edged(replica, request_seconds_max=1) as found, asyncio.timeout(30):
        pairs = [(protocol, beginning) for protocol, all_of in beginnings.items() for beginning in all_of]
        told = await asyncio.gather(*(dripped(protocol, beginning) for protocol, beginning in pairs))
        assert [answer[:12] for answer in told[:2]] == [b"HTTP/1.1 408"] * 2
        reader, writer = await found.connect()
        with contextlib.closing(writer):
            writer.write(_GET)
            assert (await read_answer(reader))[0] == 200
    assert len(replica.requests) == 1


@pytest.mark.threat(49)
async def test_no_port_believes_an_address_that_a_client_tells() -> None:
    """Threat 49: the PROXY protocol is not taken from clients, neither before the handshake nor inside."""
    claim = b"PROXY TCP4 203.0.113.9 127.0.0.1 1 2\r\n"
    replica = Replica()
    async with edged(replica) as found:
        reader, writer = await found.connect()
        with contextlib.closing(writer):
            writer.write(claim + _GET)
            assert (await asyncio.wait_for(reader.read(12), 10)).startswith(b"HTTP/1.1 400")
        for port in (found.port, found.front.port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            with contextlib.closing(writer), contextlib.suppress(ConnectionError):
                writer.write(claim + _GET)
                assert b" 200 " not in await asyncio.wait_for(reader.read(100), 40)
    assert replica.requests == []


@pytest.mark.threat(35)
async def test_requests_of_one_address_have_a_limit_whatever_their_connections() -> None:
    """Threat 35: HTTP/2 carries many requests on one connection; when the edge is nearly full, an address with
    an eighth of it is refused with the interface's 429, and others are served."""
    release = asyncio.Event()

    async def wait(_head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if headers_of(_head).get(b"x-honest") is None:
            await release.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
        await writer.drain()
        return True

    replica = Replica(behave=wait)
    # The front would count the edge's connections at nearly the same number, and close them.
    async with edged(replica, front_connections_max=1_024, connections_max=256) as found, asyncio.timeout(60):
        # Three connections, as this client has at most 100 requests on one.
        clients = [httpx.AsyncClient(verify=found.trusting(), http1=False, http2=True, timeout=60) for _ in range(3)]
        honest = {"x-honest": "1"}
        for client in clients:  # Only a client that has a connection puts further requests on it.
            assert (await client.get(f"{found.edge.url}/", headers=honest)).status_code == 200
        held = [asyncio.ensure_future(clients[number % 3].get(f"{found.edge.url}/")) for number in range(180)]
        while len(replica.requests) < 3 + 180:  # noqa: ASYNC110 - the replica tells nobody.
            await asyncio.sleep(0.02)
        # Three quarters of 256 are 192. Each request has its own connection, as this client reads the answers of one
        # connection in the order of their requests.
        last = [httpx.AsyncClient(verify=found.trusting(), timeout=60) for _ in range(16)]
        asked = [asyncio.ensure_future(client.get(f"{found.edge.url}/")) for client in last]
        (refused, *_), _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        answer = refused.result()
        assert (answer.status_code, answer.json()["error"]["constant"]) == (429, "RATE_LIMITED")
        for_grpc = {"content-type": "application/grpc"}
        answer = await last[0].post(f"{found.edge.url}/geyser.Geyser/Ping", headers=for_grpc)
        assert (answer.status_code, answer.headers["grpc-status"], answer.content) == (200, "8", b"")
        assert answer.headers["content-type"] == "application/grpc" and "try again" in answer.headers["grpc-message"]
        transport = httpx.AsyncHTTPTransport(verify=found.trusting(), local_address="127.0.0.5")
        async with httpx.AsyncClient(transport=transport) as other:
            assert (await other.get(f"{found.edge.url}/", headers=honest)).status_code == 200
        release.set()
        assert {one.status_code for one in await asyncio.gather(*held)} == {200}
        await asyncio.gather(*asked)
        for client in (*clients, *last):
            await client.aclose()


async def test_what_the_edge_says_itself_is_the_interfaces(tmp_path: Path) -> None:
    """Without a front behind it, a 503 with the hint when to ask again; an old TLS version gets no handshake."""
    replica = Replica()
    async with edged(replica) as found:
        found.front.process.kill()
        await found.front.process.wait()
        async with httpx.AsyncClient(verify=found.trusting()) as client:
            answer = await client.get(f"{found.edge.url}/health")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert answer.json()["error"]["code"] == -32003
        old = found.trusting()
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("127.0.0.1", found.port, ssl=old)


@pytest.mark.threat(58)
async def test_keys_and_sockets_are_this_users_alone() -> None:
    """Threat 58: the private key, the configuration, the sockets; the authority's key is nowhere."""
    async with edged(Replica()) as found:
        names = ("edge.pem", "edge.cfg", "edge-admin.sock", "edge-http.sock", "tls/key.pem", "tls/ca.pem")
        folder = found.front.folder
        assert {name: stat.S_IMODE((folder / name).stat().st_mode) for name in names} == dict.fromkeys(names, 0o600)
        assert sum(path.read_bytes().count(b"PRIVATE KEY-----\n") for path in folder.rglob("*.pem")) == 4


def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """A start says which file it is, before anything is open."""
    bad = tmp_path / "mine.pem"
    bad.write_text("no certificate")
    with pytest.raises(front.FrontUnusable, match=r"mine\.pem"):
        edge.install(tmp_path, settled(tls=True, tls_port=1, tls_certificate_file=bad), None)
