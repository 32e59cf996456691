"""The egress guard: which URLs and which addresses a delivery may go to.

Implements: threat 26. Pure. resolver.py looks the names of hosts up, and asks here about every address.
The list of ranges is our own: `ipaddress.is_global` of Python 3.11 lets fec0::/10, 192.0.0.192, 3fff::/20 and others
through. Sources: the special-purpose registries of IANA for IPv4 and IPv6.
"""

import ipaddress
import re
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

URL_CHARACTERS_MAX = 2_048
_HOST_CHARACTERS_MAX = 253
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)")
_NETLOC = re.compile(r"(\[[0-9a-fA-F:.%]+\]|[A-Za-z0-9._-]+)(:[1-9][0-9]{0,4})?")
_URL_CHARACTERS = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+")
# Names for this machine, this network, or a cloud's metadata service, whatever they resolve to.
_INNER_SUFFIXES = (
    "localhost",
    "local",
    "localdomain",
    "internal",
    "intranet",
    "lan",
    "svc",
    "consul",
    "home.arpa",
    "onion",
    "test",
)
_REFUSED_V4 = tuple(
    ipaddress.IPv4Network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16"),
        "168.63.129.16/32",  # A host address in Azure that only its own machines can reach.
        *("192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
    )
)
# Of IPv6 only the range that is given out for the public network, without its special parts. All forms that hold an
# IPv4 address lie outside of it, or in 2001::/23 (Teredo) and 2002::/16 (6to4).
_PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
_REFUSED_V6 = tuple(
    ipaddress.IPv6Network(text)
    for text in ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")
)


@dataclass(frozen=True, slots=True)
class EgressRules:
    """allow_loopback: for development, lets http and this machine's own addresses through. own_hosts: our own names."""

    ports: frozenset[int] = frozenset((443, 8443))
    allow_loopback: bool = False
    own_hosts: Collection[str] = ()


def url_fault(url: str, rules: EgressRules) -> str | None:
    """Return why deliveries may not go to this URL, in one clause; None: its text shows no fault."""
    if len(url) > URL_CHARACTERS_MAX:
        return f"it is longer than {URL_CHARACTERS_MAX} characters"
    if not _URL_CHARACTERS.fullmatch(url):
        return "it has characters that no URL has; write a name of another script in its xn-- form"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "it cannot be read"
    host = parts.hostname or ""
    if "@" in parts.netloc:
        return "it holds a user name or a password"
    if not _NETLOC.fullmatch(parts.netloc):
        return "its host or port is not in the usual form"
    if parts.fragment or "#" in url:
        return "it holds a fragment"
    if _is_loopback(host) and not rules.allow_loopback and any(map(_is_loopback, rules.own_hosts)):
        # Only where the service itself is on this machine: elsewhere the setting is none of a customer's business.
        return "it is on this machine; for development start with LEDGER_WEBHOOKS__ALLOW_LOOPBACK=true"
    is_loopback = rules.allow_loopback and _is_loopback(host)
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback):
        return "it must begin with https://"
    if not is_loopback and port is not None and port not in rules.ports:
        return f"its port is not one of {', '.join(map(str, sorted(rules.ports)))}"
    return None if is_loopback else _host_fault(host, parts, rules)


def _host_fault(host: str, parts: SplitResult, rules: EgressRules) -> str | None:
    if parts.netloc.startswith("["):
        if "%" in host:
            return "its address has a zone"
        return address_fault(host, rules)
    if not host or len(host) > _HOST_CHARACTERS_MAX:
        return "it has no host, or one that is too long"
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        # Resolvers also read 2130706433, 0x7f.1 and 0177.0.0.1 as addresses. One spelling is enough.
        return address_fault(host, rules)
    if len(labels) < 2 or not all(map(_LABEL.fullmatch, labels)):
        return "its host is not a full name of a host"
    if any(host == suffix or host.endswith(f".{suffix}") for suffix in _INNER_SUFFIXES):
        return "its host is a name of an inner network"
    if host in rules.own_hosts:
        return "its host is this service"
    return None


def address_fault(text: str, rules: EgressRules) -> str | None:
    """Return why no connection may be made to this address, or None. text: from a resolver or a URL."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return "its host is not an address in the usual form"
    if rules.allow_loopback and address.is_loopback:
        return None
    if isinstance(address, ipaddress.IPv4Address):
        refused = any(address in network for network in _REFUSED_V4)
    else:
        scoped = address.scope_id is not None
        refused = scoped or address not in _PUBLIC_V6 or any(address in network for network in _REFUSED_V6)
    return "its address is not on the public network" if refused else None


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
