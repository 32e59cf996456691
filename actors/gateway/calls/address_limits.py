"""How many requests of one client address may come in a minute, on the paths that have such a limit.

Implements: decisions, "IP-level limits on /account/*, /auth/*, /x402/settle"; threats 35 and 49.
A shell: replicas share their counts in the identity store. Whose address a request comes from, and how much an address
is allowed, is identity/client_addresses.py's.
"""

from actors.clock import Clock
from actors.config import IdentityConfig
from actors.errors import Err, Refusal
from actors.gateway.calls.requests import Client, RefusedCaller, Request, carries_credentials
from actors.identity.client_addresses import (
    FRONT_HEADER,
    UNKNOWN,
    AddressVerdict,
    Counts,
    TrustedProxies,
    allowance_name,
    allowances,
    client_address,
    judge,
    minute_of,
)
from actors.identity.store import IdentityStore, IdentityStoreUnavailable

_WITHOUT_CREDENTIALS = "without credentials "  # Prefix of an address's separate count.


class AddressLimits:
    """trusted: proxies whose header for the client's address is trusted."""

    def __init__(self, config: IdentityConfig, store: IdentityStore, trusted: TrustedProxies, clock: Clock) -> None:
        self._per_minute = config.address_requests_per_minute
        self._store, self._trusted, self._clock = store, trusted, clock
        self._counts = Counts()  # Counts of this process, used while the shared store is unavailable.
        self._page_counts = Counts()  # Counts for public pages, which never use the shared store.

    def name_of(self, client: Client) -> str:
        """Return the name under which this client's requests are counted; client_addresses.UNKNOWN has no limit."""
        return counted_address(client, self._trusted)

    def whole_name_of(self, client: Client) -> str:
        """Return the client's whole address, for comparison with networks; UNKNOWN is in no network."""
        return address_of(client, self._trusted)

    async def refusal(self, request: Request) -> Refusal | None:
        """Count this request against its address. A refusal when there were too many, else None.

        Requests without any credential for /account/* and for pages of other contexts are counted apart: they get the
        402 whoever sends them, and must not use up the allowance of customers behind the same address.
        """
        now = self._clock.now()
        is_bare = not request.path.startswith((b"/auth/", b"/x402/")) and not carries_credentials(request)
        apart = _WITHOUT_CREDENTIALS if is_bare else ""
        for name, share in allowances(self.name_of(request.client)):
            verdict = judge(await self._count(apart + name, minute_of(now)), self._per_minute * share, now)
            if not verdict.allowed:
                return _too_many(verdict)
        return None

    def page_refusal(self, request: Request, minute_max: int) -> Refusal | None:
        """Count a request of a public page in the memory of this process. A refusal when there were too many.

        A count in the shared store would cost more than a cached answer. The price of this choice is that an address
        gets minute_max answers of each replica.
        """
        now, path = self._clock.now(), request.path.decode("latin-1")
        for name, share in allowances(self.name_of(request.client)):
            verdict = judge(self._page_counts.add(f"{path} {name}", minute_of(now), 1), minute_max * share, now)
            if not verdict.allowed:
                return _too_many(verdict)
        return None

    async def _count(self, name: str, minute: int) -> int:
        try:
            return await self._store.count_address(name, minute, 1)
        except IdentityStoreUnavailable:
            return self._counts.add(name, minute, 1)


def is_limited(path: bytes) -> bool:
    """Return whether requests for this path, where it is served, count against the limit of their address."""
    return path.startswith((b"/account/", b"/auth/", b"/x402/")) or path == b"/quote"


def counted_address(client: Client, trusted: TrustedProxies) -> str:
    """Return the address as limits use it, or UNKNOWN when a proxy does not tell it."""
    return allowance_name(address_of(client, trusted))


def address_of(client: Client, trusted: TrustedProxies) -> str:
    """Return the whole address, for keys bound to addresses; UNKNOWN when a proxy does not tell it."""
    front_says = [value for name, value in client.headers if name == FRONT_HEADER]
    forwarded = [value for name, value in client.headers if name == b"x-forwarded-for"]
    address = client_address(trusted.peer(client.peer, front_says), forwarded, trusted)
    return UNKNOWN if trusted.names_no_client(address) else address


def _too_many(verdict: AddressVerdict) -> RefusedCaller:
    return RefusedCaller(
        Err.RATE_LIMITED,
        hint="too many requests from this address in one minute",
        headers=(
            (b"x-ratelimit-limit", b"%d" % verdict.limit),
            (b"x-ratelimit-remaining", b"%d" % verdict.remaining),
            (b"x-ratelimit-reset", b"%d" % verdict.reset),
        ),
        retry_seconds=verdict.retry_after_seconds,
    )
