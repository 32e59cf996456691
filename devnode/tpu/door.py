"""The TPU of one leader: the QUIC port where clients send transactions to it.

Implements: ALPN `solana-tpu`, the leader's identity as certificate, admission, and submitting to the chain. As on a
validator, the sender gets no answer.
Not here: one connection (connection.py), the limits (admission.py).
"""

import asyncio
import itertools
import socket
from typing import Any

from aioquic.asyncio.server import QuicServer
from aioquic.buffer import Buffer  # type: ignore[attr-defined]
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import NetworkAddress, QuicConnection
from aioquic.quic.packet import QuicPacketType, pull_quic_header
from solders.pubkey import Pubkey

from actors.clock import Clock
from devnode.chain.submissions import Source
from devnode.encoding.wire import Malformed, decode
from devnode.faults.plan import TpuFate
from devnode.ports import address_text
from devnode.rpc.cluster import ACTIVATED_STAKE_LAMPORTS
from devnode.rpc.node import Node
from devnode.tpu.admission import Admission, Admitted, Arrivals, Limits, Peer, Throttle, TooMany
from devnode.tpu.connection import CLOSE_DROPPED, STREAM_BYTES_MAX, TpuConnection, node_certificate

ALPN = "solana-tpu"
IDLE_SECONDS = 30.0
FAULTY_CONNECTIONS_MAX = 10_000  # Remembered ids of connections with a fault.
_LONG_HEADER = 0x80


class TpuDoor:
    def __init__(self, node: Node, clock: Clock, limits: Limits | None = None, leader: int = 0) -> None:
        self._node, self._clock, self._leader = node, clock, leader
        self._limits = limits if limits is not None else Limits()
        stake = ACTIVATED_STAKE_LAMPORTS // node.leaders.count
        self._admission = Admission(self._limits, {one.identity.pubkey(): stake for one in node.keys.leaders})
        self._arrivals = Arrivals(self._limits)
        self._throttles: dict[Peer, Throttle] = {}
        self._numbers = itertools.count()
        self._connections: dict[int, TpuConnection] = {}
        self._number_of: dict[TpuConnection, int] = {}
        self._peers: dict[int, Peer] = {}
        self._begun = itertools.count()  # Connections, for the decisions of faults.
        self._fates: dict[bytes, TpuFate] = {}  # By the client's first connection id; only those with a fault.
        self._server: _Server | None = None

    async def open(self, listening: socket.socket) -> None:
        """Serve on a bound UDP socket; the door closes it."""
        certificate, key = node_certificate(self._node.keys.leaders[self._leader].identity)
        configuration = QuicConfiguration(
            is_client=False,
            alpn_protocols=[ALPN],
            idle_timeout=IDLE_SECONDS,
            max_stream_data=STREAM_BYTES_MAX,
            max_data=STREAM_BYTES_MAX * self._limits.staked_streams_max,
        )
        configuration.certificate, configuration.private_key = certificate, key
        loop = asyncio.get_running_loop()
        _, self._server = await loop.create_datagram_endpoint(lambda: _Server(configuration, self), sock=listening)
        host, port = listening.getsockname()[:2]
        self._node.tpu_addresses[self._leader] = address_text(host, port)

    def close(self) -> None:
        self._node.tpu_addresses.pop(self._leader, None)
        if self._server is not None:
            self._server.close()
            self._server = None

    def may_arrive(self, address: str, connection_id: bytes) -> bool:
        """Whether the first packet of a new connection is answered. Decides the connection's fault as well."""
        if self._fates.get(connection_id) is TpuFate.IGNORED:
            return False  # The client repeats its first packet.
        if not self._arrivals.allows(address, self._clock.monotonic()):
            return False
        fate = self._node.faults.tpu_fate(self._leader, next(self._begun))
        if fate is not TpuFate.SERVED:
            if len(self._fates) >= FAULTY_CONNECTIONS_MAX:
                del self._fates[next(iter(self._fates))]
            self._fates[connection_id] = fate
        return fate is not TpuFate.IGNORED

    # Calls from connections.

    def fate(self, connection_id: bytes) -> TpuFate:
        return self._fates.get(connection_id, TpuFate.SERVED)

    def admit(self, connection: TpuConnection, identity: Pubkey | None, address: str) -> Admitted | TooMany:
        number = next(self._numbers)
        peer = identity if identity is not None else address
        result = self._admission.admit(number, peer)
        if isinstance(result, Admitted):
            self._connections[number], self._number_of[connection], self._peers[number] = connection, number, peer
            for evicted in result.evicted:
                self._connections[evicted].close_with(CLOSE_DROPPED)
        return result

    def throttle(self, identity: Pubkey | None, address: str) -> Throttle:
        """The throttle of a peer, which all its connections share."""
        peer = identity if identity is not None else address
        staked = self._admission.stake_share(peer) > 0
        limit = None if staked else self._limits.unstaked_streams_per_interval
        return self._throttles.setdefault(peer, Throttle(limit))

    def left(self, connection: TpuConnection) -> None:
        number = self._number_of.pop(connection, None)
        if number is None:
            return
        self._admission.leave(number)
        del self._connections[number]
        peer = self._peers.pop(number)
        if peer not in self._peers.values():
            self._throttles.pop(peer, None)

    def submit(self, raw: bytes) -> None:
        decoded = decode(raw)
        if isinstance(decoded, Malformed):
            return
        cloner = self._node.cloner
        if cloner is None:
            self._node.intake.submit(decoded, Source.TPU, port=self._leader)
        else:
            intake, leader = self._node.intake, self._leader
            cloner.bring_before(decoded, lambda: intake.submit(decoded, Source.TPU, port=leader))


class _Server(QuicServer):
    """aioquic's server, with a limit of new connections before it creates any state for them."""

    def __init__(self, configuration: QuicConfiguration, door: TpuDoor) -> None:
        def create(quic: QuicConnection, **rest: Any) -> TpuConnection:
            return TpuConnection(quic, door, **rest)

        super().__init__(configuration=configuration, create_protocol=create)
        self._door = door

    def datagram_received(self, data: bytes | str, addr: NetworkAddress) -> None:
        assert isinstance(data, bytes), type(data)
        begun = self._begun(data) if data[:1] and data[0] & _LONG_HEADER else None
        if begun is None or self._door.may_arrive(addr[0], begun):
            super().datagram_received(data, addr)

    def _begun(self, data: bytes) -> bytes | None:
        """The id of the connection that this packet begins; None for any other packet."""
        try:
            header = pull_quic_header(Buffer(data=data), host_cid_length=self._configuration.connection_id_length)
        except ValueError:
            return None
        is_first = header.packet_type == QuicPacketType.INITIAL and header.destination_cid not in self._protocols
        return header.destination_cid if is_first else None
