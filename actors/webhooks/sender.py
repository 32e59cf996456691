"""Sends one signed delivery: one POST to a guarded address, with a bound on everything that comes back.

Implements: threats 26 and 27 (no redirects, capped read, time limits). A shell around aiohttp.
The head of the answer decides. At most ANSWER_BYTES_MAX of the body are kept; where it is longer, or slow, the
connection is closed.
"""

import asyncio
import errno
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from actors.clock import Clock
from actors.webhooks.core import Attempt
from actors.webhooks.resolver import GuardedResolver, GuardRefused, HostUnknown
from actors.webhooks.targets import EgressRules, url_fault

ANSWER_BYTES_MAX = 1_024
ATTEMPT_SECONDS_MAX = 15.0
_CONNECT_SECONDS_MAX = 5.0
_BODY_SECONDS_MAX = 2.0  # Time for the first kilobyte of the body, after the head.
_REST_BYTES_MAX = 16_384  # A body of up to this size is read to its end, so that its connection can be used again.
_IDLE_SECONDS = 20.0
_USER_AGENT = "ledger-gateway-webhooks/1"
_ERROR_CHARACTERS_MAX = 200
_INFORMATIONAL_MAX = 10  # Informational heads (100 to 199) before an answer. Usual are none, or one.
_CAUSES_MAX = 8
_CUT = "the endpoint closed the connection before it answered"
_WORDS = {
    errno.ECONNREFUSED: "the connection was refused: nothing listens at this host and port",
    errno.EHOSTUNREACH: "there is no way to this host",
    errno.ENETUNREACH: "there is no way to this host",
    errno.ECONNRESET: _CUT,
}


class _HeadsCounted:
    """A protocol of the client, or its connection, that gives few informational heads (100 to 199) before an answer."""

    def __init__(self, inner: Any, protocol: Any = None) -> None:
        self._inner, self._left, self.protocol = inner, _INFORMATIONAL_MAX, protocol

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def read(self) -> Any:
        if self._left == 0:
            raise aiohttp.ClientPayloadError("informational answers without end")
        self._left -= 1
        return await self._inner.read()


class _Answer(aiohttp.ClientResponse):
    """Counts informational heads: an endpoint could send them without end, and the client would read them all."""

    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        counted: Any = _HeadsCounted(connection, _HeadsCounted(connection.protocol))
        return await super().start(counted)


class WebhookSender:
    """ca_file: certificates that are trusted beside the machine's own. seconds_max: for a whole attempt."""

    def __init__(
        self,
        rules: EgressRules,
        resolver: GuardedResolver,
        clock: Clock,
        ca_file: Path | None = None,
        seconds_max: float = ATTEMPT_SECONDS_MAX,
    ) -> None:
        self._rules, self._resolver, self._clock, self._seconds_max = rules, resolver, clock, seconds_max
        context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if ca_file is not None:
            context.load_verify_locations(ca_file)
        connector = aiohttp.TCPConnector(
            resolver=resolver, use_dns_cache=False, limit=0, ssl=context, keepalive_timeout=_IDLE_SECONDS
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=seconds_max, connect=_CONNECT_SECONDS_MAX),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            response_class=_Answer,
            trust_env=False,
            skip_auto_headers=("Accept-Encoding", "Accept"),
        )

    async def check(self, url: str) -> str | None:
        """Return why a webhook may not have this URL now, or None. Looks its host up."""
        fault = self._fault(url)
        if fault is not None:
            return fault
        try:
            await self._resolver.addresses(URL(url, encoded=True).raw_host or "")
        except (GuardRefused, HostUnknown) as error:
            return str(error)
        return None

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> Attempt:
        """Make one attempt. Raises nothing but the cancellation of its caller."""
        at_ms, started = self._clock.now_ms(), self._clock.monotonic()
        status, error, retry_after, answer = None, "", None, b""
        fault = self._fault(url)
        if fault is not None:
            return Attempt(at_ms, 0, None, f"refused by the egress guard: {fault}")
        try:
            sent = {"Content-Type": "application/json", "User-Agent": _USER_AGENT, **headers}
            async with self._session.post(
                URL(url, encoded=True), data=body, headers=sent, allow_redirects=False
            ) as response:
                status, retry_after = response.status, response.headers.get("Retry-After")
                latency_ms = self._since(started)
                answer = await self._read(response)
                return Attempt(at_ms, latency_ms, status, "", retry_after, answer)
        except TimeoutError:
            error = f"no answer within {self._seconds_max:g} s"
        except (aiohttp.ClientError, OSError, ValueError) as failure:
            error = _explain(failure)
        return Attempt(at_ms, self._since(started), status, error[:_ERROR_CHARACTERS_MAX], retry_after, answer)

    def _fault(self, url: str) -> str | None:
        """Apply the guard to a URL, and to its host as the HTTP client reads it: the client asks no resolver about an
        address, so both must find the same host."""
        fault = url_fault(url, self._rules)
        if fault is not None:
            return fault
        try:
            read, parts = URL(url, encoded=True), urlsplit(url)
        except ValueError:
            return "it cannot be read"
        if (read.raw_host or "").lower() != (parts.hostname or "").lower() or read.explicit_port != parts.port:
            return "its host can be read in two ways"
        return None

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        """Read the beginning of the body. A connection whose body was not read to its end is closed."""
        read, kept = 0, b""
        try:
            async with asyncio.timeout(_BODY_SECONDS_MAX):
                while read <= _REST_BYTES_MAX:
                    piece = await response.content.read(ANSWER_BYTES_MAX)
                    if not piece:
                        return kept
                    read += len(piece)
                    kept += piece[: ANSWER_BYTES_MAX - len(kept)]
        except (TimeoutError, aiohttp.ClientError, OSError):
            pass
        response.close()
        return kept

    def _since(self, started: float) -> int:
        return int((self._clock.monotonic() - started) * 1_000)

    async def close(self) -> None:
        await self._session.close()


def _explain(failure: Exception) -> str:
    """Describe the failure in one clause for the log of deliveries, in terms that the endpoint's operator can act
    on."""
    causes = list(_causes(failure))
    for cause in causes:
        if isinstance(cause, (GuardRefused, HostUnknown)):
            return str(cause)
        # The client raises an exception of this type without a message.
        if isinstance(cause, ssl.SSLCertVerificationError) and (words := getattr(cause, "verify_message", "")):
            return f"the certificate is not valid: {words}"
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return "no TLS connection could be made: the endpoint must speak TLS 1.2 or newer at this port"
    if isinstance(failure, aiohttp.ServerDisconnectedError):
        return _CUT
    if isinstance(failure, (aiohttp.ClientResponseError, aiohttp.ClientPayloadError)):
        return "the answer is not valid HTTP"
    numbers = [cause.errno for cause in causes if isinstance(cause, OSError)]
    found = next((_WORDS[number] for number in numbers if number in _WORDS), None)
    return found or f"the connection could not be made, or broke off ({type(failure).__name__})"


def _causes(failure: BaseException) -> Iterator[BaseException]:
    """Yield the failure and its causes."""
    cause: BaseException | None = failure
    for _ in range(_CAUSES_MAX):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__ or cause.__context__
