"""A connection as clients meet it that keep no rule, and as others notice them."""

import asyncio
import contextlib
import runpy
import socket
import time
from typing import Any

import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
import pytest

from actors.grpc_http2 import connection, frames, server
from tests.grpc_http2.raw_peer import RawPeer, connected
from tests.grpc_http2.servers import SERVICE, Methods, framed, serving, until

ECHO, POUR, UPPER = (f"/{SERVICE}/{name}" for name in ("Echo", "Pour", "Upper"))
ENDED = h2.events.StreamEnded
GONE = h2.events.ConnectionTerminated
_PING = frames.HEAD.pack(0, 8, 6, 0, 0) + b"12345678"


@pytest.mark.parametrize("size", [1, 7, 1_000_000])
async def test_requests_are_the_same_however_bytes_are_cut(size: int) -> None:
    """By the socket, by frames, and with padding."""
    async with connected(Methods()) as peer:
        peer.http.send_headers(
            1,
            [
                *((":method", "POST"), (":path", ECHO), (":scheme", "http"), (":authority", "x")),
                ("content-type", "application/grpc"),
            ],
        )
        body = framed(b"one", b"", b"three" * 50)
        for at in range(0, len(body), 11):
            peer.http.send_data(1, body[at : at + 11], pad_length=5 if at == 22 else None)
        peer.http.end_stream(1)
        raw = peer.http.data_to_send()
        for at in range(0, len(raw), size):
            peer.writer.write(raw[at : at + size])
            await asyncio.sleep(0)
        assert await peer.status(1) == (0, "")
        assert peer.data(1) == body


async def test_a_pass_of_messages_shares_a_frame() -> None:
    """The purpose of the server: a hundred small messages are neither a hundred frames nor a hundred writes."""
    methods = Methods()
    methods.count, methods.size = 100, 50
    async with connected(methods) as peer:
        peer.call(1, POUR, ends=True)
        await peer.until(ENDED)
        assert peer.data(1) == framed(*(number.to_bytes(4) + bytes(50) for number in range(100)))
        assert len([one for one in peer.events if isinstance(one, h2.events.DataReceived)]) <= 3


@pytest.mark.parametrize("window_bytes", [1, 1_000, 70_000])
async def test_no_more_is_sent_than_the_windows_allow(window_bytes: int) -> None:
    """RFC 9113, 6.9: h2 on the other side ends the connection at a byte too much. Windows may also become negative."""
    methods = Methods()
    methods.count, methods.size = 60, 3_000
    async with connected(methods, window_bytes) as peer:
        peer.call(1, POUR, ends=True)
        peer.call(3, UPPER)
        peer.http.send_data(3, framed(b"beside"), end_stream=True)
        peer.flush()
        granted = 0
        while not any(isinstance(one, ENDED) and one.stream_id == 1 for one in peer.events):
            await peer.until(object, len(peer.events) + 1)
            assert not peer.has_ended
            came = len(peer.data(1)) + len(peer.data(3))
            for stream in (0, 1, 3):
                with contextlib.suppress(h2.exceptions.StreamClosedError):
                    peer.http.increment_flow_control_window(20_000, stream or None)
            if granted == 3:
                peer.http.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 10})
            granted += 1
            peer.flush()
        assert came
        assert len(peer.data(1)) == 60 * 3_009 and await peer.status(1) == (0, "")
        assert peer.data(3) in (framed(b"BESIDE"), b"")


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        frames.HEAD.pack(1 << 8, 0, frames.DATA, 0, 1),  # Longer than any frame may be.
        frames.HEAD.pack(0, 4, frames.WINDOW_UPDATE, 0, 0) + bytes(4),  # Grows by nothing.
        frames.window_update(0, frames.WINDOW_MAX),  # Grows above what a window may be.
        frames.HEAD.pack(0, 0, frames.DATA, 0, 77),  # Of a call that nobody began.
        frames.HEAD.pack(0, 6, 4, 0, 0) + b"\0\4\xff\xff\xff\xff",  # A setting out of its range.
        frames.HEAD.pack(0, 3, 1, 4, 1) + b"\xff\xff\xff",  # Headers that say nothing.
    ],
)
@pytest.mark.threat(48)
async def test_a_broken_rule_closes_the_connection_and_no_other(raw: bytes) -> None:
    """With a frame that says why, as RFC 9113, 5.4.1 asks."""
    async with serving(Methods()) as (_, port):
        other, peer = await RawPeer.connect(port), await RawPeer.connect(port)
        if raw[:3] == b"GET":
            peer.close()
            peer = RawPeer(*await asyncio.open_connection("127.0.0.1", port))
            peer.writer.write(raw)
            async with asyncio.timeout(10):
                while await peer._reader.read(1_000):
                    pass
        else:
            peer.flush(raw)
            (gone,) = await peer.until(GONE)
            assert gone.error_code != h2.errors.ErrorCodes.NO_ERROR
        other.call(1, ECHO, ends=True)
        assert await other.status(1) == (0, "")
        other.close()
        peer.close()


@pytest.mark.threat(35)
async def test_a_flood_of_frames_leaves_the_loop_to_others() -> None:
    """Threat 35: 3,000 pings are taken in passes of the loop, none of them long."""
    async with connected(Methods()) as peer:
        peer.call(1, ECHO)
        ping = frames.HEAD.pack(0, 8, 6, 0, 0) + b"12345678"
        longest, before = 0.0, time.perf_counter()
        peer.flush(ping * 3_000)
        reading = asyncio.create_task(peer.until(h2.events.PingAckReceived, 3_000))
        passes = 0
        while not reading.done():
            await asyncio.sleep(0)
            passes += 1
            now = time.perf_counter()
            longest, before = max(longest, now - before), now
        assert passes > 100, f"{passes} passes, the longest of {longest:.3f} s"


@pytest.mark.threat(35)
async def test_floods_of_many_connections_share_the_passes_of_the_loop() -> None:
    """Threat 35: ten connections that send pings hold a pass for no longer than one does."""
    async with serving(Methods()) as (_, port):
        peers = [await RawPeer.connect(port) for _ in range(10)]
        taken, at_once = list[int](), 0

        def count(original: Any) -> Any:
            def take(self: Any) -> None:
                nonlocal at_once
                at_once += self._is_waiting  # Not the first look at what has come.
                original(self)

            return take

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(connection.Connection, "_take", count(connection.Connection._take))
            for peer in peers:
                peer.writer.write(_PING * 2_000)
            while len(taken) < 1_000:
                await asyncio.sleep(0)
                taken, at_once = [*taken, at_once], 0
        assert sum(taken) > 100 and max(taken) == 1, max(taken)
        for peer in peers:
            peer.close()


@pytest.mark.threat(35)
async def test_a_client_that_reads_no_answers_is_cut_off() -> None:
    """Threat 35: answers to pings wait in memory while a client reads nothing; 17 bytes make 17."""
    async with serving(Methods()) as (served, port):
        with socket.socket() as silent:
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            silent.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(silent, ("127.0.0.1", port))
            await loop.sock_sendall(silent, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frames.HEAD.pack(0, 0, 4, 0, 0))
            await until(lambda: len(served._connections) == 1)
            (one,) = served._connections
            await until(lambda: one.has_greeted)
            one._transport.set_write_buffer_limits(1_000)
            with pytest.MonkeyPatch.context() as patch, pytest.raises(OSError):
                patch.setattr(connection, "UNREAD_BYTES_MAX", 20_000)
                while True:
                    await loop.sock_sendall(silent, _PING * 5_000)
            await until(lambda: not served._connections)


async def test_a_broken_rule_ends_the_calls_of_the_connection_at_once() -> None:
    """h2 sends nothing more of them, so nothing may be asked of it; nor do they last while the client reads nothing."""
    methods = Methods()
    async with connected(methods) as peer:
        said: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, found: said.append(found))
        peer.call(1, ECHO)
        peer.call(3, f"/{SERVICE}/Sleep", ("grpc-timeout", "100m"))
        peer.http.send_data(3, framed(b""), end_stream=True)
        peer.flush()
        await until(lambda: methods.running == 2)
        peer.flush(frames.HEAD.pack(0, 0, frames.DATA, 0, 77))
        await peer.until(GONE)
        await until(lambda: not methods.running)
        assert not said


@pytest.mark.threat(35)
async def test_unknown_settings_are_kept_by_nobody() -> None:
    """Threat 35: h2 keeps 800 bytes for each of 65,000; twenty connections would fill a gigabyte."""
    async with serving(Methods()) as (served, port):
        peer = await RawPeer.connect(port)
        for first in range(10, 40_000, 2_000):
            told = b"".join(code.to_bytes(2) + bytes(4) for code in range(first, first + 2_000))
            peer.flush(frames.HEAD.pack(len(told) >> 8, len(told) & 0xFF, frames.SETTINGS, 0, 0) + told)
        peer.call(1, ECHO, ends=True)
        assert await peer.status(1) == (0, "")
        (one,) = served._connections
        assert len(one._http.remote_settings) < 10
        peer.close()


async def test_a_server_may_stop_while_it_accepts_a_client() -> None:
    """Between the moment at which the loop makes the protocol of a connection and that at which it has its socket."""
    async with serving(Methods()) as (served, port):
        with socket.create_connection(("127.0.0.1", port)) as client:
            while not served._connections:  # noqa: ASYNC110 - each pass of the loop counts.
                await asyncio.sleep(0)
            await served.stop(None)
            client.setblocking(False)
            async with asyncio.timeout(10):
                while await asyncio.get_running_loop().sock_recv(client, 1_000):
                    pass
        await until(lambda: not served._connections)


async def test_a_client_that_says_goodbye_gets_the_rest_of_its_calls() -> None:
    """RFC 9113, 6.8: the connection closes behind the last of them."""
    async with connected(Methods()) as peer:
        peer.call(1, ECHO)
        await peer.until(h2.events.ResponseReceived)
        peer.flush(
            frames.goaway(0), frames.data_head(9, 1) + framed(b"last") + frames.HEAD.pack(0, 0, frames.DATA, 1, 1)
        )
        async with asyncio.timeout(10):
            while data := await peer._reader.read(1_000):
                peer.events.append(data)
        assert framed(b"last") in b"".join(one for one in peer.events if isinstance(one, bytes))


async def test_a_quiet_client_is_asked_and_a_silent_one_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that was lost says nothing; a client that only waits answers. One that never greets is closed."""
    monkeypatch.setattr(server, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(server, "_GREETING_SECONDS", 0.1)
    methods = Methods()
    async with serving(methods, quiet_seconds=0.1, silent_seconds=0.3) as (_, port):
        answering, silent = await RawPeer.connect(port), await RawPeer.connect(port)
        mute_reader, mute_writer = await asyncio.open_connection("127.0.0.1", port)
        for peer in (answering, silent):
            peer.call(1, ECHO)
            await peer.until(h2.events.ResponseReceived)
        listening = asyncio.create_task(answering.until(GONE))
        await until(lambda: methods.cancelled == 1)
        assert not listening.done() and methods.running == 1
        async with asyncio.timeout(10):
            while await mute_reader.read(1_000):
                pass
        listening.cancel()
        for one in (answering.writer, silent.writer, mute_writer):
            one.transport.abort()


def test_another_h2_is_told_when_a_process_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code on a library's insides says what is missing, before anybody is served."""
    monkeypatch.setattr(h2.connection, "H2Connection", object)
    with pytest.raises(ImportError, match=r"without _frame_dispatch_table, .*: install h2>=4\.3,<5"):
        runpy.run_path(connection.__file__)
