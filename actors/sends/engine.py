"""One block engine: bundles and single transactions, its rate limit, its tip accounts and its tip floor.

Implements: interface, "Bundle relay"; the JSON-RPC of Jito's block engine.
The shell around it. The engine counts the requests of all racers together, so each racer has a share of the rate, on a
lease (leases.py). A request over the share waits for a moment, then it is refused here: above the limit the engine goes
on to give ids for bundles that never land. Not here: several engines (regions.py).
"""

import asyncio
import contextlib
import hashlib
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec
import orjson

from actors.addresses import TIP_ACCOUNTS
from actors.clock import Clock
from actors.sends.chain import base64_text

logger = logging.getLogger(__name__)

_ANSWER_BYTES_MAX = 1 << 20
_CONNECT_SECONDS = 1.0
_TIP_ACCOUNTS_SECONDS = 600.0
_TIP_FLOOR_SECONDS = 5.0
_WAITING_MAX = 256
_QUIET_SECONDS = 20.0  # After this long without an answer, the engine is probed.
_AWAY_SECONDS = 5.0  # The same while it does not answer.
_FAILURES_IN_A_ROW = 3  # As for nodes (decisions, "health transitions").
_PROBE_MS = 3_000
_PATHS = {"sendBundle": "/api/v1/bundles", "sendTransaction": "/api/v1/transactions"}


class EngineUnavailable(Exception):
    """The engine did not answer, or may not be asked now. sent: it may have received the request all the same."""

    def __init__(self, text: str, sent: bool = False, retry_seconds: float = 0.0, late: bool = False) -> None:
        super().__init__(text)
        self.sent, self.retry_seconds, self.late = sent, retry_seconds, late


class EngineCall(msgspec.Struct, frozen=True):
    """A customer's question. params: a JSON array, as the engine takes it. bundle_only: of sendTransaction. bundle_id:
    of the bundle that it sends or asks for, where it is about one."""

    method: str
    params: bytes
    timeout_ms: int
    bundle_only: bool = False
    bundle_id: str = ""

    @property
    def sends(self) -> bool:
        return self.method in _PATHS


class EngineAway(msgspec.Struct, frozen=True):
    """No answer to a customer's question. busy: it was not asked, to keep its rate. late: it did not answer in time.
    may_have_it: the engine may have taken the request nevertheless."""

    reason: str
    busy: bool = False
    late: bool = False
    may_have_it: bool = False


@dataclass(frozen=True, slots=True)
class EngineAnswer:
    """Its own status and bytes. bundle_id: from the header of a transaction that was sent as a bundle."""

    status: int
    body: bytes
    bundle_id: str = ""


@dataclass(slots=True)
class RateBucket:
    """Requests that may leave: so many a second, and a second's worth at once. Times are seconds of one clock. until:
    nothing may leave from then on."""

    per_second: float
    level: float = field(init=False)
    at: float = 0.0
    until: float = math.inf

    def __post_init__(self) -> None:
        assert self.per_second >= 0, self.per_second
        self.level = self._most

    @property
    def _most(self) -> float:
        return max(1.0, self.per_second) if self.per_second > 0 else 0.0

    def wait_seconds(self, now: float) -> float:
        """Return the time until one may leave: 0 is now, infinity never at this rate. Takes nothing."""
        self._fill(now)
        if now >= self.until or self.per_second <= 0:
            return math.inf
        return 0.0 if self.level >= 1 - 1e-9 else (1 - self.level) / self.per_second

    def take(self, now: float) -> float:
        """Take one and return 0 if one may leave now; else as wait_seconds."""
        wait = self.wait_seconds(now)
        if wait == 0:
            self.level = max(0.0, self.level - 1)
        return wait

    def change(self, per_second: float, now: float, until: float) -> None:
        """Go on with another rate. What has gathered stays, as far as the new rate lets it."""
        self._fill(now)
        self.per_second, self.until = per_second, until
        self.level = min(self.level, self._most)

    def _fill(self, now: float) -> None:
        """Refill. Nothing accumulates while no rate is valid."""
        gathered = max(0.0, min(now, self.until) - self.at) * self.per_second
        self.level, self.at = min(self._most, self.level + gathered), max(now, self.at)


class BlockEngineClient:
    """url: of the engine; tip_floor_url: None where it is served by the engine itself, as by devnode's. auth: the UUID
    that raises its limit, never logged. requests_per_second: that the engine takes of all racers. leased: nothing is
    asked before `lease`."""

    def __init__(
        self,
        url: str,
        clock: Clock,
        *,
        tip_floor_url: str | None = None,
        auth: str | None = None,
        requests_per_second: float = 1.0,
        leased: bool = False,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._url, self._clock, self._sleep = url.rstrip("/"), clock, sleep
        self._tip_floor_url = tip_floor_url or f"{self._url}/api/v1/bundles/tip_floor"
        self._headers = {"Content-Type": "application/json"} | ({"x-jito-auth": auth} if auth else {})
        self.rate_milli = max(1, round(requests_per_second * 1000))
        self._bucket = RateBucket(0.0 if leased else requests_per_second)
        self._waiting = 0
        self._session: aiohttp.ClientSession | None = None
        self._tip_accounts: tuple[str, ...] = TIP_ACCOUNTS
        self._tip_accounts_at: float | None = None
        self._tip_floor: tuple[float, bytes] | None = None
        self._answered_at, self._failures_in_a_row = float("-inf"), 0

    @property
    def host(self) -> str:
        """Return the host, for logs: the URL may hold a key."""
        return urlsplit(self._url).hostname or ""

    @property
    def key(self) -> str:
        """Return a name of the engine for leases, equal in all racers."""
        return hashlib.sha256(self._url.encode()).hexdigest()[:32]

    @property
    def leased_per_second(self) -> float:
        """Return this racer's present rate."""
        return self._bucket.per_second if self._clock.monotonic() < self._bucket.until else 0.0

    def lease(self, milli: int, until: float) -> None:
        """Go on with this share of the rate, in thousandths of a request a second, until that time."""
        self._bucket.change(milli / 1000, self._clock.monotonic(), until)

    def shrink(self, milli: int) -> None:
        """Use no more than this share from now on."""
        if milli / 1000 < self._bucket.per_second:
            self._bucket.change(milli / 1000, self._clock.monotonic(), self._bucket.until)

    def wait_seconds(self, now: float) -> float:
        """Return how long a request would wait for the rate."""
        return self._bucket.wait_seconds(now)

    @property
    def known_tip_accounts(self) -> tuple[str, ...]:
        """Return the accounts that the engine last named, or its known ones."""
        return self._tip_accounts

    @property
    def reachable(self) -> bool:
        """Return whether it answers: at least one of the last three requests."""
        return self._failures_in_a_row < _FAILURES_IN_A_ROW

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def watch(self) -> None:
        """Until cancelled: ask the engine for its tip accounts at the start, and whenever nobody has asked it anything
        for a while, so that its outage is known."""
        while True:
            now = self._clock.monotonic()
            if self._failures_in_a_row or now - self._answered_at > _QUIET_SECONDS:
                with contextlib.suppress(EngineUnavailable):
                    await self._ask_tip_accounts(_PROBE_MS)
            await self._sleep(_AWAY_SECONDS)

    async def answer(self, call: EngineCall, wait_ms: int | None = None) -> EngineAnswer | EngineAway:
        """Answer a customer's question: tip accounts and tip floor from what is kept, the others as the engine has it.

        wait_ms: for the rate; None: half of the question's time. Raises nothing.
        """
        method = call.method
        try:
            if method == "getTipAccounts":
                return _made(orjson.dumps(await self.tip_accounts(call.timeout_ms)))
            if method == "tipFloor":
                return _made(await self.tip_floor(call.timeout_ms))
            path = _PATHS.get(method, f"/api/v1/{method}") + ("?bundleOnly=true" if call.bundle_only else "")
            wait_ms = call.timeout_ms // 2 if wait_ms is None else wait_ms
            return await self.call(path, method, call.params, call.timeout_ms, wait_ms)
        except EngineUnavailable as error:
            logger.warning("%s of a customer: %s", method, error)
            return EngineAway(str(error), error.retry_seconds > 0, error.late, error.sent)

    async def send_transaction(self, raw: bytes, timeout_ms: int, wait_ms: int = 0) -> EngineAnswer:
        params = [base64_text(raw), {"encoding": "base64"}]
        return await self.call("/api/v1/transactions", "sendTransaction", orjson.dumps(params), timeout_ms, wait_ms)

    async def call(
        self, path: str, method: str, params: bytes, timeout_ms: int, wait_ms: int | None = None
    ) -> EngineAnswer:
        """Ask the engine. Raises EngineUnavailable. wait_ms: longest wait for the rate limit; None: as long as the call
        may take."""
        give_up_at = self._clock.monotonic() + timeout_ms / 1000
        await self._admitted(timeout_ms if wait_ms is None else wait_ms)
        body = b'{"jsonrpc":"2.0","id":1,"method":"%b","params":%b}' % (method.encode(), params)
        return await self._request("POST", self._url + path, body, give_up_at - self._clock.monotonic())

    async def tip_accounts(self, timeout_ms: int) -> tuple[str, ...]:
        """Return the tip accounts, kept for ten minutes. Raises EngineUnavailable while none were ever known."""
        now = self._clock.monotonic()
        if self._tip_accounts_at is not None and now - self._tip_accounts_at < _TIP_ACCOUNTS_SECONDS:
            return self._tip_accounts
        try:
            await self._ask_tip_accounts(timeout_ms)
        except EngineUnavailable:
            if self._tip_accounts_at is None:
                raise
        return self._tip_accounts

    async def _ask_tip_accounts(self, timeout_ms: int) -> None:
        """Raises EngineUnavailable, also where the answer names no accounts."""
        now = self._clock.monotonic()
        answer = await self.call("/api/v1/getTipAccounts", "getTipAccounts", b"[]", timeout_ms)
        try:
            found = orjson.loads(answer.body)["result"]
            if not found or not all(isinstance(one, str) for one in found):
                raise ValueError("no accounts")
        except (ValueError, KeyError, TypeError) as error:
            raise _unavailable(error) from error
        self._tip_accounts, self._tip_accounts_at = tuple(found), now

    async def tip_floor(self, timeout_ms: int) -> bytes:
        """Return the engine's object unchanged, at most five seconds old. Raises EngineUnavailable."""
        now = self._clock.monotonic()
        if self._tip_floor is not None and now - self._tip_floor[0] < _TIP_FLOOR_SECONDS:
            return self._tip_floor[1]
        answer = await self._request("GET", self._tip_floor_url, None, timeout_ms / 1000)
        try:
            rows = orjson.loads(answer.body)
            if answer.status != 200 or not isinstance(rows[0], dict):
                raise ValueError("no tip floor")
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise _unavailable(error) from error
        raw = answer.body.strip()
        floor = raw[1:-1].strip() if len(rows) == 1 else orjson.dumps(rows[0])
        self._tip_floor = (now, floor)
        return floor

    async def _admitted(self, wait_ms: int) -> None:
        """Wait for the rate. Raises EngineUnavailable when that would take too long."""
        waited = 0.0
        if self._waiting >= _WAITING_MAX:
            raise EngineUnavailable("too many requests wait for the block engine", retry_seconds=1.0)
        self._waiting += 1
        try:
            while (pause := self._bucket.take(self._clock.monotonic())) > 0:
                waited += pause
                if waited * 1000 > wait_ms:
                    raise EngineUnavailable("the rate limit of the block engine is reached", retry_seconds=pause)
                await self._sleep(pause)
        finally:
            self._waiting -= 1

    def _heard(self, status: int) -> None:
        """Record an answer. A status of 500 and above is an outage: the engine's front answers, not the engine."""
        self._failures_in_a_row = self._failures_in_a_row + 1 if status >= 500 else 0
        self._answered_at = self._clock.monotonic()

    async def _request(self, verb: str, url: str, body: bytes | None, seconds: float) -> EngineAnswer:
        if self._session is None:
            self._session = aiohttp.ClientSession(auto_decompress=False)
        timeout = aiohttp.ClientTimeout(total=max(seconds, 0.001), sock_connect=_CONNECT_SECONDS)
        try:
            async with self._session.request(
                verb, url, data=body, headers=self._headers, timeout=timeout, allow_redirects=False
            ) as response:
                found = await response.content.read(_ANSWER_BYTES_MAX + 1)
                while len(found) <= _ANSWER_BYTES_MAX and (more := await response.content.readany()):
                    found += more
                self._heard(response.status)
                if len(found) > _ANSWER_BYTES_MAX or response.status in (301, 302, 307, 308):
                    raise EngineUnavailable("the block engine's answer cannot be used", sent=True)
                return EngineAnswer(response.status, found, response.headers.get("x-bundle-id", ""))
        except aiohttp.ClientConnectorError as error:
            self._failures_in_a_row += 1
            raise EngineUnavailable(f"the block engine cannot be reached: {type(error).__name__}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._failures_in_a_row += 1
            late = isinstance(error, TimeoutError)
            text = f"the block engine did not answer: {type(error).__name__}"
            raise EngineUnavailable(text, sent=True, late=late) from error


def _made(result: bytes) -> EngineAnswer:
    return EngineAnswer(200, b'{"jsonrpc":"2.0","id":1,"result":%b}' % result)


def error_of(answer: EngineAnswer) -> str:
    """Return the error in an answer; empty: it is a result."""
    try:
        body: Any = orjson.loads(answer.body)
        error = body.get("error")
        if error is None and answer.status == 200 and "result" in body:
            return ""
        return f"{error.get('code')}: {error.get('message')}"[:200]
    except (orjson.JSONDecodeError, AttributeError):
        return f"HTTP {answer.status}"


def _unavailable(error: Exception) -> EngineUnavailable:
    if isinstance(error, EngineUnavailable):
        return error
    return EngineUnavailable("the block engine's answer cannot be understood", sent=True)
