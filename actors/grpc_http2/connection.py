"""One connection of gRPC: its frames, the windows, and what is written in one piece. Both sides stand on it.

Implements: RFC 9113 with h2, but for frames of plain data and their windows (frames.py). All messages that the calls of
a connection have written in a pass of the loop go out in one write, several in a frame: a message costs neither a frame
nor a system call of its own.
A pass takes as much from the peer as UNITS_A_PASS allows; the rest waits, and meanwhile nothing is read. A flush writes
FLUSH_BYTES at most, and nothing while the socket is full.
Connections that wait for their next pass may share it (turns.py).
When full: what calls have written waits in them, and so do their writers.
Not here: what a call is (server_call.py, client_call.py), who begins calls (server.py, client.py).
"""

import asyncio
from typing import Any, Generic, NoReturn, TypeVar

import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
from h2.config import H2Configuration

from actors.grpc_http2 import frames
from actors.grpc_http2.links import GrpcCall, peer_name
from actors.grpc_http2.turns import Turns

UNITS_A_PASS = 1_000  # Of about a microsecond each.
_UNITS_OF_H2, _UNITS_OF_HEADERS = 50, 400
_UNITS_OF_WINDOW = 2  # Of each call, when its peer changes the windows of all.
FLUSH_BYTES = 256 * 1024
CONNECTION_WINDOW_BYTES = 16 << 20  # Given again at once: what calls may hold is limited by their own windows.
UNREAD_BYTES_MAX = 1 << 20  # Written to a peer that does not read: a flush, and answers to its pings and resets.
_CLOSE_SECONDS = 10.0
_HEADERS, _CONTINUATION, _END_HEADERS = 1, 9, 4
_STREAM_MASK = 0x7FFFFFFF
_INITIAL_WINDOW_SIZE = h2.settings.SettingCodes.INITIAL_WINDOW_SIZE
Settings = dict[h2.settings.SettingCodes, int]
OneCall = TypeVar("OneCall", bound=GrpcCall)
_INSIDE = ("_frame_dispatch_table", "max_inbound_frame_size", "decoder", "highest_inbound_stream_id")

if missing := [name for name in _INSIDE if not hasattr(h2.connection.H2Connection(), name)]:
    raise ImportError(f"h2 is another one than this version expects, without {', '.join(missing)}: install h2>=4.3,<5")


class Connection(asyncio.Protocol, Generic[OneCall]):
    """settings: what we tell the peer. bytes_of_a_unit: data that is taken in a microsecond, at the least. turns: of
    the connections that share the passes of the loop."""

    def __init__(self, config: H2Configuration, settings: Settings, bytes_of_a_unit: int, turns: Turns) -> None:
        self._http = h2.connection.H2Connection(config)
        is_client = bool(config.client_side)
        self._http.local_settings = h2.settings.Settings(client=is_client, initial_values=settings)
        self._frame_bytes_max = settings[h2.settings.SettingCodes.MAX_FRAME_SIZE]
        self._http.max_inbound_frame_size = self._frame_bytes_max  # h2 has set it before it got these settings.
        self._bytes_of_a_unit, self._turns = bytes_of_a_unit, turns
        self.peer = "unknown"
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._greeting_left = 0 if is_client else frames.GREETING_BYTES
        self._rest = b""  # Bytes that came and are not taken: part of a frame, or frames that wait for the next pass.
        self._is_waiting = self._is_scheduled = self._is_full = self._is_ended = self._is_leaving = False
        self._is_inside_headers = False
        self._units = 0  # That this pass has left.
        self._calls: dict[int, OneCall] = {}
        self._sending: dict[OneCall, None] = {}
        self._last_stream = 0
        self._window_bytes = frames.WINDOW_AT_FIRST  # That the peer lets us send of all calls together.
        self._stream_window_bytes = frames.WINDOW_AT_FIRST  # Of a new call.
        self._ungranted_bytes = 0
        self.heard_at = self._loop.time()
        self._pinged_at: float | None = None
        self._closing: asyncio.TimerHandle | None = None

    @property
    def has_greeted(self) -> bool:
        return not self._greeting_left

    @property
    def calls(self) -> tuple[OneCall, ...]:
        return tuple(self._calls.values())

    @property
    def takes_no_more(self) -> bool:
        return self._is_leaving or self._is_ended

    # --- what the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self.peer = peer_name(transport.get_extra_info("peername"))
        self._http.initiate_connection()
        self._http.increment_flow_control_window(CONNECTION_WINDOW_BYTES - frames.WINDOW_AT_FIRST)
        self._transport.write(self._http.data_to_send())
        self._close_if_done()  # A connection may be asked to leave before it is made.

    def data_received(self, data: bytes) -> None:
        self.heard_at, self._pinged_at = self._loop.time(), None
        self._rest = self._rest + data if self._rest else data
        if not self._is_waiting:
            self._take()

    def eof_received(self) -> bool:
        """Close: a peer that has no more to say cannot grant windows either."""
        self._is_leaving = True
        self.close()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._end("the connection was lost" if error is None else type(error).__name__)
        if self._closing is not None:
            self._closing.cancel()
        # h2 refers to itself in here: its state would stay until a rare and long pass of the garbage collector.
        self._http._frame_dispatch_table.clear()
        self.closed()

    def _end(self, text: str) -> None:
        """End all calls; nothing is taken or sent any more."""
        self._is_ended = True
        calls, self._calls, self._rest = self.calls, {}, b""
        self._sending.clear()
        for call in calls:
            call.left(text)

    def closed(self) -> None:
        """Called once, when the connection has ended."""

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._send()

    # --- what the server asks for

    def leave(self) -> None:
        """Take no more calls; the connection closes with its last one."""
        if not self._is_leaving and not self._is_ended:
            self._is_leaving = True
            if self._transport is not None:  # Accepted, and made in the next pass of the loop.
                self._transport.write(frames.goaway(self._last_stream))
            self._close_if_done()

    def close(self) -> None:
        """Close behind what was written; whoever does not take it within a while is cut off."""
        if self._transport is not None and self._closing is None:
            self._transport.close()
            self._closing = self._loop.call_later(_CLOSE_SECONDS, self._transport.abort)

    def watch(self, now: float, quiet_seconds: float, silent_seconds: float) -> None:
        """Ask a client with calls that was quiet for so long for a sign; without one for so long it is cut off."""
        if self._is_ended or not self._calls:
            return
        if self._pinged_at is None:
            if now - self.heard_at >= quiet_seconds:
                self._pinged_at = now
                self._http.ping(b"quiet???")
                self._transport.write(self._http.data_to_send())
        elif now - self._pinged_at >= silent_seconds:
            self._transport.abort()

    # --- frames that come

    def _take(self) -> None:
        """Take frames, as far as this pass allows."""
        was_waiting, self._is_waiting = self._is_waiting, False
        if self._is_ended:
            return
        try:
            is_all = self._take_frames()
        except h2.exceptions.H2Error:
            self._transport.write(self._http.data_to_send())  # Its reason.
            self._end("the peer breaks rules of HTTP/2")
            self.close()
            return
        except BaseException:
            self._transport.abort()  # A fault of ours must not leave a connection that is read no more.
            raise
        if not is_all:
            if not was_waiting:
                self._transport.pause_reading()
            self._is_waiting = True
            self._turns.wait(self._take)
        elif was_waiting:
            self._transport.resume_reading()
        if answer := self._http.data_to_send():
            self._transport.write(answer)
        if self._is_full and self._transport.get_write_buffer_size() > UNREAD_BYTES_MAX:
            self._transport.abort()
        self._close_if_done()

    def _take_frames(self) -> bool:
        """Return False when this pass has had enough."""
        data, at, self._units = self._rest, 0, UNITS_A_PASS
        if self._greeting_left:
            at = min(self._greeting_left, len(data))
            self._greeting_left -= at
            self._http.receive_data(data[:at])
        while self._units > 0 and len(data) - at >= frames.HEAD.size:
            high, low, kind, flags, stream = frames.HEAD.unpack_from(data, at)
            stream &= _STREAM_MASK
            length = high << 8 | low
            begins = at + frames.HEAD.size
            if length > self._frame_bytes_max:
                self._fail(h2.errors.ErrorCodes.FRAME_SIZE_ERROR)
            if begins + length > len(data):
                break
            self._units -= 1 + length // self._bytes_of_a_unit
            if self._is_inside_headers or not self._take_plain(kind, flags, stream, data, begins, length):
                self._units -= _UNITS_OF_HEADERS if kind == _HEADERS else _UNITS_OF_H2
                if kind in (_HEADERS, _CONTINUATION):
                    self._is_inside_headers = not flags & _END_HEADERS
                frame = data[at : begins + length]
                if kind == frames.SETTINGS and length and not length % frames.SETTING_BYTES and not stream:
                    self._units -= _UNITS_OF_WINDOW * len(self._calls)
                    frame = frames.known_settings(flags, frame[frames.HEAD.size :])
                self._take_events(self._http.receive_data(frame))
            at = begins + length
        self._rest = data[at:]
        return self._units > 0 or not self._rest

    def _take_plain(self, kind: int, flags: int, stream: int, data: bytes, begins: int, length: int) -> bool:
        """Take a frame without h2, if it is plain data of a call, or a window of one. False: h2 takes it."""
        call = self._calls.get(stream)
        if kind == frames.DATA and call is not None and call.is_plain and not flags & ~frames.END_STREAM:
            self._take_data(call, memoryview(data)[begins : begins + length], length)
            self._count(length)
            if flags:  # The end of the client's side is for h2 as well, which keeps the state of the call.
                self._take_events(self._http.receive_data(frames.HEAD.pack(0, 0, frames.DATA, flags, stream)))
            return True
        if kind == frames.DATA and call is None and self._has_begun(stream):
            self._count(length)  # The call ended here, which its peer may not know yet. h2 would answer each frame.
            return True
        if kind == frames.GOAWAY and length >= frames.LAST_STREAM.size:
            # h2 would take no frame any more, also not of calls that go on.
            self.take_goodbye(frames.LAST_STREAM.unpack_from(data, begins)[0] & _STREAM_MASK)
            return True
        if kind != frames.WINDOW_UPDATE or length != frames.GROWN.size or (stream and call is None):
            return False
        grown = frames.GROWN.unpack_from(data, begins)[0] & _STREAM_MASK
        if not grown:
            return False  # An error, which h2 names.
        if call is None:
            self._window_bytes += grown
            self._go_on_sending()
        else:
            self._let_send(call, grown)
        if self._window_bytes > frames.WINDOW_MAX:
            self._fail(h2.errors.ErrorCodes.FLOW_CONTROL_ERROR)
        return True

    def _has_begun(self, stream: int) -> bool:
        begun = max(self._http.highest_inbound_stream_id, self._http.highest_outbound_stream_id)
        return bool(stream & 1) and stream <= begun

    def _take_data(self, call: OneCall, data: bytes | memoryview, counted: int) -> None:
        call.receivable_bytes -= counted
        if call.receivable_bytes < 0:
            self._fail(h2.errors.ErrorCodes.FLOW_CONTROL_ERROR)
        call.take(data, counted)

    def _let_send(self, call: OneCall, grown: int) -> None:
        call.window_bytes += grown
        if call.window_bytes > frames.WINDOW_MAX:
            self._fail(h2.errors.ErrorCodes.FLOW_CONTROL_ERROR)
        if call.out.bytes:
            self.schedule(call)

    def _take_events(self, events: list[h2.events.Event]) -> None:
        for event in events:
            match event:
                case h2.events.DataReceived():  # With padding, or of a call with a length.
                    if (call := self._calls.get(event.stream_id)) is not None:
                        counted = event.flow_controlled_length or 0
                        call.counted_by_h2 += counted
                        self._take_data(call, event.data or b"", counted)
                case h2.events.StreamEnded():
                    if (call := self._calls.get(event.stream_id)) is not None:
                        call.take_end()
                case h2.events.StreamReset():
                    if (call := self._calls.get(event.stream_id)) is not None:
                        self._drop(call)
                        call.left(f"the peer reset the call: {event.error_code!r}")
                case h2.events.RemoteSettingsChanged():
                    self.take_settings(event)
                case _:
                    self.take_event(event)

    def take_event(self, event: h2.events.Event) -> None:
        """Take what only one side of a connection meets: a request, or an answer."""

    def take_goodbye(self, last_stream: int) -> None:
        """Take the peer's word that it goes: no call begins here any more; those up to this one go on."""
        self.leave()

    def take_settings(self, event: h2.events.RemoteSettingsChanged) -> None:
        changed = event.changed_settings.get(_INITIAL_WINDOW_SIZE)
        if changed is not None:
            grown, self._stream_window_bytes = changed.new_value - self._stream_window_bytes, changed.new_value
            for call in self.calls:
                self._let_send(call, grown)

    def _count(self, length: int) -> None:
        """Grant the connection's own window again at once: what calls may hold is limited by theirs."""
        self._ungranted_bytes += length
        if self._ungranted_bytes > CONNECTION_WINDOW_BYTES // 2:
            self._transport.write(frames.window_update(0, self._ungranted_bytes))
            self._ungranted_bytes = 0

    def _fail(self, code: h2.errors.ErrorCodes) -> NoReturn:
        self._http.close_connection(code)
        raise h2.exceptions.ProtocolError(code.name)

    # --- frames that go (links.CallLink)

    def schedule(self, call: OneCall) -> None:
        self._sending[call] = None
        self._go_on_sending()

    def send(self, call: OneCall) -> None:
        self._sending[call] = None
        self._send()

    def grant(self, call: OneCall, size: int) -> None:
        if self._is_ended:
            return
        if by_h2 := min(size, call.counted_by_h2):  # h2 grants what it has counted, of call and connection.
            call.counted_by_h2 -= by_h2
            self._http.acknowledge_received_data(by_h2, call.stream)
            self._transport.write(self._http.data_to_send())
        if size > by_h2:
            self._transport.write(frames.window_update(call.stream, size - by_h2))

    def reset(self, call: OneCall) -> None:
        if not self._is_ended:
            self._http.reset_stream(call.stream, h2.errors.ErrorCodes.CANCEL)
            self._transport.write(self._http.data_to_send())
            self._drop(call)
            self._close_if_done()

    def spend(self, units: int) -> None:
        self._units -= units

    def _go_on_sending(self) -> None:
        if self._sending and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_scheduled = False
        self._send()

    def _send(self) -> None:
        """Write what the calls have, in one piece, as far as windows and socket allow."""
        if self._is_ended or self._is_full:
            return
        parts, left = list[bytes | memoryview]((self._http.data_to_send(),)), FLUSH_BYTES
        for call in tuple(self._sending):
            left -= self._send_of(call, parts, left)
            if left <= 0:
                self._go_on_sending()
                break
        if whole := b"".join(parts):
            self._transport.write(whole)
        self._close_if_done()

    def _send_of(self, call: OneCall, parts: list[bytes | memoryview], bytes_max: int) -> int:
        """Add what this call may send, and return how many bytes of data it is."""
        if (headers := call.start()) is not None:
            self._http.send_headers(call.stream, headers)
            parts.append(self._http.data_to_send())
        out, size = call.out, 0
        if out.bytes:
            size = min(out.bytes, self._window_bytes, call.window_bytes, bytes_max)
            if size > 0:
                self._window_bytes -= size
                call.window_bytes -= size
                parts += out.frames(call.stream, size, self._http.max_outbound_frame_size)
        del self._sending[call]
        if out.bytes:
            if call.window_bytes > 0:  # Otherwise it goes on when its window grows.
                self._sending[call] = None  # Behind the others.
        elif (trailers := call.trailers()) is None:
            call.sent()
        else:
            self._http.send_headers(call.stream, trailers, end_stream=True)
            if not call.is_half_closed:  # The client need not send the rest.
                self._http.reset_stream(call.stream, h2.errors.ErrorCodes.NO_ERROR)
            parts.append(self._http.data_to_send())
            self._drop(call)
            call.over()
        return max(size, 0)

    def _drop(self, call: OneCall) -> None:
        self._calls.pop(call.stream, None)
        self._sending.pop(call, None)

    def _close_if_done(self) -> None:
        if self._is_leaving and not self._calls and not self._is_ended:
            self.close()
