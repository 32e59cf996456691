"""One request and its attempts: sign, send, read a bounded answer, wait, send again.

Implements: retries.py and credentials.py over httpx. Not here: what the requests ask (client.py).
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx

from ledger_gateway.answers import Answer, Figures, document_of, figures_of, refusal_of
from ledger_gateway.credentials import Credential, Session, headers_of
from ledger_gateway.errors import BadAnswer, Denied, LedgerGatewayError, Unreachable
from ledger_gateway.retries import Repeatable, RetryPolicy

ANSWER_BYTES_MAX = 256 << 20  # Blocks are tens of megabytes; an endless answer must not fill the memory.
_RENEW_SECONDS = 60.0  # A session is renewed this long before it ends.
_NOT_SENT = (
    *(httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol, httpx.ProxyError),
)
Value = TypeVar("Value")


def checked_url(url: str) -> str:
    """Return a gateway's URL without its last slash. Raises ValueError; the text does not repeat a secret in it."""
    try:
        parts = urlsplit(url.strip())
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        has_host = False
    if not has_host or parts.scheme not in ("http", "https"):
        raise ValueError("the URL must look like https://gateway.example or http://127.0.0.1:8080")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("the URL must hold no user name, key or fragment; give the key apart from it")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


class Transport:
    """Requests of one caller. figures: of the last answer that told them."""

    def __init__(
        self,
        url: str,
        credential: Credential,
        http: httpx.AsyncClient | None,
        retry: RetryPolicy,
        timeout_seconds: float,
        jitter: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        now: Callable[[], float] = time.time,
    ) -> None:
        self.url, self.credential, self.retry = checked_url(url), credential, retry
        self.figures = Figures()
        self.headers: Mapping[str, str] = {}
        self._http = http or httpx.AsyncClient(timeout=httpx.Timeout(timeout_seconds, connect=10.0))
        self._owns_http, self._timeout_seconds = http is None, timeout_seconds
        self.jitter, self.sleep, self._now = jitter, sleep, now
        self._base_path = urlsplit(self.url).path
        self._signing_in = asyncio.Lock()
        self._session_seconds = self._session_until = 0.0

    async def close(self) -> None:
        if self._owns_http:
            await self._http.aclose()

    async def ask(
        self,
        method: str,
        path: str,
        parse: Callable[[Answer], Value],
        *,
        body: bytes = b"",
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: Repeatable = Repeatable.HARMLESS,
        with_credential: bool = True,
    ) -> Value:
        """Send a request until it has an answer or may not be sent again. Raises LedgerGatewayError."""
        attempts, renewed = 0, False
        while True:
            attempts += 1
            signed: dict[str, str] = {}
            try:
                signed = await self.credential_headers(method, path, body) if with_credential else {}
                answer = await self._attempt(method, path, body, query, {**(headers or {}), **signed})
                self._note(answer)
                return parse(answer)
            except LedgerGatewayError as error:
                ended = isinstance(error, Denied) and self._ended(error, signed)
                if ended and not renewed and repeatable is not Repeatable.NEVER:
                    attempts, renewed = attempts - 1, True
                    continue
                wait = self.retry.wait_seconds(error, attempts, repeatable, self.jitter())
                if wait is None:
                    raise
            await self.sleep(wait)

    @asynccontextmanager
    async def streamed(
        self, method: str, path: str, query: Mapping[str, Any], headers: Mapping[str, str]
    ) -> AsyncIterator[httpx.Response]:
        """Send a request once, for an answer that is read piece by piece. Raises the error of an answer that is a
        refusal, and Unreachable; of a break in the middle httpx tells."""
        signed = await self.credential_headers(method, path, b"")
        sent = {"Accept-Encoding": "identity", **headers, **signed}
        request = self._http.build_request(method, self.url + path, params=dict(query), headers=sent)
        try:
            response = await self._http.send(request, stream=True)
        except _NOT_SENT as error:
            raise Unreachable(f"no connection to {self.url}: {_reason(error)}", was_sent=False) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unreachable(f"no answer from {self.url}: {_reason(error)}", was_sent=True) from None
        try:
            if response.status_code >= 300:
                refused = refusal_of(Answer(response.status_code, dict(response.headers), await _read(response)))
                if isinstance(refused, Denied):
                    self._ended(refused, signed)  # The next attempt signs in again.
                raise refused
            self._note(Answer(response.status_code, dict(response.headers), b""))
            yield response
        finally:
            await response.aclose()

    async def credential_headers(self, method: str, path: str, body: bytes) -> dict[str, str]:
        """Return the headers of one attempt; a session signs in where it has to."""
        if isinstance(self.credential, Session):
            await self._sign_in(self.credential)
        return headers_of(self.credential, method, self._base_path + path, body, self._now)

    async def sign_out(self) -> None:
        """End the session, where there is one."""
        if isinstance(self.credential, Session) and self.credential.token is not None:
            await self.ask("POST", "/auth/logout", document_of, body=b"{}")
            self.credential.token = None

    def _ended(self, error: Denied, signed: Mapping[str, str]) -> bool:
        """Whether the token of this attempt has ended; it is then forgotten."""
        if not isinstance(self.credential, Session) or error.http != 401 or "Authorization" not in signed:
            return False
        if signed["Authorization"] == f"Bearer {self.credential.token}":
            self.credential.token = None  # Unless another call has renewed it in the meantime.
        return True

    async def _sign_in(self, session: Session) -> None:
        async with self._signing_in:  # Waiting calls then find the token of the first one.
            if session.token is not None and self._now() < self._session_until:
                self._session_until = self._now() + self._session_seconds  # Each use prolongs the session.
                return
            who = {"pubkey": session.wallet.pubkey}
            challenge = await self._post("/auth/challenge", who)
            text = challenge.get("challenge")
            # A challenge is hex alone: what a server has signed here can never be the bytes of a transaction.
            if not isinstance(text, str) or len(text) != 64 or not set(text) <= set("0123456789abcdef"):
                raise BadAnswer("the challenge is not 64 hex characters", 200)
            signature = session.wallet.sign(text.encode())
            verified = await self._post("/auth/verify", {**who, "challenge": text, "signature": signature})
            token, seconds = verified.get("token"), verified.get("expires_in")
            if not isinstance(token, str) or not token.isascii() or not token.isprintable():
                raise BadAnswer("the sign-in gave no token", 200)
            session.token = token
            life = float(seconds) if isinstance(seconds, int) and 0 < seconds < 10**9 else 2 * _RENEW_SECONDS
            self._session_seconds = max(life - _RENEW_SECONDS, life / 2)
            self._session_until = self._now() + self._session_seconds

    async def _post(self, path: str, content: Mapping[str, Any]) -> dict[str, Any]:
        body = json.dumps(content).encode()
        value = await self.ask("POST", path, document_of, body=body, with_credential=False)
        if not isinstance(value, dict):
            raise BadAnswer("wanted a JSON object", 200)
        return value

    async def _attempt(
        self, method: str, path: str, body: bytes, query: Mapping[str, Any] | None, headers: Mapping[str, str]
    ) -> Answer:
        sent = {"Accept-Encoding": "identity", **headers}
        if body:
            sent["Content-Type"] = "application/json"
        given = {name: value for name, value in (query or {}).items() if value is not None}
        try:
            async with asyncio.timeout(self._timeout_seconds * 2):  # A server that sends a byte a second must end, too.
                async with self._http.stream(
                    method, self.url + path, content=body or None, params=given or None, headers=sent
                ) as response:
                    return Answer(response.status_code, dict(response.headers), await _read(response))
        except _NOT_SENT as error:
            raise Unreachable(f"no connection to {self.url}: {_reason(error)}", was_sent=False) from None
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            raise Unreachable(f"no answer from {self.url}: {_reason(error)}", was_sent=True) from None

    def _note(self, answer: Answer) -> None:
        self.headers = answer.headers
        told = figures_of(answer.headers)
        if told.credits_remaining is not None:
            self.figures = told


async def _read(response: httpx.Response) -> bytes:
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        # Not asked for; and one piece of an answer that is compressed twice can be larger than the memory.
        raise BadAnswer("the answer is compressed, which the request did not allow", response.status_code)
    parts, length = [], 0
    async for part in response.aiter_raw():
        length += len(part)
        if length > ANSWER_BYTES_MAX:
            raise BadAnswer(f"the answer is larger than {ANSWER_BYTES_MAX >> 20} MiB", response.status_code)
        parts.append(part)
    return b"".join(parts)


def _reason(error: Exception) -> str:
    return str(error) or {"ConnectTimeout": "it took too long to connect"}.get(
        type(error).__name__, type(error).__name__
    )
