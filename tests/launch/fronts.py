"""A real HAProxy with the configuration that Ray Serve renders and the front's rules, before a replica of a test."""

import asyncio
import contextlib
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from ray.serve._private.common import RequestProtocol
from ray.serve._private.haproxy import BackendConfig, HAProxyApi, HAProxyConfig, ServerConfig
from ray.serve.config import HTTPOptions, gRPCOptions

from actors.config import Config, ServeConfig, StorageConfig
from actors.launch.front import installation as front
from bench.systems import free_port

SECRET = "s" * 32
_START_SECONDS = 60.0

Behave = Callable[[bytes, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bool]]


def settled(**serve: Any) -> Config:
    return Config(serve=ServeConfig(**serve), storage=StorageConfig(cluster_secret=SecretStr(SECRET)))


@dataclass
class Replica:
    """Behind the front in place of a gateway replica. `behave` says what to do with a request whose head is there, and
    gives False to end the connection; without it the body is read and answered with its length."""

    port: int = 0
    requests: list[bytes] = field(default_factory=list)
    behave: Behave | None = None
    check_seconds: float = 0.0  # How late it answers a health check.
    checked: asyncio.Event = field(default_factory=asyncio.Event)  # It has answered one.
    server: asyncio.Server | None = None
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError), contextlib.closing(writer):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"GET /-/healthz"):
                    await asyncio.sleep(self.check_seconds)
                    writer.write(ok(b"success"))
                    self.checked.set()
                    continue
                self.requests.append(head)
                if not await (self.behave or answer_whole)(head, reader, writer):
                    return

    async def listen(self) -> asyncio.Server:
        server = self.server = await asyncio.start_server(self.serve, "127.0.0.1")
        self.port = server.sockets[0].getsockname()[1]
        return server

    def die(self) -> None:
        """As a killed process: connections break off, and new ones are refused."""
        assert self.server is not None
        self.server.close()
        for writer in self.writers:
            writer.transport.abort()


async def answer_whole(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """200 with the length of the body, once it is there."""
    length = int(headers_of(head).get(b"content-length", b"0"))
    body = await reader.readexactly(length)
    writer.write(ok(b'{"received":%d}' % len(body)))
    await writer.drain()
    return True


def ok(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def headers_of(head: bytes) -> dict[bytes, bytes]:
    pairs = (line.partition(b":") for line in head.split(b"\r\n")[1:] if line)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


@dataclass(frozen=True)
class Front:
    port: int
    folder: Path  # Of the front; HAProxy's own files are in `node` below it.
    replica: Replica
    process: asyncio.subprocess.Process

    async def connect(self, source: str = "127.0.0.1") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, local_addr=(source, 0))

    async def ask(self, request: bytes, source: str = "127.0.0.1") -> tuple[int, dict[bytes, bytes], bytes]:
        """Status, headers and body of the answer to these bytes."""
        reader, writer = await self.connect(source)
        with contextlib.closing(writer):
            writer.write(request)
            return await read_answer(reader)


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, dict[bytes, bytes], bytes]:
    async with asyncio.timeout(60):
        head = await reader.readuntil(b"\r\n\r\n")
        found = headers_of(head)
        body = await reader.readexactly(int(found[b"content-length"]))
    return int(head.split()[1]), found, body


def rendered(
    folder: Path,
    port: int,
    replica_port: int,
    stats_port: int,
    metrics_port: int,
    grpc_replica_port: int = 0,
    grpc_port: int = 0,
    second_port: int = 0,
) -> Path:
    """What Serve writes for one application with one replica, or with none (0). Without gRPC where both ports are 0.

    second_port: of a second replica, 0: there is none."""
    has_grpc = bool(grpc_port or grpc_replica_port)
    settings = HAProxyConfig(
        http_options=HTTPOptions(host="127.0.0.1", port=port),
        grpc_options=gRPCOptions(
            port=grpc_port or free_port(), grpc_servicer_functions=[front.GRPC_SERVICES] if has_grpc else []
        ),
        socket_path=str(folder / "admin.sock"),
        server_state_base=str(folder),
        server_state_file=str(folder / "server-state"),
        stats_port=stats_port,
        metrics_port=metrics_port,
        nbthread=1,
        log_target="/dev/null",
        health_check_inter="100ms",
        is_head=True,
        has_received_routes=True,
        has_received_servers=True,
    )
    listening = [port for port in (replica_port, second_port) if port]
    servers = [ServerConfig(f"replica-{number}", "127.0.0.1", port) for number, port in enumerate(listening, 1)]
    fallback = ServerConfig("proxy", "127.0.0.1", 1)
    backend = BackendConfig("http-app", "/", app_name="app", servers=servers, fallback_server=fallback)
    backends = {backend.name: backend}
    if has_grpc:
        servers = [ServerConfig("grpc-1", "127.0.0.1", grpc_replica_port or replica_port)]
        if second_port:
            servers.append(ServerConfig("grpc-2", "127.0.0.1", second_port))
        backends["grpc-app"] = replace(backend, name="grpc-app", servers=servers, protocol=RequestProtocol.GRPC)
    path = folder / "haproxy.cfg"
    api = HAProxyApi(settings, backends, str(path))
    if has_grpc:
        api.set_grpc_fallback_server(fallback)
    api._generate_config_file_internal()
    return path


@contextlib.asynccontextmanager
async def running(
    replica: Replica | None = None,
    websocket_port: int | None = None,
    grpc_replica_port: int = 0,
    spare: Replica | None = None,
    second: Replica | None = None,
    **serve: Any,
) -> AsyncIterator[Front]:
    """HAProxy as Serve would start it. replica: None: there is none. spare: of this replica; second: one that works
    as well. serve: settings of that branch."""
    # Not below pytest's own folder: the path of a socket has room for a short one only.
    with tempfile.TemporaryDirectory(prefix="front-") as name:
        folder = Path(name)
        program = front.install(folder, settled(**serve), None, websocket_port, has_spare=spare is not None)
        (folder / "node").mkdir()
        another = spare or second
        servers = [await one.listen() for one in (replica, another) if one is not None]
        ports, second_port = free_ports(), another.port if another else 0
        replica_port = replica.port if replica else 0
        path = rendered(folder / "node", ports[0], replica_port, *ports[1:], grpc_replica_port, 0, second_port)
        process = await asyncio.create_subprocess_exec(program, "-db", "-f", path, "-dR", stderr=subprocess.PIPE)
        try:
            found = Front(ports[0], folder, replica or Replica(), process)
            await until_up(found, replica is not None)
            yield found
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.communicate()
            for server in servers:
                server.close()


def free_ports() -> tuple[int, int, int]:
    """For HTTP, HAProxy's statistics and its metrics."""
    return free_port(), free_port(), free_port()


async def until_up(found: Front, has_replica: bool) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            status, _, _ = await found.ask(b"GET /-/healthz HTTP/1.1\r\nhost: a\r\n\r\n")
            if status == (200 if has_replica else 503):
                return
        if found.process.returncode is not None:
            raise AssertionError((await found.process.communicate())[1].decode())
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
