"""The door for the pages of other contexts: webhooks, signals, documents, console, usage.

Implements: interface, "Webhook management" and the like (who may ask, which headers an answer carries).
A shell: it verifies the caller and turns the answer into HTTP; the page's context makes the answer.
"""

from urllib.parse import parse_qsl

from actors.accounts.api import Identify, Identity, OwnersClient, OwnerUnavailable
from actors.accounts.key_requests import NOT_FOR_KEY, payer_of
from actors.calls import Figures, Proof, WalletProof
from actors.clock import Clock
from actors.errors import Err, Refusal
from actors.gateway.calls import headers
from actors.gateway.calls.jsonrpc import INTRICATE, is_intricate
from actors.gateway.calls.replies import ErrorReplies, Response
from actors.gateway.calls.requests import CREDENTIALS, Request
from actors.gateway.pages.callers import OWNER_GONE, caller_of, refused, with_figures
from actors.gateway.pages.page_table import PageTable, PathPages
from actors.gateway.pages.routes import KEY_MANAGES
from actors.gateway.payments.authentication import Authenticator
from actors.identity.credentials import Accept
from actors.pages import Page, PageAnswer, PageRequest

_QUERY_FIELDS_MAX = 50
_BAD_QUERY = Refusal(
    Err.INVALID_REQUEST, f"the query has more than {_QUERY_FIELDS_MAX} parameters, or bytes of no text"
)
_NO_ACCOUNT = Refusal(Err.ACCOUNT_NOT_FOUND, "this wallet has no account yet")


class PageDoor:
    def __init__(
        self,
        table: PageTable,
        accounts: OwnersClient,
        authenticator: Authenticator,
        errors: ErrorReplies,
        clock: Clock,
    ) -> None:
        self._table, self._accounts, self._authenticator = table, accounts, authenticator
        self._errors, self._clock = errors, clock

    def find(self, path: bytes) -> PathPages | None:
        return self._table.find(path)

    async def answer(self, found: PathPages, request: Request) -> Response:
        """Answer a request whose path and method `find` confirmed."""
        page = found.pages["GET" if request.method == "HEAD" else request.method]
        response = await self._answer(page, found, request)
        response.is_public = page.is_public
        return response

    async def _answer(self, page: Page, found: PathPages, request: Request) -> Response:
        identity, figures, proof = None, None, None
        if not page.is_public and not page.for_operators:  # The door has verified an operator before.
            try:
                proven = await self._prove(request, page)
            except OwnerUnavailable:
                proven = OWNER_GONE
            if isinstance(proven, Refusal):
                return self._errors.reply(proven, request)
            identity, figures, proof = proven
        asked = INTRICATE if is_intricate(request.body) else _page_request(request, found, identity, proof)
        answered = asked if isinstance(asked, Refusal) else await page.handler(asked)
        if isinstance(answered, Refusal):
            return self._errors.reply(with_figures(answered, figures), request)
        response = _response(answered)
        if figures is not None:
            headers.add_figures(response.headers, figures, figures.credits_remaining, self._clock.now())
        return response

    async def _prove(self, request: Request, page: Page) -> tuple[Identity, Figures | None, Proof] | Refusal:
        """Have the owner confirm the request's credential. Returns the account, its figures, and the proof."""
        caller = caller_of(self._authenticator, request, Accept.WALLET if page.only_wallet else Accept.ANY)
        if isinstance(caller, Refusal):
            return caller
        reply = await self._accounts.ask(Identify(caller.proof))
        if reply.value is None:
            return refused(reply)
        if reply.value.balance is None:
            return with_figures(_NO_ACCOUNT, reply.figures)
        identity, proof = reply.value, caller.proof
        if identity.key and not page.for_keys and not (page.method == "GET" and identity.may_read):
            return with_figures(NOT_FOR_KEY if page.method == "GET" else KEY_MANAGES, reply.figures)
        proof = payer_of(identity) if isinstance(proof, WalletProof) else proof
        return identity, reply.figures, proof


def _page_request(
    request: Request, found: PathPages, identity: Identity | None, proof: Proof | None
) -> PageRequest | Refusal:
    try:
        pairs = parse_qsl(
            request.query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_QUERY_FIELDS_MAX
        )
    except ValueError:
        return _BAD_QUERY
    query = {name: value for name, value in pairs if name != "api-key"}
    if len(query) < sum(name != "api-key" for name, _ in pairs):
        return Refusal(Err.INVALID_REQUEST, "a parameter of the query was sent twice")
    sent = {
        name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers if name not in CREDENTIALS
    }
    if request.key is not None:
        # A repeated header is empty, instead of the last value.
        sent["idempotency-key"] = request.key.decode("latin-1")
    is_head = request.method == "HEAD"
    if identity is None:
        return PageRequest(None, found.parameters, query, sent, request.body, proof, is_head)
    payer = identity.key, identity.price_list
    return PageRequest(identity.pubkey, found.parameters, query, sent, request.body, proof, is_head, *payer)


def _response(answer: PageAnswer) -> Response:
    added = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    content_type = answer.content_type.encode("latin-1")
    if isinstance(answer.body, bytes):
        return Response(answer.status, answer.body, added, content_type=content_type)
    return Response(answer.status, b"", added, content_type=content_type, stream=answer.body)
