"""The paths beside JSON-RPC: account, session and public pages.

Implements: interface specification, "Account endpoints", "Session endpoints", "Public endpoints"; decisions
(address limits; `offset` and `limit`).
The shell: shapes of session bodies are identity's, of account bodies the account owner's, of public pages status's.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import orjson

from actors import catalog
from actors.accounts.api import (
    CloseSession,
    DepositConfirmation,
    Identify,
    IssueKey,
    LedgerLine,
    OpenSession,
    OwnerReply,
    OwnersClient,
    OwnerUnavailable,
    ReadAccount,
    ReadLedger,
    Value,
)
from actors.calls import Figures, Proof, ProvenProof
from actors.clock import Clock
from actors.config import Config
from actors.errors import Err, Refusal
from actors.gateway import account_pages, headers, payment_terms, replies
from actors.gateway.payment_terms import Terms
from actors.gateway.payments import HEADERS, PaymentDoor
from actors.gateway.replies import Response
from actors.gateway.requests import Request, Sender, carries_credentials, counted_address
from actors.gateway.sign_in import SignIn
from actors.identity import challenge, endpoints
from actors.identity.addresses import AddressVerdict, Counts, TrustedProxies, allowances, front_token, judge, minute_of
from actors.identity.proofs import Accept, prove
from actors.identity.store import IdentityStore, IdentityStoreUnavailable

Handler = Callable[[Request], Awaitable[Response]]

_WITHOUT_CREDENTIALS = "without credentials "  # Before the name of an address: a count of its own.
# What /.well-known/x402.json lists: where a call can be paid for as it is made.
_PAYABLE = (("POST", "/"), ("POST", "/rpc"), *(("POST", f"/{row.name}") for row in catalog.BULK))
_NO_CREDENTIALS = Refusal(Err.PAYMENT_REQUIRED, "no credentials were sent")
_NOT_BY_PAYMENT = Refusal(
    Err.PAYMENT_REQUIRED,
    "a payment does not open its payer's account, and this one was not taken; sign in with the wallet (sign-in-with-x, "
    "/auth/challenge or a signed request)",
)
_OWNER_GONE = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the owner of this account does not answer at the moment")
_NO_DEPOSITS = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "this service has no deposit address configured")
# What the owner says against the credential itself; it goes before what is wrong with the rest of the request.
_CREDENTIAL_REFUSALS = frozenset((Err.AUTH_FAILED.name, Err.NONCE_REUSED.name, Err.RATE_LIMITED.name))
# Interface, "Limits": these carry neither credit nor rate headers nor X-Request-Id, whatever is sent along.
PUBLIC_PAGES = frozenset((b"/health", b"/pricing", b"/capabilities", b"/.well-known/x402.json"))


class StatusPages(Protocol):
    """The public pages; each call gives the page as it is now, ready to be sent as JSON."""

    def health(self) -> tuple[int, dict[str, Any]]:
        """(HTTP status, document)."""
        ...

    def pricing(self) -> dict[str, Any]: ...

    def capabilities(self) -> dict[str, Any]: ...


class DepositDesk(Protocol):
    """Looks up what was paid in on the chain; the watcher of deposits."""

    async def confirm(self, signature: bytes, pubkey: bytes, balance: int | None) -> DepositConfirmation | Refusal:
        """pubkey, balance: of the caller; None where it has no account."""
        ...


class Routes:
    def __init__(
        self,
        config: Config,
        accounts: OwnersClient,
        identity_store: IdentityStore,
        status: StatusPages,
        clock: Clock,
        randomness: Callable[[int], bytes],
        terms_of: Callable[[bytes], Terms],
        payments: PaymentDoor,
        sign_in: SignIn,
        deposits: DepositDesk | None,
        peers_are_clients: bool = True,
    ) -> None:
        assert config.storage.cluster_secret is not None, "the launcher settles the secret of the cluster"
        self._secret = config.storage.cluster_secret.get_secret_value().encode()
        self._identity = config.identity
        self._accounts, self._store, self._status = accounts, identity_store, status
        self._clock, self._randomness, self._terms = clock, randomness, terms_of
        self._payments, self._payment_settings, self._sign_in = payments, config.payments, sign_in
        self._deposits = deposits
        self._public_url = config.serve.public_url or f"http://{config.serve.host}:{config.serve.http_port}"
        self._trusted = TrustedProxies(config.identity.trusted_proxies, front_token(self._secret), peers_are_clients)
        self._counts = Counts()  # Of this process alone, for while the shared store is away.
        self._table: dict[bytes, tuple[str, Handler]] = {
            b"/account/info": ("GET", self._info),
            b"/account/ledger": ("GET", self._ledger),
            b"/account/history": ("GET", self._history),
            b"/account/api-key": ("POST", self._api_key),
            b"/account/confirm-deposit": ("POST", self._confirm_deposit),
            b"/auth/challenge": ("POST", self._challenge),
            b"/auth/verify": ("POST", self._verify),
            b"/auth/logout": ("POST", self._logout),
            b"/x402/settle": ("POST", self._settle),
            b"/.well-known/x402.json": ("GET", self._discovery),
            b"/health": ("GET", self._health),
            b"/pricing": ("GET", self._pricing),
            b"/capabilities": ("GET", self._capabilities),
        }

    def serves(self, path: bytes) -> str | None:
        """The HTTP method of this path; None: no such path."""
        entry = self._table.get(path)
        return None if entry is None else entry[0]

    @staticmethod
    def is_limited(path: bytes) -> bool:
        """Whether requests for this path, where it is served, count against the limit of their address."""
        return path.startswith((b"/account/", b"/auth/", b"/x402/"))

    async def answer(self, request: Request) -> Response:
        """The answer to a request whose path and method serves() confirmed."""
        try:
            return await self._table[request.path][1](request)
        except OwnerUnavailable:
            return replies.plain(_OWNER_GONE, request.id)

    def address_of(self, request: Sender) -> str:
        """The name under which requests of this client address are counted."""
        return counted_address(request, self._trusted)

    async def over_limit(self, request: Request) -> Response | None:
        """Count this request against its address. A response when there were too many, else None.

        Requests for /account/* without any credential are counted apart: they get the 402 whoever sends them, and must
        not use up the allowance of customers behind the same address.
        """
        now = self._clock.now()
        limit = self._identity.address_requests_per_minute
        is_bare = request.path.startswith(b"/account/") and not carries_credentials(request)
        apart = _WITHOUT_CREDENTIALS if is_bare else ""
        for name, share in allowances(self.address_of(request)):
            verdict = judge(await self._count(apart + name, minute_of(now)), limit * share, now)
            if not verdict.allowed:
                return _too_many(verdict, request.id)
        return None

    async def _count(self, name: str, minute: int) -> int:
        try:
            return await self._store.count_address(name, minute, 1)
        except IdentityStoreUnavailable:
            return self._counts.add(name, minute, 1)

    # --- account

    async def _info(self, request: Request) -> Response:
        proof = self._prove(request)
        if isinstance(proof, Response):
            return proof
        reply = await self._accounts.ask(ReadAccount(proof))
        return self._shaped(reply, request, lambda account: account_pages.account_body(account, self._payment_settings))

    async def _ledger(self, request: Request) -> Response:
        return await self._page(request, account_pages.ledger_body, debits_only=False)

    async def _history(self, request: Request) -> Response:
        return await self._page(request, account_pages.history_body, debits_only=True)

    async def _page(
        self, request: Request, shape: Callable[[tuple[LedgerLine, ...]], dict[str, Any]], debits_only: bool
    ) -> Response:
        proof = self._prove(request)
        if isinstance(proof, Response):
            return proof
        window = account_pages.parse_window(request.query)
        if isinstance(window, Refusal):
            return await self._refused(proof, window, request)
        return self._shaped(await self._accounts.ask(ReadLedger(proof, *window, debits_only)), request, shape)

    async def _api_key(self, request: Request) -> Response:
        proof = self._prove(request, Accept.WALLET)
        if isinstance(proof, Response):
            return proof
        ref_code = account_pages.parse_ref_code(request.body)
        if isinstance(ref_code, Refusal):
            return await self._refused(proof, ref_code, request)
        response = self._shaped(await self._accounts.ask(IssueKey(proof, ref_code)), request, account_pages.key_body)
        response.headers.append(headers.NO_STORE)
        return response

    async def _confirm_deposit(self, request: Request) -> Response:
        """Who asks is known before the chain is looked at, and may be a wallet without an account."""
        proof = self._prove(request)
        if isinstance(proof, Response):
            return proof
        signature = account_pages.parse_deposit_signature(request.body)
        if isinstance(signature, Refusal):
            return await self._refused(proof, signature, request)
        if self._deposits is None:
            return await self._refused(proof, _NO_DEPOSITS, request)
        caller = await self._accounts.ask(Identify(proof))
        if caller.value is None:
            return self._refusal(caller, caller.figures, request)
        pubkey = caller.value.pubkey
        confirmed = await self._deposits.confirm(signature, pubkey, caller.value.balance)
        if isinstance(confirmed, Refusal):
            return self._refusal(confirmed, caller.figures, request)
        # Credits may have been added: the figures are those after it.
        caller = await self._accounts.ask(Identify(ProvenProof(pubkey)))
        reply = OwnerReply(confirmed, figures=caller.figures)
        return self._shaped(reply, request, account_pages.confirmation_body)

    # --- sessions

    async def _challenge(self, request: Request) -> Response:
        pubkey = endpoints.parse_challenge_request(request.body)
        if isinstance(pubkey, Refusal):
            return replies.plain(pubkey, request.id)
        randomness = self._randomness(challenge.RANDOM_BYTES)
        text = challenge.new_challenge(self._secret, pubkey, self._clock.now(), randomness)
        return _json(endpoints.challenge_reply(text, self._identity.challenge_seconds))

    async def _verify(self, request: Request) -> Response:
        asked = endpoints.parse_verify_request(request.body)
        if isinstance(asked, Refusal):
            return replies.plain(asked, request.id)
        seconds = self._identity.challenge_seconds
        challenge_id = endpoints.check_verify_request(asked, self._secret, self._clock.now(), seconds)
        if isinstance(challenge_id, Refusal):
            return replies.plain(challenge_id, request.id)
        issued_at = challenge.issued_at(asked.challenge)
        reply = await self._accounts.ask(OpenSession(asked.pubkey, challenge_id, issued_at))
        seconds = self._identity.session_seconds
        response = self._shaped(reply, request, lambda token: endpoints.session_reply(token, seconds))
        response.headers.append(headers.NO_STORE)
        return response

    async def _logout(self, request: Request) -> Response:
        proof = self._prove(request, Accept.SESSION)
        if isinstance(proof, Response):
            return proof
        fault = endpoints.parse_logout_request(request.body)
        if fault is not None:
            return await self._refused(proof, fault, request)
        return self._shaped(await self._accounts.ask(CloseSession(proof)), request, lambda _: endpoints.logout_reply())

    # --- payments

    async def _settle(self, request: Request) -> Response:
        return await self._payments.settle(request.body, self.address_of(request))

    async def _discovery(self, request: Request) -> Response:
        return _json(payment_terms.discovery(self._payment_settings, self._public_url, _PAYABLE))

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

    async def _pricing(self, request: Request) -> Response:
        return _json(self._status.pricing())

    async def _capabilities(self, request: Request) -> Response:
        return _json(self._status.capabilities())

    # --- shared

    def _prove(self, request: Request, accept: Accept = Accept.ANY) -> Proof | Response:
        proof = prove(
            request.headers,
            request.query,
            request.method,
            request.path,
            request.body,
            self._clock.now(),
            self._identity,
            accept,
        )
        if proof is None and accept is Accept.ANY:
            proof = self._sign_in.proof(request.headers, self._clock.now())
        if isinstance(proof, Refusal):
            return replies.plain(proof, request.id)
        if proof is not None:
            return proof
        page = self._terms(request.path)
        if any(name in HEADERS for name, _ in request.headers):
            return replies.plain(_NOT_BY_PAYMENT, request.id, page.bare())
        # The offer is there for the sign-in that it carries. Where that is not taken either, there is no offer.
        return replies.plain(_NO_CREDENTIALS, request.id, page if accept is Accept.ANY else page.bare())

    async def _refused(self, proof: Proof, refusal: Refusal, request: Request) -> Response:
        """The answer to a request whose form is refused. As for a call that is refused for free, its credential has to
        be good all the same, its nonce is taken, and the answer carries the account's figures."""
        try:
            caller = await self._accounts.ask(Identify(proof))
        except OwnerUnavailable:
            return replies.plain(refusal, request.id)
        if caller.refusal in _CREDENTIAL_REFUSALS:
            return self._refusal(caller, caller.figures, request)
        return self._refusal(refusal, caller.figures, request)

    def _shaped(self, reply: OwnerReply[Value], request: Request, shape: Callable[[Value], dict[str, Any]]) -> Response:
        if reply.value is None:
            return self._refusal(reply, reply.figures, request)
        response = _json(shape(reply.value))
        if reply.figures is not None:
            headers.add_figures(response.headers, reply.figures, reply.figures.credits_remaining, self._clock.now())
        return response

    def _refusal(self, said: Refusal | OwnerReply[Any], figures: Figures | None, request: Request) -> Response:
        """figures: of the caller, where it has an account."""
        if isinstance(said, OwnerReply):
            assert said.refusal is not None, said
            said = Refusal(Err[said.refusal], said.detail)
        response = replies.plain(said, request.id, self._terms(request.path))
        if figures is not None:
            headers.add_figures(response.headers, figures, figures.credits_remaining, self._clock.now())
        return response


def _json(body: Any, http: int = 200) -> Response:
    return Response(http, orjson.dumps(body), [])


def _too_many(verdict: AddressVerdict, request_id: str) -> Response:
    refusal = Refusal(Err.RATE_LIMITED, "too many requests from this address in one minute")
    response = replies.plain(refusal, request_id, retry_seconds=verdict.retry_after_seconds)
    response.headers += [
        (b"x-ratelimit-limit", b"%d" % verdict.limit),
        (b"x-ratelimit-remaining", b"%d" % verdict.remaining),
        (b"x-ratelimit-reset", b"%d" % verdict.reset),
    ]
    return response
