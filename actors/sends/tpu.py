"""The leg tpu_quic: transactions straight to the next leaders, over connections that are kept warm.

Implements: the TPU's QUIC as Agave has it: ALPN solana-tpu, an Ed25519 client certificate, one unidirectional stream
for each transaction, no stream before the leader allows one. A leader takes at most 8 new connections a minute of our
address, so connections are kept to the next leaders alone, and a leader that refused one is left alone for a while.
A shell. Which leaders: leaders.py. QUIC says only that bytes have arrived, so an acknowledgement here is the leader's
acknowledgement of the packets, never of the transaction.
"""

import asyncio
import datetime
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import orjson
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

from actors.background import Background
from actors.clock import Clock
from actors.methods.signed_transactions import SignedTransaction
from actors.sends.leaders import SLOTS_AHEAD, Schedule, next_leaders, ports_of
from actors.sends.legs import LEG_MS, TPU_QUIC, Submission
from actors.upstream.replies import Node, value_of

logger = logging.getLogger(__name__)

Address = tuple[str, int]

ALPN = "solana-tpu"
FAN_OUT = 2
_WARM = FAN_OUT + 1
_IDLE_SECONDS = 10.0
_PING_SECONDS = 1.0  # Validators close silent connections; many after two seconds.
_HANDSHAKE_SECONDS = 2.0
_AGAIN_SECONDS = 8.0  # A server accepts 8 new connections of an address in a minute.
_PORTS_SECONDS = 300.0
_ASK_AGAIN_SECONDS = 5.0  # After a failed answer: some nodes refuse these methods, which are not cheap.
_ASK_MS = 1_500
_STREAMS_MAX = 512  # Concurrent streams to one leader.


class TpuQuicLeg:
    """slot: the newest slot that is known; None: not known yet. key: its Ed25519 identity for leaders.
    private_leaders: whether leaders may be at private addresses."""

    name = TPU_QUIC

    def __init__(
        self,
        node: Node,
        clock: Clock,
        slot: Callable[[], int | None],
        key: Ed25519PrivateKey,
        fan_out: int = FAN_OUT,
        private_leaders: bool = False,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._node, self._clock, self._slot, self._sleep = node, clock, slot, sleep
        self._private_leaders = private_leaders
        self._certificate, self._key, self._fan_out = _certificate(key), key, fan_out
        self._schedule: Schedule | None = None
        self._ports_at = self._asked_ports_at = self._asked_leaders_at = float("-inf")
        self._links: dict[Address, _Link] = {}
        self._background = Background(logger, "keeping up the links to leaders failed")

    def takes(self, transaction: SignedTransaction) -> bool:
        return True

    def start(self) -> None:
        self._background.start(self._keep_up())

    async def close(self) -> None:
        await self._background.stop()
        await asyncio.gather(*(link.close() for link in self._links.values()))
        self._links.clear()

    @property
    def warm(self) -> tuple[Address, ...]:
        """Return the leaders with an open connection."""
        return tuple(address for address, link in self._links.items() if link.open)

    async def send(self, transaction: SignedTransaction) -> Submission:
        """Send to the present and the next leader. One that has the bytes is enough."""
        slot, schedule = self._slot(), self._schedule
        if slot is None or schedule is None:
            return Submission(None, None, "the leader schedule is not known yet")
        links = [self._links.get(address) for address in next_leaders(schedule, slot, self._fan_out)]
        ready = [link for link in links if link is not None and link.has_room]
        if not ready:
            return Submission(None, None, "no leader is connected" if links else "no leader has a QUIC port")
        began_ms = self._clock.now_ms()
        waiting = [asyncio.create_task(link.send(transaction.raw)) for link in ready]
        try:
            async with asyncio.timeout(LEG_MS / 1000):
                for finished in asyncio.as_completed(waiting):
                    if await finished:
                        return Submission(began_ms, self._clock.now_ms())
        except TimeoutError:
            pass
        return Submission(began_ms, None, "no leader acknowledged the bytes")

    async def refresh(self) -> None:
        """Learn the schedule and the ports where they are old, and keep connections to the next leaders alone."""
        slot = self._slot()
        if slot is None:
            return
        await self._learn(slot)
        if self._schedule is None:
            return
        wanted = next_leaders(self._schedule, slot, max(_WARM, self._fan_out))
        for address in [one for one in self._links if one not in wanted]:
            self._links.pop(address).let_go()
        for address in wanted:
            if address not in self._links:
                self._links[address] = _Link(address, self._configuration(address), self._clock)
            self._links[address].keep()

    async def _learn(self, slot: int) -> None:
        schedule, now = self._schedule, self._clock.monotonic()
        ports = dict(schedule.ports) if schedule is not None else {}
        if now - self._ports_at >= _PORTS_SECONDS and now - self._asked_ports_at >= _ASK_AGAIN_SECONDS:
            self._asked_ports_at = now
            nodes = value_of(await self._node.call("getClusterNodes", b"[]", _ASK_MS))
            if isinstance(nodes, list):
                rows = [row for row in nodes if isinstance(row, dict)]
                ports, self._ports_at = ports_of(rows, self._private_leaders), now
        is_old = schedule is None or not schedule.covers(slot)
        if is_old and now - self._asked_leaders_at >= _ASK_AGAIN_SECONDS:
            self._asked_leaders_at = now
            params = orjson.dumps([slot, SLOTS_AHEAD])
            leaders = value_of(await self._node.call("getSlotLeaders", params, _ASK_MS))
            if isinstance(leaders, list):
                schedule = Schedule(slot, tuple(map(str, leaders[:SLOTS_AHEAD])), ports)
        if schedule is not None:
            self._schedule = Schedule(schedule.first_slot, schedule.leaders, ports)

    def _configuration(self, address: Address) -> QuicConfiguration:
        """Make the settings of a connection. The leader's certificate proves nothing: every validator makes its own."""
        configuration = QuicConfiguration(
            is_client=True,
            alpn_protocols=[ALPN],
            verify_mode=ssl.CERT_NONE,
            idle_timeout=_IDLE_SECONDS,
            server_name=f"{address[0]}.{address[1]}.sol",
        )
        configuration.certificate, configuration.private_key = self._certificate, self._key
        return configuration

    async def _keep_up(self) -> None:
        while True:
            try:
                await self.refresh()
            except Exception:  # A bug must not end the leg for good.
                logger.exception("keeping connections to leaders failed")
            await self._sleep(_PING_SECONDS / 4)


class _Link:
    """A connection to one leader: opened by `keep`, pinged, and opened again when it was lost."""

    def __init__(self, address: Address, configuration: QuicConfiguration, clock: Clock) -> None:
        self._address, self._configuration, self._clock = address, configuration, clock
        self._client: QuicConnectionProtocol | None = None
        self._task: asyncio.Task[None] | None = None
        self._tried_at = float("-inf")

    @property
    def open(self) -> bool:
        return self._client is not None

    @property
    def has_room(self) -> bool:
        """Return whether it is open and takes bytes. A leader that allows no streams must not fill our memory."""
        return self._client is not None and len(self._client._quic._streams) < _STREAMS_MAX

    def keep(self) -> None:
        """Keep the connection open or opening; after a failure the leader is left alone for a while."""
        if self._task is not None and not self._task.done():
            return
        now = self._clock.monotonic()
        if now - self._tried_at >= _AGAIN_SECONDS:
            self._tried_at = now
            self._task = asyncio.create_task(self._hold())

    def let_go(self) -> None:
        """Close in the background."""
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        self.let_go()
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=_HANDSHAKE_SECONDS)

    async def send(self, raw: bytes) -> bool:
        """Return whether the leader acknowledged the bytes. A stream that may not begin yet waits for its credit, but
        nobody waits for it longer than a leg may take."""
        client = self._client
        assert client is not None, "not open"
        quic = client._quic
        stream = quic.get_next_available_stream_id(is_unidirectional=True)
        quic.send_stream_data(stream, raw, end_stream=True)
        client.transmit()
        try:
            async with asyncio.timeout(LEG_MS / 1000):
                while _is_under_way(quic, stream):
                    await _outlived(client.ping())
        except (ConnectionError, TimeoutError):
            return False
        return self._client is client

    async def _hold(self) -> None:
        """Open the connection and ping the leader until it is lost or let go."""
        host, port = self._address
        try:
            opening = asyncio.timeout(_HANDSHAKE_SECONDS)
            async with opening, _connected(self._address, self._configuration) as client:
                opening.reschedule(None)
                self._client = client
                closed = asyncio.create_task(client.wait_closed())
                try:
                    while not (await asyncio.wait((closed,), timeout=_PING_SECONDS))[0]:
                        client._quic.send_ping(0)
                        client.transmit()
                finally:
                    self._client = None
                    closed.cancel()
        except (OSError, TimeoutError) as error:  # A ConnectionError means that the leader refused us.
            logger.debug("no connection to the leader at %s:%d: %s", host, port, type(error).__name__)


@asynccontextmanager
async def _connected(address: Address, configuration: QuicConfiguration) -> AsyncIterator[QuicConnectionProtocol]:
    """Open a QUIC connection whose socket takes packets of this leader alone.

    aioquic's own `connect` binds every interface, also in a run that must stay on loopback.
    """
    connection = QuicConnection(configuration=configuration)
    transport, protocol = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: QuicConnectionProtocol(connection), remote_addr=address
    )
    try:
        protocol.connect(address)
        await _outlived(protocol.wait_connected())
        yield protocol
    finally:
        protocol.close()
        await protocol.wait_closed()
        transport.close()


async def _outlived(waiting: Coroutine[Any, Any, None]) -> None:
    """Wait for something of aioquic that ends with ConnectionError when the connection does. That may be after we gave
    up waiting, and asyncio would log an error that nobody has looked at."""
    task = asyncio.create_task(waiting)
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    await asyncio.shield(task)


def _is_under_way(quic: QuicConnection, stream: int) -> bool:
    """Return whether bytes of this stream are unacknowledged. aioquic keeps no public record; an acknowledged ping
    does not suffice, since the stream itself may still wait for credit."""
    found = quic._streams.get(stream)
    return found is not None and not found.sender.is_finished


def _certificate(key: Ed25519PrivateKey) -> x509.Certificate:
    """Make the client's certificate. Leaders read its key alone: it is the peer's identity."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Solana node")])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime.datetime(1975, 1, 1, tzinfo=datetime.UTC))
        .not_valid_after(datetime.datetime(4096, 1, 1, tzinfo=datetime.UTC))
        .sign(key, None)
    )
