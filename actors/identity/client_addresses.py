"""Finds the client address of a request, and limits the requests of an address in a minute.

Implements: decisions, "IP-level limits on /account/*, /auth/*, /x402/settle"; threats 35 and 49.
Pure. store.py has the counts that replicas share; Counts here belongs to one process.

Every request passes the front (HAProxy, see launch/FRONT.md), so a replica's connection comes from the front and not
from the client. The front writes the address of its own peer into FRONT_HEADER, next to a token that only the front and
the replicas know. A request without that token did not come through the front.
"""

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# The name of all clients whose address is not known. They have no limit: one client could use up a shared limit and
# lock out all others.
UNKNOWN = "unknown"
FRONT_HEADER = b"x-front-peer"  # "<token> <address>"; the front replaces whatever a client sent under this name.
WINDOW_SECONDS = 60
_HOPS_MAX = 32  # Longer chains are forged; only the last hops can be trusted proxies.
_HOP_CHARACTERS_MAX = 64  # Enough for an IPv6 address with brackets, zone and port.
_IPV6_LINE_BITS = 64  # One customer usually has a whole /64, so single addresses would have no limit.
_IPV6_SITE_BITS = 48  # One customer may have up to a /48, which has 65,536 of these.
_SITE_SHARE = 10  # Many customers may share a /48, so its limit is larger than that of a /64.
_TOKEN_PURPOSE = b"front to replica"


def front_token(cluster_secret: bytes) -> bytes:
    """Derive the token that proves that a request came through the front. It grants no other right."""
    return hmac.new(cluster_secret, _TOKEN_PURPOSE, hashlib.sha256).hexdigest()[:32].encode()


class TrustedProxies:
    """The proxies whose X-Forwarded-For is believed, and the token of this service's front."""

    def __init__(self, texts: Iterable[str], token: bytes = b"", peers_are_clients: bool = True) -> None:
        """texts: addresses or CIDR networks. Raises ValueError with the first text that is neither.

        token: of the front; empty where there is none. peers_are_clients: False where requests come through a proxy
        that passes on no addresses, so that the peer of a connection is not the client.
        """
        self._token, self._peers_are_clients = token, peers_are_clients
        self._networks: list[Network] = []
        for text in texts:
            try:
                self._networks.append(ip_network(text, strict=False))
            except ValueError:
                raise ValueError(f"identity.trusted_proxies: {text!r} is neither an address nor a network") from None

    def __contains__(self, address: Address) -> bool:
        return any(address.version == network.version and address in network for network in self._networks)

    def peer(self, connected: str | None, front_says: Sequence[bytes]) -> str | None:
        """Return the front's peer where the request came through the front, else the peer of the connection.

        front_says: the values of all headers named FRONT_HEADER. Values without the right token are ignored.
        None: the address is not known.
        """
        for value in front_says:
            token, _, address = value.partition(b" ")
            if self._token and hmac.compare_digest(token, self._token):
                return address.decode("latin-1")
        return connected if self._peers_are_clients else None

    def names_no_client(self, address: str) -> bool:
        """Return whether this is a trusted proxy's own address: then the proxy did not name its client."""
        parsed = parse_hop(address) if self._networks else None
        return parsed is not None and parsed in self


@lru_cache(4_096)  # Every request is asked for its address, which takes 5 us to parse; floods repeat few of them.
def parse_hop(text: str) -> Address | None:
    """Parse the address of one hop, with or without port, brackets and zone. None: it is no address.

    An IPv4 address mapped into IPv6 is returned as IPv4, because both spellings are one client.
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
    """Return the peer, or the last untrusted hop of X-Forwarded-For when the peer is a trusted proxy.

    forwarded_for: the values of all X-Forwarded-For headers, in the order received. They are read from the right,
    because an untrusted hop may forge everything to its left. A hop that is no address ends the reading: the hop that
    reported it is the client. When all hops are trusted, the first is the client.
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
    """Return the name under which the requests of this address are counted: itself, or the /64 of an IPv6 address."""
    parsed = parse_hop(address)
    if isinstance(parsed, IPv6Address):
        return str(IPv6Network((parsed, _IPV6_LINE_BITS), strict=False))
    return address


def allowances(name: str) -> tuple[tuple[str, int], ...]:
    """Return the counts that limit a request with this name, each as (name, multiple of the usual limit).

    Count and judge the first before the next: requests that the /64's limit refuses must not use up the limit of the
    /48, which other customers share. Empty for UNKNOWN, which has no limit.
    """
    if name == UNKNOWN:
        return ()
    if ":" not in name:
        return ((name, 1),)
    site = IPv6Network((IPv6Network(name).network_address, _IPV6_SITE_BITS), strict=False)
    return (name, 1), (str(site), _SITE_SHARE)


def minute_of(now: int) -> int:
    """Return the number of the fixed one-minute window of this Unix second."""
    return now // WINDOW_SECONDS


@dataclass(frozen=True, slots=True)
class AddressVerdict:
    allowed: bool
    limit: int  # Requests in a minute.
    remaining: int
    reset: int  # Unix second in which the window ends.
    retry_after_seconds: int  # At least 1; for refused requests.


def judge(total: int, limit: int, now: int) -> AddressVerdict:
    """Judge a request. total: requests of the address in this window, this one included. Allowed up to the limit."""
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

    Names beyond names_max share one count, so that a flood from very many addresses is refused early and the table
    stays small. Each minute starts empty. A late count of the minute before counts in the current one: the clocks of
    replicas differ by little, and the limit is never exceeded by that.
    """

    names_max: int = 100_000
    minute: int = 0
    totals: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, minute: int, amount: int) -> int:
        """Add an amount, and return the total of the name in its minute."""
        if minute > self.minute:
            self.minute, self.totals = minute, {}
        if name not in self.totals and len(self.totals) >= self.names_max:
            name = ""
        total = self.totals.get(name, 0) + amount
        self.totals[name] = total
        return total
