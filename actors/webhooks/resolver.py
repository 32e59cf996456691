"""Looks a host's name up, and returns only addresses that the egress guard allows.

Implements: threat 26 (resolve once, check all, pin). A shell around dnspython. The HTTP client connects to the
addresses that it gets here and asks nobody else, so a name that changes between check and connection gains nothing.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Sequence

import dns.asyncresolver
import dns.exception
import dns.resolver
from aiohttp.abc import AbstractResolver, ResolveResult

from actors.webhooks.targets import EgressRules, address_fault

_SECONDS_MAX = 5.0
_NO_ADDRESS = "its host has no address"


class GuardRefused(OSError):
    """The egress guard lets no connection through; the text says why."""


class HostUnknown(OSError):
    """The name has no address, or no name server answers for it."""


class GuardedResolver(AbstractResolver):
    """name_servers: asked in place of those of the machine, each "address" or "address:port"."""

    def __init__(self, rules: EgressRules, name_servers: Sequence[str] = ()) -> None:
        self._rules = rules
        self._resolver = dns.asyncresolver.Resolver(configure=not name_servers)
        if name_servers:
            self._resolver.nameservers = [name_server(text) for text in name_servers]
        self._resolver.lifetime, self._resolver.timeout = _SECONDS_MAX, _SECONDS_MAX / 2

    async def addresses(self, host: str) -> list[str]:
        """Return all addresses of a host. Raises GuardRefused when one of them is refused, and HostUnknown."""
        found = [host] if _is_address(host) else await self._look_up(host)
        for text in found:
            fault = address_fault(text, self._rules)
            if fault is not None:
                raise GuardRefused(f"refused by the egress guard: {fault}")
        return found

    async def _look_up(self, host: str) -> list[str]:
        if host == "localhost" and self._rules.allow_loopback:
            return ["127.0.0.1"]
        answers = await asyncio.gather(*(self._ask(host, kind) for kind in ("A", "AAAA")))
        found = [text for answer in answers for text in answer]
        if not found:
            raise HostUnknown(_NO_ADDRESS)
        return found

    async def _ask(self, host: str, kind: str) -> list[str]:
        try:
            answer = await self._resolver.resolve(f"{host}.", kind, search=False, raise_on_no_answer=False)
        except dns.resolver.NXDOMAIN:
            return []
        except dns.exception.DNSException as error:
            # With one family alone, the other family's addresses would stay unchecked.
            raise HostUnknown(f"its host cannot be looked up ({type(error).__name__})") from error
        return [] if answer.rrset is None else [str(record.address) for record in answer.rrset]

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Implements aiohttp's AbstractResolver.resolve."""
        return [
            ResolveResult(
                hostname=host,
                host=text,
                port=port,
                family=socket.AF_INET6 if ":" in text else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for text in await self.addresses(host)
        ]

    async def close(self) -> None:
        """Nothing is kept open."""


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def name_server(text: str) -> "dns.nameserver.Nameserver":
    """Parse "address" or "address:port". Raises ValueError."""
    address, _, port = text.partition(":") if text.count(":") == 1 else (text, "", "")
    return dns.nameserver.Do53Nameserver(str(ipaddress.ip_address(address)), int(port or 53))
