"""The door for account, session and public pages, and for POST /x402/settle.

Implements: interface, "Account endpoints", "Session endpoints", "Public endpoints"; decisions
(address limits; `offset` and `limit`).
A shell. A handler gives a response or a refusal; bodies are shaped by pages/account.py, identity/ (sessions) and
status/ (public pages).
"""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import msgspec
import orjson

from actors.accounts.api import (
    CloseSession,
    DepositConfirmation,
    Identify,
    IssueKey,
    OpenSession,
    OwnerReply,
    OwnersClient,
    OwnerUnavailable,
    ReadAccount,
    ReadLedger,
    ReadUsage,
    Value,
)
from actors.calls import Figures, ProvenProof
from actors.clock import Clock
from actors.config import Config
from actors.errors import Err, Refusal
from actors.gateway.calls import headers
from actors.gateway.calls.headers import Header, HeaderList
from actors.gateway.calls.idempotent import IdempotentCalls
from actors.gateway.calls.jsonrpc import INTRICATE, is_intricate
from actors.gateway.calls.replies import ErrorReplies, Response
from actors.gateway.calls.requests import Caller, Request, origin_of
from actors.gateway.pages import account as account_pages
from actors.gateway.pages import ledger as ledger_pages
from actors.gateway.pages import usage as usage_pages
from actors.gateway.pages.callers import OWNER_GONE, caller_of, refused, with_figures
from actors.gateway.pages.pricing import PricingDocument, PricingPage
from actors.gateway.payments.authentication import Authenticator
from actors.gateway.payments.x402 import RequestPayments
from actors.identity import challenge, endpoints
from actors.identity.credentials import Accept

_NO_RACER = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the sender of transactions does not answer")
_NO_DEPOSITS = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "this service has no deposit address configured")
KEY_MANAGES = Refusal(
    Err.METHOD_NOT_ALLOWED,
    "a named key changes nothing of its account; use its wallet, a session, or the account's own key",
)
# Owner's refusals of the credential; they take precedence over faults in the rest of the request.
_CREDENTIAL_REFUSALS = frozenset((Err.AUTH_FAILED.name, Err.NONCE_REUSED.name, Err.RATE_LIMITED.name))
# The interface ("Limits") says: these pages have neither credit nor rate headers nor X-Request-Id, with credentials or
# without.
PUBLIC_PAGES = frozenset((b"/health", b"/pricing", b"/capabilities", b"/stats/landing", b"/.well-known/x402.json"))


class StatusPages(PricingDocument, Protocol):
    """The public pages; each method returns the present content of its page, as JSON values."""

    def health(self) -> tuple[int, dict[str, Any]]:
        """Return the HTTP status and the document."""
        ...

    def capabilities(self) -> dict[str, Any]: ...

    def landing(self) -> dict[str, Any] | None:
        """None: it is unknown at the moment."""
        ...


class DepositConfirmer(Protocol):
    """The watcher of deposits: looks up a transfer on the chain."""

    async def confirm(self, signature: bytes, pubkey: bytes, balance: int | None) -> DepositConfirmation | Refusal:
        """Look the transfer up and credit it. pubkey, balance: of the caller; None if it has no account."""
        ...


class Routes:
    """payments: settles POST /x402/settle. discovery: the document of /.well-known/x402.json. origin: scheme, host and
    port as clients see them."""

    def __init__(
        self,
        config: Config,
        accounts: OwnersClient,
        status: StatusPages,
        clock: Clock,
        randomness: Callable[[int], bytes],
        authenticator: Authenticator,
        errors: ErrorReplies,
        payments: RequestPayments,
        keyed: IdempotentCalls,
        deposits: DepositConfirmer | None,
        discovery: dict[str, Any],
        origin: str,
        pricing: PricingPage,
    ) -> None:
        assert config.storage.cluster_secret is not None, "the launcher settles the secret of the cluster"
        self._secret = config.storage.cluster_secret.get_secret_value().encode()
        self._identity, self._payment_settings = config.identity, config.payments
        self._accounts, self._status, self._clock, self._randomness = accounts, status, clock, randomness
        self._authenticator, self._errors = authenticator, errors
        self._payments, self._keyed, self._deposits, self._discovered = payments, keyed, deposits, discovery
        self._origin, self._pricing_page = origin.rstrip("/"), pricing

    def serves(self, path: bytes) -> str | None:
        """Return the HTTP method of this path, or None."""
        page = _PAGES.get(path)
        return None if page is None else page.method

    async def answer(self, request: Request) -> Response:
        """Answer a request whose path and method serves() confirmed."""
        page = _PAGES[request.path]
        answered: Response | Refusal
        try:
            intricate = is_intricate(request.body)  # Reading such a body would hold the event loop.
            if page.accept is None:
                answered = INTRICATE if intricate else await page.handler(self, request)
            else:
                caller = caller_of(self._authenticator, request, page.accept)
                if isinstance(caller, Refusal):
                    answered = caller
                elif intricate:
                    answered = await self._identified(caller, INTRICATE)
                else:
                    answered = await page.handler(self, request, caller)
        except OwnerUnavailable:
            answered = OWNER_GONE
        return self._errors.reply(answered, request) if isinstance(answered, Refusal) else answered

    # --- account

    async def _info(self, request: Request, caller: Caller) -> Response | Refusal:
        reply = await self._accounts.ask(ReadAccount(caller.proof, with_runway=True))
        now = self._clock.now()
        return self._shaped(reply, lambda account: account_pages.account_body(account, self._payment_settings, now))

    async def _ledger(self, request: Request, caller: Caller) -> Response | Refusal:
        page = ledger_pages.parse_ledger(request.query, request.headers)
        if isinstance(page, Refusal):
            return await self._identified(caller, page)
        reply = await self._accounts.ask(ReadLedger(caller.proof, page.offset, page.limit, filter=page.filter))
        if reply.value is None:
            return refused(reply)
        body, more = ledger_pages.ledger_answer(page, reply.value)
        response = Response(200, body, more, content_type=page.content_type)
        response.headers += [headers.VARY_ACCEPT, *headers.kept_from(reply.kept_from_ms)]
        return self._measured(response, reply.figures)

    async def _history(self, request: Request, caller: Caller) -> Response | Refusal:
        window = account_pages.parse_window(request.query)
        if isinstance(window, Refusal):
            return await self._identified(caller, window)
        reply = await self._accounts.ask(ReadLedger(caller.proof, *window, debits_only=True))
        return self._shaped(reply, account_pages.history_body, headers.kept_from(reply.kept_from_ms))

    async def _usage(self, request: Request, caller: Caller) -> Response | Refusal:
        asked = usage_pages.parse_usage(request.query, request.headers, self._clock.now())
        if isinstance(asked, Refusal):
            return await self._identified(caller, asked)
        reply = await self._accounts.ask(ReadUsage(caller.proof, asked.first_hour, asked.end_hour, asked.by))
        if reply.value is None:
            return refused(reply)
        if asked.as_csv:
            response = Response(200, usage_pages.usage_csv(asked, reply.value), [*usage_pages.CSV_HEADERS])
            response.content_type = usage_pages.CSV
        else:
            response = Response(200, usage_pages.usage_body(asked, reply.value), [])
        response.headers.append(headers.VARY_ACCEPT)
        return self._measured(response, reply.figures)

    async def _api_key(self, request: Request, caller: Caller) -> Response | Refusal:
        ref_code = account_pages.parse_ref_code(request.body)
        if isinstance(ref_code, Refusal):
            return await self._identified(caller, ref_code)
        reply = await self._accounts.ask(IssueKey(caller.proof, ref_code))
        return self._shaped(reply, account_pages.key_body, [headers.NO_STORE])

    async def _confirm_deposit(self, request: Request, caller: Caller) -> Response | Refusal:
        """Credit a transfer. The caller is known before the chain is asked, and may be a wallet without an account; a
        named key can neither change its account nor read its balance."""
        signature = account_pages.parse_deposit_signature(request.body)
        if isinstance(signature, Refusal):
            return await self._identified(caller, signature)
        if self._deposits is None:
            return await self._identified(caller, _NO_DEPOSITS)
        account = await self._accounts.ask(Identify(caller.proof))
        if account.value is None:
            return refused(account)
        identity, deposits = account.value, self._deposits
        if identity.key:
            return with_figures(KEY_MANAGES, account.figures)

        async def confirm() -> Response | Refusal:
            confirmed = await deposits.confirm(signature, identity.pubkey, identity.balance)
            if isinstance(confirmed, Refusal):
                return with_figures(confirmed, account.figures)
            # This look-up or the watcher may have added credits, so figures and balance are read afterwards.
            after = await self._accounts.ask(Identify(ProvenProof(identity.pubkey)))
            if after.value is not None and not confirmed.credits_added:
                confirmed = msgspec.structs.replace(confirmed, new_balance=after.value.balance or 0)
            return self._shaped(OwnerReply(confirmed, figures=after.figures), account_pages.confirmation_body)

        if request.key is None:
            return await confirm()
        figures: HeaderList = []
        if account.figures is not None:
            headers.add_figures(figures, account.figures, account.figures.credits_remaining, self._clock.now())
        return await self._keyed.page(identity.pubkey, request, confirm, figures)

    # --- sessions

    async def _challenge(self, request: Request) -> Response | Refusal:
        asked = endpoints.parse_challenge_request(request.body)
        if isinstance(asked, Refusal):
            return asked
        randomness, seconds = self._randomness(challenge.RANDOM_BYTES), self._identity.challenge_seconds
        text = challenge.new_challenge(self._secret, asked.pubkey, self._clock.now(), randomness)
        if asked.for_wallet:
            return _json(endpoints.sign_in_reply(text, seconds, asked.pubkey, self._origin))
        return _json(endpoints.challenge_reply(text, seconds))

    async def _verify(self, request: Request) -> Response | Refusal:
        asked = endpoints.parse_verify_request(request.body)
        if isinstance(asked, Refusal):
            return asked
        seconds = self._identity.challenge_seconds
        now = self._clock.now()
        sent_by = origin_of(request.headers)
        challenge_id = endpoints.check_verify_request(asked, self._secret, now, seconds, self._origin, sent_by)
        if isinstance(challenge_id, Refusal):
            return challenge_id
        issued_at = challenge.issued_at(asked.issued)
        reply = await self._accounts.ask(OpenSession(asked.pubkey, challenge_id, issued_at))
        seconds = self._identity.session_seconds
        return self._shaped(reply, lambda token: endpoints.session_reply(token, seconds), [headers.NO_STORE])

    async def _logout(self, request: Request, caller: Caller) -> Response | Refusal:
        fault = endpoints.parse_logout_request(request.body)
        if fault is not None:
            return await self._identified(caller, fault)
        return self._shaped(await self._accounts.ask(CloseSession(caller.proof)), lambda _: endpoints.logout_reply())

    # --- payments

    async def _settle(self, request: Request) -> Response | Refusal:
        if request.key is None:
            return await self._payments.settle(request)
        # The key can belong to no account, so it counts for this body alone.
        scope = hashlib.sha256(request.path + request.body).digest()
        return await self._keyed.page(scope, request, lambda: self._payments.settle(request), [headers.NO_STORE])

    async def _discovery(self, request: Request) -> Response:
        return _json(self._discovered)

    # --- public pages

    async def _health(self, request: Request) -> Response:
        http, document = self._status.health()
        if http != 503:
            return _json(document, http)
        seconds = Err.SERVICE_TEMPORARILY_UNAVAILABLE.row.retry_seconds
        assert seconds is not None
        response = _json(document | {"retry_after_secs": seconds}, http)
        response.headers.append(headers.retry_after(seconds))
        return response

    async def _pricing(self, request: Request) -> Response | Refusal:
        return await self._pricing_page.answer(request)

    async def _capabilities(self, request: Request) -> Response:
        return _json(self._status.capabilities())

    async def _landing(self, request: Request) -> Response | Refusal:
        document = self._status.landing()
        return _NO_RACER if document is None else _json({"ok": True, **document})

    # --- shared

    async def _identified(self, caller: Caller, refusal: Refusal) -> Refusal:
        """Refuse a malformed request. As for a call that is refused for free, its credential must be valid all the
        same, its nonce is taken, and the answer has the account's figures."""
        try:
            account = await self._accounts.ask(Identify(caller.proof))
        except OwnerUnavailable:
            return refusal
        return refused(account) if account.refusal in _CREDENTIAL_REFUSALS else with_figures(refusal, account.figures)

    def _shaped(
        self, reply: OwnerReply[Value], shape: Callable[[Value], dict[str, Any]], added: Sequence[Header] = ()
    ) -> Response | Refusal:
        """Make the answer from an owner's reply. added: headers of the answer, refused or not."""
        if reply.value is None:
            return refused(reply, added)
        response = _json(shape(reply.value))
        response.headers += added
        return self._measured(response, reply.figures)

    def _measured(self, response: Response, figures: Figures | None) -> Response:
        if figures is not None:
            headers.add_figures(response.headers, figures, figures.credits_remaining, self._clock.now())
        return response


class _Page(NamedTuple):
    """One page. accept: credentials that it takes; its handler then gets their Caller. None: it takes none."""

    method: str
    handler: Callable[..., Awaitable[Response | Refusal]]
    accept: Accept | None = None


# Every path of this door, listed by GET /capabilities.
_PAGES: MappingProxyType[bytes, _Page] = MappingProxyType(
    {
        b"/account/info": _Page("GET", Routes._info, Accept.ANY),
        b"/account/ledger": _Page("GET", Routes._ledger, Accept.ANY),
        b"/account/usage": _Page("GET", Routes._usage, Accept.ANY),
        b"/account/history": _Page("GET", Routes._history, Accept.ANY),
        b"/account/api-key": _Page("POST", Routes._api_key, Accept.WALLET),
        b"/account/confirm-deposit": _Page("POST", Routes._confirm_deposit, Accept.ANY),
        b"/auth/challenge": _Page("POST", Routes._challenge),
        b"/auth/verify": _Page("POST", Routes._verify),
        b"/auth/logout": _Page("POST", Routes._logout, Accept.SESSION),
        b"/x402/settle": _Page("POST", Routes._settle),
        b"/.well-known/x402.json": _Page("GET", Routes._discovery),
        b"/health": _Page("GET", Routes._health),
        b"/pricing": _Page("GET", Routes._pricing),
        b"/capabilities": _Page("GET", Routes._capabilities),
        b"/stats/landing": _Page("GET", Routes._landing),
    }
)
ENDPOINTS = tuple(f"{page.method} {path.decode()}" for path, page in _PAGES.items())
PATHS = frozenset(_PAGES)


def _json(body: Any, http: int = 200) -> Response:
    return Response(http, orjson.dumps(body), [])
