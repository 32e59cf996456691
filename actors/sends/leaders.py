"""Which leaders get a transaction, and which of them a connection is kept to.

Implements: the leaders' ports for transactions, the TPU, as Agave has them (four slots in a row for each leader,
fan-out, ports, forged far-future slots).
Pure. Not here: connections (tpu.py), asking nodes (leader_schedule.py).
"""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LEADER_SLOTS = 4  # Consecutive slots of a leader.
SLOTS_AHEAD = 64  # Slots of the schedule requested at once.
REFETCH_SLOTS = 24  # With fewer left, the schedule is requested again.
QUIC_PORT_OFFSET = 6  # Old nodes tell their UDP port alone; QUIC is this much above it.
_PORT_MIN = 1_024  # Below are services such as DNS, and no validator's.
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class Schedule:
    """leaders: identity of each slot from first_slot on. ports: identity to (host, port) of its TPU."""

    first_slot: int
    leaders: tuple[str, ...]
    ports: Mapping[str, tuple[str, int]]

    def covers(self, slot: int) -> bool:
        return self.first_slot <= slot and slot + REFETCH_SLOTS <= self.first_slot + len(self.leaders)


def next_leaders(schedule: Schedule, slot: int, count: int) -> tuple[tuple[str, int], ...]:
    """Return the addresses of the next `count` leaders that have a port, the present one first, each once.

    In the last slot of its four a leader may be over before the bytes arrive, so one more is taken.
    """
    wanted = count + int(slot % LEADER_SLOTS == LEADER_SLOTS - 1)
    found: dict[tuple[str, int], None] = {}
    begin = max(0, slot - schedule.first_slot)
    for identity in schedule.leaders[begin:]:
        address = schedule.ports.get(identity)
        if address is not None:
            found[address] = None
            if len(found) >= wanted:
                break
    return tuple(found)


def ports_of(nodes: Sequence[Mapping[str, object]], private: bool = False) -> dict[str, tuple[str, int]]:
    """Read the rows of getClusterNodes. A row that cannot be read is passed over.

    private: take addresses of private networks and of this machine too. Anyone may announce any address to the cluster,
    so otherwise a stranger could have packets sent into the network of this service.
    """
    found = {}
    for node in nodes:
        identity = node.get("pubkey")
        for name, offset in (("tpuQuic", 0), ("tpu", QUIC_PORT_OFFSET)):
            text = node.get(name)
            if isinstance(identity, str) and isinstance(text, str) and (address := _address(text, offset, private)):
                found[identity] = address
                break
    return found


def is_private_host(host: str) -> bool:
    """Return whether a URL's host is this machine or a private address. Names are not looked up."""
    try:
        return not _is_public(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return host == "localhost"


def _is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Return whether anyone can reach it. IPv6 addresses that stand for IPv4 addresses do not count."""
    if address.version == 6 and (address.ipv4_mapped or address.sixtofour or address.teredo or address in _NAT64):
        return False
    return address.is_global and not address.is_multicast


def _address(text: str, offset: int, private: bool) -> tuple[str, int] | None:
    """Read an address. None: it is a name, which would be looked up, or of many hosts, or not to be used."""
    host, _, port = text.rpartition(":")
    try:
        found = ipaddress.ip_address(host.strip("[]"))
        number = int(port) + offset
    except ValueError:
        return None
    if not _PORT_MIN <= number < 65_536 or found.is_multicast or found.is_unspecified or found.is_link_local:
        return None
    if not (private or _is_public(found)):
        return None
    return str(found), number
