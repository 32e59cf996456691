"""Which address a request comes from, and how many requests that address may make in a minute.

Implements: decisions, "IP-level limits on /account/*, /auth/*, /x402/settle"; hostile inputs 35 and 49.
Pure. Counts that replicas share live in store.py; the Counts here are one process's own.

Every request passes the front (HAProxy, see launch/FRONT.md), so the peer of a replica's connection is a front and not
the client. The front therefore writes the address of its own peer into FRONT_HEADER, next to a token that only the
front and the replicas know. A request without the right token did not come over the front.
"""

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# The name of all clients whose address cannot be known. They have no allowance: one stranger could use up a shared one
# and lock out everybody.
UNKNOWN = "unknown"
FRONT_HEADER = b"x-front-peer"  # "<token> <address>"; the front replaces whatever a client sent under this name.
WINDOW_SECONDS = 60
_HOPS_MAX = 32  # Longer chains are somebody's invention; only the last hops can be ours.
_HOP_CHARACTERS_MAX = 64  # An IPv6 address with brackets, zone and port fits well.
_IPV6_LINE_BITS = 64  # One customer line commonly has a whole /64; counted singly it would have no limit at all.
_IPV6_SITE_BITS = 48  # Providers hand out up to a /48, which has 65,536 such lines.
_SITE_SHARE = 10  # A /48 may also be shared by many customers, so its allowance is larger than that of one line.
_TOKEN_PURPOSE = b"front to replica"


def front_token(cluster_secret: bytes) -> bytes:
    """The token that proves that a request came over the front. It opens nothing else, unlike the secret itself."""
    return hmac.new(cluster_secret, _TOKEN_PURPOSE, hashlib.sha256).hexdigest()[:32].encode()


class TrustedProxies:
    """The peers whose X-Forwarded-For is believed, and what is known of the hop before them: this service's front."""

    def __init__(self, texts: Iterable[str], token: bytes = b"", peers_are_clients: bool = True) -> None:
        """texts: addresses or CIDR networks. Raises ValueError naming the one that is neither.

        token: of the front; empty where there is none. peers_are_clients: False where requests come through a proxy
        that tells no addresses, so that the peer of a connection says nothing about the client.
        """
        self._token, self._peers_are_clients = token, peers_are_clients
        self._networks: list[Network] = []
        for text in texts:
            try:
                self._networks.append(ip_network(text, strict=False))
            except ValueError:
                raise ValueError(f"identity.trusted_proxies: {text!r} is no address and no network") from None

    def __contains__(self, address: Address) -> bool:
        return any(address.version == network.version and address in network for network in self._networks)

    def peer(self, connected: str | None, front_says: Sequence[bytes]) -> str | None:
        """The peer of the front where the request came over it, else the peer of the connection itself.

        front_says: the values of all headers of the name FRONT_HEADER. Those without the right token are ignored.
        None: the address cannot be known.
        """
        for value in front_says:
            token, _, address = value.partition(b" ")
            if self._token and hmac.compare_digest(token, self._token):
                return address.decode("latin-1")
        return connected if self._peers_are_clients else None

    def names_no_client(self, address: str) -> bool:
        """Whether this is a trusted proxy's own address: it stands for all clients of a proxy that named none."""
        parsed = parse_hop(address) if self._networks else None
        return parsed is not None and parsed in self


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
        return str(IPv6Network((parsed, _IPV6_LINE_BITS), strict=False))
    return address


def allowances(name: str) -> tuple[tuple[str, int], ...]:
    """The counts that a request under this allowance name must fit into: (name, how many times the usual limit).

    Count the first one, judge it, and only then count the next: what the /64 is refused must not use up the allowance
    that its /48 shares with others. Empty for UNKNOWN, which has no limit.
    """
    if name == UNKNOWN:
        return ()
    if ":" not in name:
        return ((name, 1),)
    site = IPv6Network((IPv6Network(name).network_address, _IPV6_SITE_BITS), strict=False)
    return (name, 1), (str(site), _SITE_SHARE)


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
