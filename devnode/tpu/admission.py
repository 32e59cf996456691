"""Limits of the TPU: connections and streams of each peer.

Implements: a validator's default limits, by stake: new connections per address and minute, connections per peer and in
total, concurrent streams, streams in each tenth of a second. Only the node itself has stake. Streams above the rate
are not refused; they wait, and so does the credit for further streams.
Pure: times are arguments, in seconds of one clock. Not here: QUIC (connection.py, door.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from solders.pubkey import Pubkey

Peer = Pubkey | str  # The identity, or the address of a peer without an identity.
INTERVAL_SECONDS = 0.1
_SECONDS_PER_MINUTE = 60
_ADDRESSES_MAX = 10_000  # Addresses in memory; above this number those without recent connections are forgotten.


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    connections_per_address_and_minute: int = 8
    connections_per_unstaked_peer: int = 8
    connections_per_staked_peer: int = 16
    unstaked_connections_max: int = 2_000
    staked_connections_max: int = 2_000
    unstaked_streams: int = 128
    staked_streams_max: int = 512
    unstaked_streams_per_interval: int = 20
    stake_share_min: float = 1 / (500 * 100)  # Below it a peer counts as unstaked.


@dataclass(slots=True)
class _Bucket:
    level: float
    at_seconds: float


@dataclass(slots=True)
class Arrivals:
    """The rate of new connections per address. A connection above the rate is ignored, like a lost packet."""

    limits: Limits
    _buckets: dict[str, _Bucket] = field(default_factory=dict)

    def allows(self, address: str, now_seconds: float) -> bool:
        most = self.limits.connections_per_address_and_minute
        bucket = self._buckets.get(address)
        if bucket is None:
            if len(self._buckets) >= _ADDRESSES_MAX:
                self._forget_idle(now_seconds)
            bucket = self._buckets[address] = _Bucket(most, now_seconds)
        refilled = (now_seconds - bucket.at_seconds) * most / _SECONDS_PER_MINUTE
        bucket.level = min(most, bucket.level + refilled)
        bucket.at_seconds = now_seconds
        if bucket.level < 1:
            return False
        bucket.level -= 1
        return True

    def _forget_idle(self, now_seconds: float) -> None:
        self._buckets = {
            address: bucket
            for address, bucket in self._buckets.items()
            if now_seconds - bucket.at_seconds < _SECONDS_PER_MINUTE
        }


@dataclass(frozen=True, slots=True)
class Admitted:
    streams: int  # The number of concurrent streams.
    is_staked: bool
    evicted: tuple[int, ...] = ()  # Connections that are closed to make room, oldest first.


@dataclass(frozen=True, slots=True)
class TooMany:
    """The peer already has its maximum of connections."""


@dataclass(slots=True)
class Admission:
    """The table of connections. The caller gives each an increasing number."""

    limits: Limits
    stakes: Mapping[Pubkey, int]
    _peers: dict[int, Peer] = field(default_factory=dict)
    _of_peer: dict[Peer, set[int]] = field(default_factory=dict)
    _staked: set[int] = field(default_factory=set)

    def admit(self, number: int, peer: Peer) -> Admitted | TooMany:
        share = self.stake_share(peer)
        limits = self.limits
        most = limits.connections_per_staked_peer if share else limits.connections_per_unstaked_peer
        if len(self._of_peer.get(peer, ())) >= most:
            return TooMany()
        evicted = self._make_room(share > 0)
        self._peers[number] = peer
        self._of_peer.setdefault(peer, set()).add(number)
        if share:
            self._staked.add(number)
        extra = limits.staked_streams_max - limits.unstaked_streams
        return Admitted(limits.unstaked_streams + int(extra * share), share > 0, evicted)

    def stake_share(self, peer: Peer) -> float:
        """The peer's share of all stake; 0 for a peer that counts as unstaked."""
        stake = self.stakes.get(peer, 0) if isinstance(peer, Pubkey) else 0
        share = stake / sum(self.stakes.values()) if stake else 0.0
        return share if share >= self.limits.stake_share_min else 0.0

    def leave(self, number: int) -> None:
        """Remove a connection; a second call changes nothing."""
        peer = self._peers.pop(number, None)
        if peer is None:
            return
        self._staked.discard(number)
        numbers = self._of_peer[peer]
        numbers.discard(number)
        if not numbers:
            del self._of_peer[peer]

    def _make_room(self, staked: bool) -> tuple[int, ...]:
        """Remove the oldest connections of a full table, down to nine tenths of its maximum."""
        table = sorted(number for number in self._peers if (number in self._staked) == staked)
        most = self.limits.staked_connections_max if staked else self.limits.unstaked_connections_max
        if len(table) < most:
            return ()
        evicted = tuple(table[: len(table) - most * 9 // 10])
        for number in evicted:
            self.leave(number)
        return evicted


@dataclass(slots=True)
class Throttle:
    """The rate of one peer's streams, in each tenth of a second; None: no limit."""

    per_interval: int | None
    _interval: int = -1
    _taken: int = 0

    def wait_seconds(self, now_seconds: float) -> float:
        """Returns 0 and counts one more stream, or returns the time until the next stream is allowed."""
        if self.per_interval is None:
            return 0.0
        interval = int(now_seconds / INTERVAL_SECONDS)
        if interval != self._interval:
            self._interval, self._taken = interval, 0
        if self._taken < self.per_interval:
            self._taken += 1
            return 0.0
        return (interval + 1) * INTERVAL_SECONDS - now_seconds
