"""One QUIC connection of the TPU.

Implements: a client certificate is required. The identity of a peer is the Ed25519 key of its single certificate; as on
a validator, names, dates and signature are not checked, because the handshake has proved that the peer has the key. No
stream may be opened before the connection is admitted, then as many at once as the peer's stake allows; credit for
another stream is granted when a transaction is submitted. Streams are unidirectional and never answered. Each has one
transaction of at most 4,096 bytes; a stream that pauses for more than two seconds is dropped.
aioquic requests client certificates only by a private switch, offers a further key exchange group, and grants credit
by itself: only this module changes these private parts, and tests fail when aioquic changes them.
Not here: the limits (admission.py), the socket (door.py), executing transactions (chain/chain.py).
"""

import asyncio
import datetime
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import NameOID
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from devnode.faults.plan import TpuFate
from devnode.tpu.admission import Admitted, Throttle, TooMany

# A validator's certificate never expires; these are Agave's dates.
_NOT_BEFORE = datetime.datetime(1975, 1, 1, tzinfo=datetime.UTC)
_NOT_AFTER = datetime.datetime(4096, 1, 1, tzinfo=datetime.UTC)
_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Solana node")])
_SERIAL_NUMBER = 1
STREAM_BYTES_MAX = 4_096
PAUSE_SECONDS_MAX = 2.0
# Codes and reasons of a validator for closing a connection.
CLOSE_DROPPED = (1, "dropped")
CLOSE_DISALLOWED = (2, "disallowed")
CLOSE_TOO_MANY = (4, "too_many")
CLOSE_INVALID_STREAM = (5, "invalid_stream")
_CERTIFICATE_REQUIRED = QuicErrorCode.CRYPTO_ERROR + AlertDescription.certificate_required


def node_certificate(identity: Keypair) -> tuple[x509.Certificate, Ed25519PrivateKey]:
    key = Ed25519PrivateKey.from_private_bytes(bytes(identity.secret()))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_NAME)
        .issuer_name(_NAME)
        .public_key(key.public_key())
        .serial_number(_SERIAL_NUMBER)
        .not_valid_before(_NOT_BEFORE)
        .not_valid_after(_NOT_AFTER)
        .sign(key, None)
    )
    return certificate, key


def peer_identity(certificate: x509.Certificate | None, rest: Sequence[x509.Certificate]) -> Pubkey | None:
    """The identity of a peer; None for a peer without one, which counts by its address."""
    if certificate is None or rest:
        return None
    key = certificate.public_key()
    return Pubkey.from_bytes(key.public_bytes_raw()) if isinstance(key, Ed25519PublicKey) else None


class StreamTooLong(Exception):
    """The stream has more bytes than a transaction can have."""


@dataclass(slots=True)
class _Partial:
    data: bytearray
    at_seconds: float


@dataclass(slots=True)
class UnfinishedStreams:
    _open: dict[int, _Partial] = field(default_factory=dict)
    _dropped: set[int] = field(default_factory=set)

    @property
    def has_open(self) -> bool:
        return bool(self._open)

    def receive(self, stream: int, data: bytes, ends: bool, now_seconds: float) -> bytes | None:
        """Add a piece; returns the whole transaction when its stream has ended. Raises StreamTooLong."""
        if stream in self._dropped:
            if ends:
                self._dropped.discard(stream)
            return None
        partial = self._open.get(stream)
        size = len(data) + (0 if partial is None else len(partial.data))
        if size > STREAM_BYTES_MAX:
            raise StreamTooLong
        if ends:
            if partial is None:
                return data
            del self._open[stream]
            return bytes(partial.data) + data
        if partial is None:
            self._open[stream] = _Partial(bytearray(data), now_seconds)
        else:
            partial.data += data
            partial.at_seconds = now_seconds
        return None

    def forget(self, stream: int) -> bool:
        """Forget a stream that the peer has reset; False if it was not open."""
        self._dropped.discard(stream)
        return self._open.pop(stream, None) is not None

    def drop_stalled(self, now_seconds: float) -> list[int]:
        """Drop streams that have paused too long; their further pieces are ignored."""
        stalled = [
            stream for stream, partial in self._open.items() if now_seconds - partial.at_seconds > PAUSE_SECONDS_MAX
        ]
        for stream in stalled:
            del self._open[stream]
            self._dropped.add(stream)
        return stalled


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
        self._streams = UnfinishedStreams()
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
