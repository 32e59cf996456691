"""One QUIC connection of the TPU.

Implements: a client certificate is required; no stream may be opened before the connection is admitted, then as many
at once as the peer's stake allows; credit for another stream is granted when a transaction is submitted. Streams are
unidirectional and never answered.
aioquic requests client certificates only by a private switch, offers a further key exchange group, and grants credit
by itself: only this module changes these private parts, and tests fail when aioquic changes them.
Not here: the limits (admission.py), the socket (door.py).
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.quic.connection import Limit, QuicConnection
from aioquic.quic.events import (
    ConnectionTerminated,
    HandshakeCompleted,
    QuicEvent,
    StreamDataReceived,
    StreamReset,
)
from aioquic.quic.packet import QuicErrorCode, QuicFrameType
from aioquic.tls import AlertDescription, Group
from solders.pubkey import Pubkey

from devnode.faults.plan import TpuFate
from devnode.tpu.admission import Admitted, Throttle, TooMany
from devnode.tpu.certificate import peer_identity
from devnode.tpu.streams import PAUSE_SECONDS_MAX, Streams, StreamTooLong

# Codes and reasons of a validator for closing a connection.
CLOSE_DROPPED = (1, "dropped")
CLOSE_DISALLOWED = (2, "disallowed")
CLOSE_TOO_MANY = (4, "too_many")
CLOSE_INVALID_STREAM = (5, "invalid_stream")
_CERTIFICATE_REQUIRED = QuicErrorCode.CRYPTO_ERROR + AlertDescription.certificate_required


class StreamCredit(Limit):
    """The number of streams that the peer may open since the start of the connection.

    aioquic adds one for each closed stream. This class ignores that, because credit is granted only after the
    transaction of a stream is submitted.
    """

    def __init__(self, of: Limit) -> None:
        self._granted = 0
        super().__init__(of.frame_type, of.name, 0)

    @property
    def value(self) -> int:
        return self._granted

    @value.setter
    def value(self, value: int) -> None:
        pass

    def grant(self, streams: int) -> None:
        self._granted += streams


class Door(Protocol):
    """The interface of the door for a connection."""

    def admit(self, connection: "TpuConnection", identity: Pubkey | None, address: str) -> Admitted | TooMany: ...

    def throttle(self, identity: Pubkey | None, address: str) -> Throttle: ...

    def left(self, connection: "TpuConnection") -> None: ...

    def submit(self, raw: bytes) -> None: ...

    def fate(self, connection_id: bytes) -> TpuFate: ...


class TpuConnection(QuicConnectionProtocol):
    def __init__(self, quic: QuicConnection, door: Door, **rest: Any) -> None:
        super().__init__(quic, **rest)
        self._door = door
        self._streams = Streams()
        self._waiting: deque[bytes] = deque()
        self._throttle = Throttle(0)
        self._fate = TpuFate.SERVED
        self._retry: asyncio.TimerHandle | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self.credit = StreamCredit(quic._local_max_streams_uni)
        quic._local_max_streams_uni = self.credit
        quic._local_max_streams_bidi = Limit(quic._local_max_streams_bidi.frame_type, "max_streams_bidi", 0)
        _ask_for_certificate(quic)

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, StreamDataReceived):
            self._data_received(event)
        elif isinstance(event, StreamReset):
            if self._streams.forget(event.stream_id):
                self.credit.grant(1)
        elif isinstance(event, HandshakeCompleted):
            self._handshake_completed()
        elif isinstance(event, ConnectionTerminated):
            self._terminated()

    def close_with(self, reason: tuple[int, str]) -> None:
        self.close(*reason)

    def _handshake_completed(self) -> None:
        tls = self._quic.tls
        certificate = tls._peer_certificate
        if certificate is None:
            self._quic.close(_CERTIFICATE_REQUIRED, QuicFrameType.CRYPTO, "peer sent no certificates")
            self.transmit()
            return
        self._fate = self._door.fate(self._quic.original_destination_connection_id)
        if self._fate is TpuFate.REFUSED:
            self.close_with(CLOSE_DISALLOWED)
            return
        identity = peer_identity(certificate, tls._peer_certificate_chain)
        address: str = self._quic._network_paths[0].addr[0]
        admitted = self._door.admit(self, identity, address)
        if isinstance(admitted, TooMany):
            self.close_with(CLOSE_TOO_MANY)
            return
        self._throttle = self._door.throttle(identity, address)
        self.credit.grant(admitted.streams)
        self.transmit()

    def _data_received(self, event: StreamDataReceived) -> None:
        now = self._loop.time()
        try:
            raw = self._streams.receive(event.stream_id, event.data, event.end_stream, now)
        except StreamTooLong:
            self.close_with(CLOSE_INVALID_STREAM)
            return
        if raw is not None and self._fate is TpuFate.BROKEN:
            self.close_with(CLOSE_DROPPED)
        elif raw is not None:
            self._waiting.append(raw)
            if self._retry is None:
                self._submit_waiting()
        elif self._sweep is None and self._streams.has_open:
            self._sweep = self._loop.call_later(PAUSE_SECONDS_MAX, self._drop_stalled)

    def _submit_waiting(self) -> None:
        """Submit transactions, in the order in which they were complete, as fast as the rate allows."""
        self._retry = None
        while self._waiting:
            wait_seconds = self._throttle.wait_seconds(self._loop.time())
            if wait_seconds:
                self._retry = self._loop.call_later(wait_seconds, self._submit_more)
                return
            self._door.submit(self._waiting.popleft())
            self.credit.grant(1)

    def _submit_more(self) -> None:
        self._submit_waiting()
        self.transmit()  # Send the new credit to the peer.

    def _drop_stalled(self) -> None:
        self._sweep = None
        stalled = self._streams.drop_stalled(self._loop.time())
        if stalled:
            self.credit.grant(len(stalled))
            self.transmit()
        if self._streams.has_open:
            self._sweep = self._loop.call_later(PAUSE_SECONDS_MAX, self._drop_stalled)

    def _terminated(self) -> None:
        """Submit all complete transactions after the end of the connection, as a validator does."""
        for timer in (self._retry, self._sweep):
            if timer is not None:
                timer.cancel()
        self._retry = self._sweep = None
        while self._waiting:
            self._door.submit(self._waiting.popleft())
        self._door.left(self)


def _ask_for_certificate(quic: QuicConnection) -> None:
    initialize: Callable[[bytes], None] = quic._initialize

    def initialize_and_ask(peer_cid: bytes) -> None:
        initialize(peer_cid)
        quic.tls._request_client_certificate = True
        quic.tls._supported_groups = [Group.X25519]

    quic._initialize = initialize_and_ask  # type: ignore[method-assign]
