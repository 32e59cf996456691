"""Whose address a request comes from, and how many requests it may make in a minute.

Implements: decisions, "IP-level limits on /account/*, /auth/*, /x402/settle".
Pure. Counts that replicas share live in store.py; the Counts here are one process's own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

UNKNOWN = "unknown"  # The address of a peer that has none, such as one on a Unix socket; they share one allowance.
WINDOW_SECONDS = 60
_HOPS_MAX = 32  # Longer chains are somebody's invention; only the last hops can be ours.
_HOP_CHARACTERS_MAX = 64  # An IPv6 address with brackets, zone and port fits well.
_IPV6_CUSTOMER_BITS = 64  # One customer line commonly has a whole /64; counted singly it would have no limit at all.


class TrustedProxies:
    """The peers whose X-Forwarded-For is believed."""

    def __init__(self, texts: Iterable[str]) -> None:
        """texts: addresses or CIDR networks. Raises ValueError naming the one that is neither."""
        self._networks: list[Network] = []
        for text in texts:
            try:
                self._networks.append(ip_network(text, strict=False))
            except ValueError:
                raise ValueError(f"identity.trusted_proxies: {text!r} is no address and no network") from None

    def __contains__(self, address: Address) -> bool:
        return any(address.version == network.version and address in network for network in self._networks)


def parse_hop(text: str) -> Address | None:
    """The address of one hop, with or without port, brackets and zone; None when it is none.

    An IPv4 address that is mapped into IPv6 is the IPv4 address: both spellings are one client.
    """
    text = text.strip(" \t")
    if not text or len(text) > _HOP_CHARACTERS_MAX:
        return None
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def client_address(peer: str | None, forwarded_for: Sequence[bytes], trusted: TrustedProxies) -> str:
    """The peer, or the last untrusted hop of X-Forwarded-For when the peer is a trusted proxy.

    forwarded_for: the values of all X-Forwarded-For headers in the order received. Read from the right, because
    everything left of the first untrusted hop is only what that hop claims. A hop that is no address ends the
    reading: the hop that reported it is then the client. When all hops are trusted, the first is the client.
    """
    client = parse_hop(peer or "")
    if client is None:
        return UNKNOWN
    if client in trusted and forwarded_for:
        for text in reversed(_last_hops(forwarded_for)):
            hop = parse_hop(text)
            if hop is None:
                break
            client = hop
            if hop not in trusted:
                break
    return str(client)


def _last_hops(forwarded_for: Sequence[bytes]) -> list[str]:
    hops: list[str] = []
    for value in reversed(forwarded_for):
        tail = value[-_HOPS_MAX * _HOP_CHARACTERS_MAX :].decode("latin-1").split(",")
        hops = tail + hops
        if len(hops) >= _HOPS_MAX:
            break
    return hops[-_HOPS_MAX:]


def allowance_name(address: str) -> str:
    """Under which name the requests of this address are counted: itself, or the /64 network of an IPv6 address."""
    parsed = parse_hop(address)
    if isinstance(parsed, IPv6Address):
        return str(IPv6Network((parsed, _IPV6_CUSTOMER_BITS), strict=False))
    return address


def minute_of(now: int) -> int:
    """Number of the fixed one-minute window that this Unix second lies in."""
    return now // WINDOW_SECONDS


@dataclass(frozen=True, slots=True)
class AddressVerdict:
    allowed: bool
    limit: int  # Requests per minute.
    remaining: int
    reset: int  # Unix second in which the window ends.
    retry_after_seconds: int  # At least 1; of use when not allowed.


def judge(total: int, limit: int, now: int) -> AddressVerdict:
    """total: the window's requests of the address, this one included. The limit-th request is the last allowed."""
    reset = (minute_of(now) + 1) * WINDOW_SECONDS
    return AddressVerdict(
        allowed=total <= limit,
        limit=limit,
        remaining=max(0, limit - total),
        reset=reset,
        retry_after_seconds=max(1, reset - now),
    )


@dataclass(slots=True)
class Counts:
    """Requests by name in the current minute, in bounded memory.

    Names beyond names_max share one count, so that a flood from very many addresses is shed early instead of
    growing the table; it forgets everything when the minute turns. A late count of an earlier minute is taken as one
    of the current minute: clocks of replicas differ by little, and the error is on the side of the limit.
    """

    names_max: int = 100_000
    minute: int = 0
    totals: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, minute: int, amount: int) -> int:
        """Total of the name in its minute, this amount included."""
        if minute > self.minute:
            self.minute, self.totals = minute, {}
        if name not in self.totals and len(self.totals) >= self.names_max:
            name = ""
        total = self.totals.get(name, 0) + amount
        self.totals[name] = total
        return total
