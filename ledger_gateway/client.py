"""`Gateway`: calls, batches, the account, bulk look-ups, quotes, webhooks and streams of one caller.

Implements: interface, "Endpoints". Every method raises LedgerGatewayError (errors.py).
Not here: HTTP and retries (transport.py), the WebSocket (stream.py).
"""

import asyncio
import os
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

import httpx

from ledger_gateway.answers import (
    CALL_ID,
    Answer,
    BatchItem,
    Figures,
    decode,
    document_of,
    items_of,
    result_of,
    text_of,
    told_errors,
)
from ledger_gateway.call_requests import Call, Consistency, call_headers, encoded, new_idempotency_key, request_of
from ledger_gateway.credentials import ApiKey, Session, Wallet, credential_of
from ledger_gateway.errors import LimitReached, NotFound, Unavailable, Unreachable
from ledger_gateway.records import Account, Bulk, Confirmation, LedgerEntry, Quote, Usage, UsageEntry, Webhook
from ledger_gateway.retries import SENDS, Repeatable, RetryPolicy, repeatable
from ledger_gateway.signals import Signal, SignalGap, SignalPage
from ledger_gateway.stream import Stream
from ledger_gateway.subscriptions import Gap, Notification
from ledger_gateway.transport import Transport

DEFAULT_URL = "http://127.0.0.1:8080"
URL_VARIABLE, KEY_VARIABLE = "LEDGER_GATEWAY_URL", "LEDGER_GATEWAY_API_KEY"
BATCH_MAX = 100
_PAGE_MAX = 500
_TIMEOUT_SECONDS = 40.0  # The longest method has 30 s at the gateway.
Record = TypeVar("Record")


class Gateway:
    """One account at one gateway. Use it as `async with Gateway(url, api_key) as gateway`.

    credential: an API key as text, a Wallet, a Session, or None for public pages. http: a client of your own, such as
    `x402HttpxClient`, which pays; the caller closes it. now: Unix seconds, for signatures. figures: credits and limits,
    of the last answer.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        credential: str | ApiKey | Wallet | Session | None = None,
        *,
        http: httpx.AsyncClient | None = None,
        retry: RetryPolicy | None = None,
        timeout_seconds: float = _TIMEOUT_SECONDS,
        jitter: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], float] = time.time,
        consistency: Consistency | None = None,
    ) -> None:
        self._consistency = consistency
        given, policy = credential_of(credential), retry or RetryPolicy()
        self._transport = Transport(url, given, http, policy, timeout_seconds, jitter, sleep, now)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> "Gateway":
        """Take the URL and the API key from LEDGER_GATEWAY_URL and LEDGER_GATEWAY_API_KEY."""
        found = os.environ if environment is None else environment
        return cls(found.get(URL_VARIABLE, DEFAULT_URL), found.get(KEY_VARIABLE))

    async def __aenter__(self) -> "Gateway":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections. A session stays valid; `sign_out` ends it."""
        await self._transport.close()

    @property
    def url(self) -> str:
        return self._transport.url

    @property
    def figures(self) -> Figures:
        return self._transport.figures

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers of the last answer, with lower-case names."""
        return self._transport.headers

    # --- calls

    async def call(
        self,
        method: str,
        *params: Any,
        idempotency_key: str | None = None,
        max_credits: int | None = None,
        consistency: Consistency | None = None,
    ) -> Any:
        """Make one JSON-RPC call and return its result.

        idempotency_key: of a call that moves money; it is then carried out and charged once, however often it is sent,
        so it may be sent again. One is made where none is given. "": without one, for those who send more a day than
        the gateway keeps keys (100,000). max_credits: refuse the call, free, where it could cost more. consistency:
        no answer to a "monotonic" read is older than those before it; None: as the constructor has it.
        """
        key = (new_idempotency_key() if idempotency_key is None and method in SENDS else idempotency_key) or None
        body = encoded(request_of(CALL_ID, (method, *params)))
        headers = call_headers(key, max_credits, consistency or self._consistency)
        again = repeatable(method, key)
        return await self._transport.ask("POST", "/", result_of, body=body, headers=headers, repeatable=again)

    async def batch(
        self, calls: Sequence[Call], max_credits: int | None = None, consistency: Consistency | None = None
    ) -> list[BatchItem]:
        """Make many calls, each `(method, *params)`, and return their ends in order.

        They travel in batches of at most 100. Calls that the gateway refuses for a reason that passes are sent again;
        sends are not.
        """
        ends: list[BatchItem] = [BatchItem()] * len(calls)
        headers = call_headers(None, max_credits, consistency or self._consistency)
        for first in range(0, len(calls), BATCH_MAX):
            await self._batch(calls, range(first, min(first + BATCH_MAX, len(calls))), ends, headers)
        return ends

    async def send_and_confirm(
        self, transaction: str, options: Mapping[str, Any] | None = None, idempotency_key: str | None = None
    ) -> dict[str, Any]:
        """Send a signed transaction (base64) and return its outcome. idempotency_key: as of `call`."""
        params = [transaction] if options is None else [transaction, dict(options)]
        found: dict[str, Any] = await self.call("sendAndConfirm", *params, idempotency_key=idempotency_key)
        return found

    async def quote(self, calls: Sequence[Call]) -> Quote:
        """Return what these calls would cost; free."""
        asked = [request_of(number, call) for number, call in enumerate(calls)]
        return await self._record(Quote, "POST", "/quote", encoded(asked[0] if len(asked) == 1 else asked))

    async def _batch(
        self, calls: Sequence[Call], waiting: Iterable[int], ends: list[BatchItem], headers: dict[str, str]
    ) -> None:
        policy, attempts, left = self._transport.retry, 0, list(waiting)
        while left:
            attempts += 1
            asked = [calls[number] for number in left]
            body = encoded([request_of(place, call) for place, call in enumerate(asked)])
            again = Repeatable.NEVER if any(call[0] in SENDS for call in asked) else Repeatable.CHARGED
            items = await self._transport.ask(
                "POST",
                "/",
                lambda answer: items_of(answer, len(asked)),  # noqa: B023 - called before the next turn.
                body=body,
                headers=headers,
                repeatable=again,
            )
            for number, item in zip(left, items, strict=True):
                ends[number] = item
            waits = {
                number: policy.wait_seconds(
                    error, attempts, repeatable(calls[number][0], None), self._transport.jitter()
                )
                for number, item in zip(left, items, strict=True)
                for error in told_errors([item])
            }
            left = [number for number, wait in waits.items() if wait is not None]
            if left:
                await self._transport.sleep(max(wait for wait in waits.values() if wait is not None))

    # --- the account

    async def account(self) -> Account:
        return await self._record(Account, "GET", "/account/info")

    async def ledger(self, limit: int = 50, offset: int = 0) -> list[LedgerEntry]:
        """Return entries of the ledger, newest first; at most 500."""
        return await self._entries(LedgerEntry, "/account/ledger", limit, offset)

    async def ledger_entries(
        self, *, from_: str | None = None, to: str | None = None, type: str | None = None, method: str | None = None
    ) -> AsyncIterator[LedgerEntry]:
        """Give all entries of the ledger, newest first, read page by page. from_, to: ISO 8601 or Unix seconds."""
        query = {"limit": _PAGE_MAX, "from": from_, "to": to, "type": type, "method": method, "details": "true"}
        found: dict[str, Any] = {}
        while not found or found["next_cursor"] is not None:
            cursor = {"cursor": found.get("next_cursor")}
            found = await self._record(dict, "GET", "/account/ledger", query=query | cursor)
            for entry in decode(found.get("entries"), list[LedgerEntry], Answer(200, {}, b"")):
                yield entry

    async def history(self, limit: int = 50, offset: int = 0) -> list[UsageEntry]:
        """Return charged calls, newest first; at most 500."""
        return await self._entries(UsageEntry, "/account/history", limit, offset)

    async def usage(
        self, by: Sequence[str] = ("method", "hour"), from_: str | None = None, to: str | None = None
    ) -> Usage:
        """Return charged calls, grouped. by: of method, hour, day, key. from_, to: ISO 8601."""
        query = {"by": ",".join(by), "from": from_, "to": to, "format": "json"}
        return await self._record(Usage, "GET", "/account/usage", query=query)

    async def new_api_key(self, ref_code: str | None = None) -> str:
        """Make an API key; the key before it ends at once. The credential must be a wallet.

        The first key of a wallet opens its account; ref_code then links a referral code.
        """
        body = encoded({} if ref_code is None else {"ref_code": ref_code})
        found = await self.document("POST", "/account/api-key", body, again=Repeatable.CHARGED)
        return str(found["api_key"])

    async def confirm_deposit(self, signature: str) -> Confirmation:
        """Have a transfer credited as soon as it is final."""
        return await self._record(Confirmation, "POST", "/account/confirm-deposit", encoded({"signature": signature}))

    async def wait_for_deposit(self, signature: str, seconds_max: float = 120.0, every: float = 2.0) -> Confirmation:
        """Ask until a transfer is final and credited. Raises what the last question got, when that takes too long."""
        waited = 0.0
        body = encoded({"signature": signature})
        while True:
            try:
                # NEVER: this loop asks again, and not the retry policy below it.
                return await self._record(
                    Confirmation, "POST", "/account/confirm-deposit", body, again=Repeatable.NEVER
                )
            except (NotFound, Unavailable, LimitReached, Unreachable) as error:
                wait = max(every, getattr(error, "retry_after", None) or 0.0)
                if waited + wait > seconds_max:
                    raise
            await self._transport.sleep(wait)
            waited += wait

    async def sign_out(self) -> None:
        """End the session."""
        await self._transport.sign_out()

    # --- look-ups

    async def bulk_balances(self, addresses: Sequence[str], commitment: str | None = None) -> Bulk:
        return await self._bulk("/bulk/getBalances", {"addresses": list(addresses)}, commitment)

    async def bulk_token_balances(self, owners: Sequence[str], commitment: str | None = None) -> Bulk:
        return await self._bulk("/bulk/getTokenBalances", {"owners": list(owners)}, commitment)

    async def bulk_transactions(self, signatures: Sequence[str], commitment: str | None = None) -> Bulk:
        return await self._bulk("/bulk/getTransactions", {"signatures": list(signatures)}, commitment)

    async def page(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """Return the JSON of a free page, such as /health, /pricing or /capabilities."""
        return await self._transport.ask("GET", path, document_of, query=query)

    async def text(self, path: str, query: Mapping[str, Any] | None = None) -> str:
        """Return a free page that is no JSON, such as a bill as CSV."""
        return await self._transport.ask("GET", path, text_of, query=query)

    async def health(self) -> dict[str, Any]:
        """Return the health document, also while the service starts (503)."""
        found: dict[str, Any] = await self._transport.ask("GET", "/health", _health, with_credential=False)
        return found

    # --- signals and subscriptions

    async def recent_signals(
        self, limit: int = 50, since: str | None = None, **filters: str | Sequence[str] | None
    ) -> SignalPage:
        """Return recent signals, newest first; after `since` oldest first. filters: kinds, mint, program."""
        named = {
            name: value if value is None or isinstance(value, str) else ",".join(value)
            for name, value in filters.items()
        }
        query = {"limit": limit, "since": since, **named}
        return await self._record(SignalPage, "GET", "/signals/recent", query=query, public=True)

    async def past_signals(
        self, since: str = "0-0", **filters: str | Sequence[str] | None
    ) -> AsyncGenerator[Signal, None]:
        """Yield the signals that the gateway has kept, oldest first, page by page; free. filters: as recent_signals."""
        cursor: str | None = since
        while cursor is not None:
            page = await self.recent_signals(500, cursor, **filters)
            for signal in page.events:
                yield signal
            cursor = page.next_cursor if page.next_cursor != cursor else None

    def stream(self) -> Stream:
        """Return a WebSocket for many subscriptions; it connects, and connects again, by itself."""
        return Stream(self._transport)

    async def signals(self, since: str | None = None, **filters: Any) -> AsyncGenerator[Signal | SignalGap, None]:
        """Yield signals as they happen, and gaps. filters: kinds, mint, programs, wallets, min_lamports.

        since: a cursor; signals after it come first. After a lost connection the stream goes on behind the last signal.
        """
        async with self.stream() as stream:
            async for found in await stream.signals(since, **filters):
                yield found

    async def subscribe(self, method: str, *params: Any) -> AsyncGenerator[Notification | Gap, None]:
        """Yield what a native subscription such as accountSubscribe tells, and gaps."""
        async with self.stream() as stream:
            async for found in await stream.subscribe(method, *params):
                yield found

    # --- webhooks

    async def webhooks(self) -> list[Webhook]:
        found = await self.document("GET", "/webhooks")
        listed: list[Webhook] = decode(found.get("webhooks"), list[Webhook], Answer(200, {}, b""))
        return listed

    async def create_webhook(self, url: str, filter_type: str, **fields: Any) -> Webhook:
        """Register a URL. fields: filter_value, lifecycle_events, signal_events, wallets. The answer has the secret."""
        given = {k: v for k, v in {"url": url, "filter_type": filter_type, **fields}.items() if v is not None}
        found = await self.document("POST", "/webhooks", encoded(given), again=Repeatable.CHARGED)
        record: Webhook = decode(found.get("webhook", found), Webhook, Answer(201, {}, b""))
        return record

    async def webhook_action(
        self, id: str, action: str, content: Mapping[str, Any] | None = None, method: str = "POST"
    ) -> dict[str, Any]:
        """POST /webhooks/{id}/{action}: rotate-secret, test, replay; or DELETE and PATCH with an empty action."""
        path = f"/webhooks/{_segment(id)}" + (f"/{action}" if action else "")
        body = b"" if method in ("GET", "DELETE") else encoded(content or {})
        again = Repeatable.HARMLESS if method in ("DELETE", "PATCH") else Repeatable.CHARGED
        return await self.document(method, path, body, again=again)

    async def webhook_deliveries(self, id: str, limit: int = 50, before: str | None = None) -> list[dict[str, Any]]:
        query = {"limit": limit, "before": before}
        found = await self._transport.ask("GET", f"/webhooks/{_segment(id)}/deliveries", document_of, query=query)
        listed: list[dict[str, Any]] = decode(
            found.get("deliveries") if isinstance(found, dict) else None, list[dict[str, Any]], Answer(200, {}, b"")
        )
        return listed

    # --- the steps

    async def _record(
        self,
        kind: type[Record],
        method: str,
        path: str,
        body: bytes = b"",
        query: Mapping[str, Any] | None = None,
        public: bool = False,
        again: Repeatable = Repeatable.HARMLESS,
    ) -> Record:
        def parse(answer: Answer) -> Record:
            found: Record = decode(document_of(answer), kind, answer)
            return found

        return await self._transport.ask(
            method, path, parse, body=body, query=query, with_credential=not public, repeatable=again
        )

    async def _entries(self, kind: type[Record], path: str, limit: int, offset: int) -> list[Record]:
        found = await self._record(dict, "GET", path, query={"limit": limit, "offset": offset})
        entries: list[Record] = decode(found.get("entries"), list[kind], Answer(200, {}, b""))  # type: ignore[valid-type]
        return entries

    async def _bulk(self, path: str, content: Mapping[str, Any], commitment: str | None) -> Bulk:
        content = content if commitment is None else {**content, "commitment": commitment}
        body, headers = encoded(content), call_headers(None, None, self._consistency)
        found = await self._transport.ask(
            "POST", path, document_of, body=body, headers=headers, repeatable=Repeatable.CHARGED
        )
        bulk: Bulk = decode(found, Bulk, Answer(200, {}, b""))
        return bulk

    async def document(
        self, method: str, path: str, body: bytes = b"", again: Repeatable = Repeatable.HARMLESS
    ) -> dict[str, Any]:
        """Ask a page, and return the JSON object that it answers with."""
        return await self._record(dict, method, path, body, again=again)


def _segment(id: str) -> str:
    if id.isascii() and id.replace("_", "").replace("-", "").isalnum():
        return id
    raise ValueError("the id of a webhook has letters, digits, - and _ alone")


def _health(answer: Answer) -> Any:
    """Return the document of a service that starts too: its status is 503."""
    found = document_of(Answer(200, answer.headers, answer.body) if answer.status == 503 else answer)
    return found if isinstance(found, dict) and "status" in found else document_of(answer)
