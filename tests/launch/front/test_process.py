"""The front as a real process, with the configuration that Serve renders, before a replica of the test's."""

import asyncio
import contextlib
import dataclasses
import json
import os
import stat
import subprocess
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from websockets.utils import accept_key

from actors.identity.client_addresses import front_token
from actors.launch.front import installation as front
from actors.launch.front import process as front_process
from actors.launch.front.process import FolderNotOurs, close_folder
from bench.systems import free_port
from tests.launch.fronts import SECRET, Front, Replica, headers_of, read_answer, rendered, running, settled, until_up

_WEBSOCKET_KEY = b"dGhlIHNhbXBsZSBub25jZQ=="
_GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
_POST = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi"


def error_of(answer: tuple[int, dict[bytes, bytes], bytes], status: int) -> dict[str, object]:
    found, headers, body = answer
    assert found == status, answer
    assert headers[b"content-type"] == b"application/json"
    error: dict[str, object] = json.loads(body)["error"]
    return error


async def test_without_a_replica_the_front_says_503_as_the_interface_has_it() -> None:
    """Interface: -32003, `retry_after_secs`, `Retry-After`; at once, and a browser may read it."""
    async with running() as found:
        began = time.monotonic()
        answer = await found.ask(_POST)
        error = error_of(answer, 503)
        assert (error["code"], answer[1][b"retry-after"]) == (-32003, b"5")
        data = error["data"]
        assert isinstance(data, dict)
        assert data["retry_after_secs"] == 5
        assert answer[1][b"access-control-allow-origin"] == b"*"
        assert time.monotonic() - began < 2


async def test_a_spare_answers_as_soon_as_the_replica_is_dead() -> None:
    """A spare gets no call before. The first call after the death is answered too: its connection is refused, no byte
    of it reached a replica, and it is tried again."""
    replica, spare = Replica(), Replica()
    async with running(replica, spare=spare) as found:
        for _ in range(3):
            assert (await found.ask(_POST))[0] == 200
        assert (len(replica.requests), len(spare.requests)) == (3, 0)
        replica.die()
        for _ in range(3):
            assert (await found.ask(_POST))[0] == 200
        assert (len(replica.requests), len(spare.requests)) == (3, 3)


async def test_replicas_answer_on_while_serve_names_none() -> None:
    """A deployment with other arguments: Serve has no replicas for seconds, and those of before still listen."""
    replica = Replica()
    async with running(replica) as found:
        port = free_port()
        path = rendered(found.folder / "node", port, 0, free_port(), free_port())
        arguments = ("-db", "-f", path, "-dR")
        after = await asyncio.create_subprocess_exec(found.folder / "haproxy", *arguments, stderr=subprocess.PIPE)
        try:
            later = dataclasses.replace(found, port=port, process=after)
            await until_up(later, has_replica=True)
            assert (await later.ask(_POST))[0] == 200
            assert len(replica.requests) == 1
        finally:
            after.kill()
            await after.communicate()


async def test_a_call_that_reached_a_replica_is_not_sent_to_another() -> None:
    """A paid call would be executed twice: the client hears that the replica broke off, and decides."""

    async def break_off(_head: bytes, _reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> bool:
        return False

    replica, spare = Replica(behave=break_off), Replica()
    async with running(replica, spare=spare) as found:
        assert error_of(await found.ask(_POST), 502)["code"] == "UPSTREAM_ERROR"
        assert (len(replica.requests), spare.requests) == (1, [])


async def test_a_replica_that_is_busy_for_half_a_second_stays() -> None:
    """Health checks every 0.1 s here, as every second in a run: a late answer is no death, so no spare takes over."""
    replica, spare = Replica(), Replica()
    async with running(replica, spare=spare) as found:
        replica.check_seconds = 0.5
        for _ in range(4):  # Two late ones in a row would be enough to take it out.
            replica.checked.clear()
            await replica.checked.wait()
        assert (await found.ask(_POST))[0] == 200
        assert (len(replica.requests), spare.requests) == (1, [])


async def test_what_is_not_json_never_reaches_a_client() -> None:
    """Interface: errors have the interface's bodies, whoever behind the front made them; what the gateway says itself
    is not touched."""
    said: list[bytes] = []

    async def say(_head: bytes, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(said[-1])
        await writer.drain()
        return True

    async with running(Replica(behave=say)) as found:
        kinds = ((400, "INVALID_REQUEST"), (500, "INTERNAL_ERROR"), (502, "UPSTREAM_ERROR"), (503, -32003))
        for status, code in (*kinds, (504, "TIMEOUT")):
            said.append(b"HTTP/1.1 %d No\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nno" % status)
            assert error_of(await found.ask(_GET), status)["code"] == code
        ours = b'{"error":{"code":"X"}}'
        head = b"HTTP/1.1 503 No\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        said.append(head % len(ours) + ours)
        assert (await found.ask(_GET))[2] == ours


async def test_a_replica_that_breaks_off_is_502() -> None:
    """Interface: UPSTREAM_ERROR, with the hint when to ask again."""

    async def break_off(*_: object) -> bool:
        return False

    async with running(Replica(behave=break_off)) as found:
        answer = await found.ask(_POST)
        assert error_of(answer, 502)["code"] == "UPSTREAM_ERROR"
        assert answer[1][b"retry-after"] == b"2"


async def test_a_replica_that_hangs_is_504(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interface: TIMEOUT. The program reads its rules from the source, so a copy of it has a shorter limit here."""

    async def hang(*_: object) -> bool:
        await asyncio.sleep(10)
        return False

    source = Path(front_process.__file__).parent
    copy = tmp_path / "actors" / "launch" / "front"
    copy.mkdir(parents=True)
    for name in ("__init__.py", "affinity.py", "config.py", "last_servers.py", "process.py"):
        text = (source / name).read_text(encoding="utf-8").replace("_ANSWER_SECONDS = 60", "_ANSWER_SECONDS = 1")
        (copy / name).write_text(text, encoding="utf-8")
    (copy.parent / "__init__.py").touch()
    (tmp_path / "actors" / "__init__.py").touch()
    monkeypatch.setattr(front.actors, "__file__", str(tmp_path / "actors" / "__init__.py"))
    async with running(Replica(behave=hang)) as found:
        assert error_of(await found.ask(_POST), 504)["code"] == "TIMEOUT"


async def slowly(found: Front, beginning: bytes) -> tuple[float, bytes]:
    """After how many seconds a client is cut off that sends this and then a byte now and then, and what it was told."""
    began = time.monotonic()
    reader, writer = await found.connect()
    with contextlib.closing(writer):
        writer.write(beginning)
        while True:
            writer.write(b"x")
            with contextlib.suppress(TimeoutError):
                return time.monotonic() - began, await asyncio.wait_for(reader.read(4_096), 0.5)


@pytest.mark.threat(48)
async def test_slow_heads_and_bodies_are_cut_off_and_never_seen_by_a_replica() -> None:
    """Threat 48: hundreds of them are gone after the limit; the replica has the honest calls alone, at once."""
    replica = Replica()
    head, body = b"POST / HTTP/1.1\r\nhost: a\r\nx-slow: ", b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 999\r\n\r\n"
    async with running(replica, request_seconds_max=1) as found:
        attack = [asyncio.ensure_future(slowly(found, (head, body)[number % 2])) for number in range(400)]
        await asyncio.sleep(0.5)
        slowest = 0.0
        for _ in range(20):
            began = time.monotonic()
            assert (await found.ask(_POST))[0] == 200
            slowest = max(slowest, time.monotonic() - began)
        told = await asyncio.gather(*attack)
    assert len(replica.requests) == 20
    assert max(seconds for seconds, _ in told) < 30  # A second, on a machine that does nothing else.
    assert {answer[:12] for _, answer in told} == {b"HTTP/1.1 408"}
    assert {json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] for _, answer in told[1::2]} == {
        "INVALID_REQUEST"
    }
    assert slowest < 1


async def test_bodies_of_every_size_and_clients_that_ask_first_are_served() -> None:
    """What the limits must not touch: 250 kB, `Expect: 100-continue`, several requests on one connection."""
    async with running(Replica(), request_seconds_max=2) as found:
        reader, writer = await found.connect()
        with contextlib.closing(writer):
            for size in (0, 10, 20_000, 250_000):
                writer.write(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size)
                assert (await read_answer(reader))[2] == b'{"received":%d}' % size
            writer.write(b"POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
            writer.write(b"hello")
            assert (await read_answer(reader))[2] == b'{"received":5}'


@pytest.mark.threat(49)
async def test_the_replica_is_told_where_each_client_is() -> None:
    """Threat 49: the front's own word replaces what the client wrote under that name, once or twice; what an
    outer proxy says of its clients passes."""
    replica = Replica()
    async with running(replica) as found:
        forged = b"x-front-peer: a\r\nX-Front-Peer: b\r\nx-forwarded-for: 203.0.113.9\r\n"
        request = b"GET / HTTP/1.1\r\nhost: a\r\n" + forged + b"\r\n"
        for source in ("127.0.0.1", "127.0.0.2"):
            assert (await found.ask(request, source))[0] == 200
            head = replica.requests[-1]
            token, address = headers_of(head)[b"x-front-peer"].split()
            assert (head.lower().count(b"x-front-peer"), address.decode()) == (1, source)
            assert token == front_token(SECRET.encode())
            assert headers_of(head)[b"x-forwarded-for"] == b"203.0.113.9"


async def test_the_port_for_websockets_has_the_limits_of_the_http_port() -> None:
    """web3.js 1.x opens its WebSocket on the port after HTTP; the replica is told who the client is, a slow head is cut
    off, and HTTP/2 is refused there too."""

    async def upgrade(_head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n")
        writer.write(b"sec-websocket-accept: %b\r\n\r\n" % accept_key(_WEBSOCKET_KEY.decode()).encode())
        writer.write(await reader.readexactly(4))
        await writer.drain()
        return False

    replica = Replica(behave=upgrade)
    async with running(replica, websocket_port=free_port(), request_seconds_max=1) as found:
        second = dataclasses.replace(
            found, port=json.loads((found.folder / "front.json").read_text())["websocket_port"]
        )
        reader, writer = await second.connect("127.0.0.3")
        with contextlib.closing(writer):
            writer.write(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n")
            writer.write(b"sec-websocket-key: %b\r\nsec-websocket-version: 13\r\n" % _WEBSOCKET_KEY)
            writer.write(b"x-front-peer: forged\r\n\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
            writer.write(b"ping")
            assert await reader.readexactly(4) == b"ping"
        token, address = headers_of(replica.requests[-1])[b"x-front-peer"].split()
        assert (token, address) == (front_token(SECRET.encode()), b"127.0.0.3")
        _, answer = await slowly(second, b"GET / HTTP/1.1\r\nhost: a\r\nx-slow: ")
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert (await second.ask(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"))[0] == 400


@pytest.mark.threat(35)
async def test_one_address_cannot_take_all_connections() -> None:
    """Threat 35: when the front is nearly full, who has an eighth of it gets no more, and others still do."""
    async with running(Replica(), connections_max=256) as found:
        held = []
        for _ in range(300):
            with contextlib.suppress(ConnectionError):
                held.append(await found.connect())
        assert (await found.ask(_GET, "127.0.0.2"))[0] == 200
        for _, writer in held:
            writer.close()


async def test_http_2_is_not_taken() -> None:
    """Threat 45: its streams would escape the limits of connections and requests. An outer edge speaks it."""
    async with running(Replica()) as found:
        status, _, _ = await found.ask(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
        assert status == 400


@pytest.mark.threat(58)
async def test_figures_and_sockets_are_this_users_alone() -> None:
    """Threat 58: as psutil sees the process, and as the file system does."""
    async with running(Replica()) as found:
        listening = {
            connection.laddr.ip
            for connection in psutil.Process(found.process.pid).net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        }
        assert listening == {"127.0.0.1"}
        modes = {"": 0o700, "front.json": 0o600, "node": 0o700, "node/admin.sock": 0o600, "node/haproxy.cfg": 0o600}
        assert {name: stat.S_IMODE((found.folder / name).stat().st_mode) for name in modes} == modes


def started(program: Path, configuration: Path) -> tuple[int, str]:
    """Exit code and words of a start that is to fail."""
    done = subprocess.run([program, "-c", "-f", configuration], capture_output=True, text=True, check=False, timeout=20)
    return done.returncode, done.stderr


def test_a_configuration_that_does_not_fit_is_not_run() -> None:
    """Serve shows these words as the reason why HAProxy did not start."""
    with tempfile.TemporaryDirectory(prefix="front-") as name:
        folder = Path(name)
        program = front.install(folder, settled(), None)
        path = rendered(folder, 8080, 0, 8404, 9101)
        path.write_text(path.read_text(encoding="utf-8").replace("listen stats", "listen figures"), encoding="utf-8")
        code, words = started(program, path)
    assert code == 1
    assert words.startswith("front: in section 'listen stats'")


@pytest.mark.threat(58)
def test_a_folder_that_others_made_is_not_used(tmp_path: Path) -> None:
    """Threat 58: whoever makes the folder first could replace what is in it; a link is no folder either."""
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o755)
    close_folder(mine)
    assert stat.S_IMODE(mine.stat().st_mode) == 0o700
    link = tmp_path / "link"
    link.symlink_to(mine)
    with pytest.raises(FolderNotOurs):
        close_folder(link)
    if os.geteuid() == 0:
        os.chown(mine, 12_345, 12_345)
        with pytest.raises(FolderNotOurs):
            close_folder(mine)
