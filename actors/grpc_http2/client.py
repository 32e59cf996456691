"""Calls of gRPC to one endpoint, over as few connections as its limit of calls allows.

Implements: the gRPC protocol over HTTP/2, from the client's side, as far as calls with messages in both ways need it.
Connections are made when a call needs one. One that is quiet while it has calls is asked for a sign, and is cut off
without an answer: a machine that was lost says nothing. Compression is not offered.
Not here: a call (client_call.py), calls that are answered once (grpcio makes those).
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import grpc
import h2.events
import h2.exceptions
import h2.settings
from h2.config import H2Configuration

from actors.background import Background
from actors.grpc_http2.client_call import CallFailed, ClientCall
from actors.grpc_http2.connection import Connection, Settings
from actors.grpc_http2.links import Headers
from actors.grpc_http2.turns import Turns

logger = logging.getLogger(__name__)

_FRAME_BYTES_MAX = 1 << 15  # Taken whole: 6,500 messages without content, 3 ms.
_BYTES_OF_A_UNIT = 1_024
_CONNECT_SECONDS = 10.0
_REFUSED_SECONDS = 0.1  # After a failure; calls until then fail as well, so a thousand do not make a thousand attempts.
_STREAMS_LAST = (1 << 31) - 1
_LOOK_SECONDS, _QUIET_SECONDS, _SILENT_SECONDS = 2.5, 10.0, 5.0
_CODE = h2.settings.SettingCodes
_CONFIG = H2Configuration(
    client_side=True, header_encoding=False, validate_outbound_headers=False, normalize_outbound_headers=False
)


class GrpcClient:
    """Belongs to one event loop. url: http:// for an endpoint without TLS, https:// for one with it, which the
    certificates of the machine must prove. window_bytes: what the endpoint may send of a call before it is read."""

    def __init__(self, url: str, metadata: Mapping[str, str], message_bytes_max: int, window_bytes: int) -> None:
        parts = urlsplit(url)
        self._host, is_secure = parts.hostname or "", parts.scheme == "https"
        self._port = parts.port or (443 if is_secure else 80)
        self._message_bytes_max, self._window_bytes = message_bytes_max, window_bytes
        self._tls = ssl.create_default_context() if is_secure else None
        if self._tls is not None:
            self._tls.set_alpn_protocols(["h2"])
        told = {":method": "POST", ":scheme": parts.scheme, ":authority": parts.netloc.rpartition("@")[2]}
        told |= {"te": "trailers", "content-type": "application/grpc", "grpc-accept-encoding": "identity"}
        self._headers = [(name.encode(), value.encode()) for name, value in (told | dict(metadata)).items()]
        self._connections: dict[ClientConnection, None] = {}
        self._connecting = asyncio.Lock()
        self._failed: tuple[float, CallFailed] | None = None  # The newest attempt to connect, and when.
        self._background = Background(logger, "watching connections of gRPC failed")

    async def open(self, path: str) -> ClientCall:
        """Begin a call of this method. Raises CallFailed where nobody answers."""
        headers = [self._headers[0], (b":path", path.encode()), *self._headers[1:]]
        async with self._connecting:
            for connection in tuple(self._connections):
                if connection.has_room:
                    return connection.begin(headers)
            now = asyncio.get_running_loop().time
            if self._failed is not None and now() - self._failed[0] < _REFUSED_SECONDS:
                raise CallFailed(self._failed[1].code, self._failed[1].text)
            try:
                return (await self._connect()).begin(headers)
            except CallFailed as failed:
                self._failed = now(), failed
                raise

    async def close(self) -> None:
        await self._background.stop()
        for connection in tuple(self._connections):
            connection.close()

    async def _connect(self) -> "ClientConnection":
        connection = ClientConnection(self._forget, self._message_bytes_max, self._window_bytes)
        name = self._host if self._tls is not None else None
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await asyncio.get_running_loop().create_connection(
                    lambda: connection, self._host, self._port, ssl=self._tls, server_hostname=name
                )
                await connection.greeted.wait()
        except (OSError, TimeoutError, UnicodeError) as error:  # UnicodeError: the host can be no name.
            connection.close()
            raise CallFailed(grpc.StatusCode.UNAVAILABLE, f"no connection: {type(error).__name__}") from error
        except asyncio.CancelledError:
            connection.close()
            raise
        if not connection.has_room:
            connection.close()
            why = "takes no calls" if connection.has_settings else "does not speak HTTP/2"
            raise CallFailed(grpc.StatusCode.UNAVAILABLE, f"no connection: the peer {why}")
        if not len(self._background):
            self._background.start(self._watch())
        self._connections[connection] = None
        return connection

    def _forget(self, connection: "ClientConnection") -> None:
        self._connections.pop(connection, None)

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            for connection in tuple(self._connections):
                connection.leave_if_idle()
                connection.watch(loop.time(), _QUIET_SECONDS, _SILENT_SECONDS)


class ClientConnection(Connection[ClientCall]):
    """greeted: set when the peer has told its settings, or the connection has ended. forget: called at the end."""

    def __init__(self, forget: Callable[["ClientConnection"], None], message_bytes_max: int, window_bytes: int) -> None:
        settings: Settings = {
            _CODE.ENABLE_PUSH: 0,
            _CODE.INITIAL_WINDOW_SIZE: window_bytes,
            _CODE.MAX_FRAME_SIZE: _FRAME_BYTES_MAX,
        }
        super().__init__(_CONFIG, settings, _BYTES_OF_A_UNIT, Turns())
        self._forget, self._message_bytes_max, self._receive_bytes = forget, message_bytes_max, window_bytes
        self.greeted = asyncio.Event()
        self.has_settings = self._was_idle = False

    @property
    def has_room(self) -> bool:
        """Whether a call may begin here."""
        most = self._http.remote_settings.max_concurrent_streams
        if not self.has_settings or self.takes_no_more or self._http.highest_outbound_stream_id >= _STREAMS_LAST:
            return False
        return self._http.open_outbound_streams < most

    def begin(self, headers: Headers) -> ClientCall:
        stream = self._http.get_next_available_stream_id()
        window_bytes = self._stream_window_bytes
        call = ClientCall(self, stream, window_bytes, self._message_bytes_max, self._receive_bytes)
        self._calls[stream] = call
        self._was_idle = False
        self._http.send_headers(stream, headers)
        self._transport.write(self._http.data_to_send())
        return call

    def take_event(self, event: h2.events.Event) -> None:
        if not isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
            return
        call = self._calls.get(event.stream_id or 0)
        if call is not None:
            headers = event.headers or ()
            call.take_headers({name.decode("latin-1"): value.decode(errors="replace") for name, value in headers})
            if call.is_half_closed:  # Our side is open still.
                self.reset(call)

    def take_settings(self, event: h2.events.RemoteSettingsChanged) -> None:
        super().take_settings(event)
        self.has_settings = True
        self.greeted.set()

    def leave_if_idle(self) -> None:
        """Close, if it had no calls at two looks that follow each other: nobody would notice that it is dead."""
        if not self._calls and self._was_idle:
            self.leave()
        self._was_idle = not self._calls

    def take_goodbye(self, last_stream: int) -> None:
        self._is_leaving = True
        for call in self.calls:
            if call.stream > last_stream:
                self._drop(call)
                call.left("the peer closes the connection")
        self._close_if_done()

    def _close_if_done(self) -> None:
        if not self._calls and self.has_settings and not self.has_room:
            self._is_leaving = True  # No call can begin here, as the peer says; a new connection is made.
        super()._close_if_done()

    def closed(self) -> None:
        self.greeted.set()
        self._forget(self)
