"""GET /pricing: the public prices, and with a credential those of its account.

Implements: interface, "Public endpoints"; decisions, "pricing" and "Price lists".
A shell. Without price lists in the settings all accounts pay the public prices, and no credential is looked at. With
them, a request with a credential is limited by its address, as for /account/*: otherwise this page would let a client
guess keys.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import orjson

from actors.accounts.api import Identify, OwnersClient
from actors.calls import PUBLIC_PRICES
from actors.errors import Refusal
from actors.gateway.calls import headers
from actors.gateway.calls.replies import Response
from actors.gateway.calls.requests import Request, carries_credentials
from actors.gateway.pages.callers import caller_of, refused
from actors.gateway.payments.authentication import Authenticator
from actors.identity.credentials import Accept


class PricingDocument(Protocol):
    def pricing(self, price_list: str = PUBLIC_PRICES) -> dict[str, Any]:
        """Return the document of the list of this name."""
        ...


class PricingPage:
    """limit: of requests of an address; returns a refusal or None. are_listed: whether the settings have price
    lists."""

    def __init__(
        self,
        accounts: OwnersClient,
        status: PricingDocument,
        authenticator: Authenticator,
        limit: Callable[[Request], Awaitable[Refusal | None]],
        are_listed: bool,
    ) -> None:
        self._accounts, self._status, self._authenticator = accounts, status, authenticator
        self._limit, self._are_listed = limit, are_listed

    async def answer(self, request: Request) -> Response | Refusal:
        """Answer the request. Raises OwnerUnavailable."""
        if not self._are_listed:
            return Response(200, orjson.dumps(self._status.pricing()), [])
        varies = b"vary", b", ".join(_CREDENTIALS)
        if not carries_credentials(request):
            return Response(200, orjson.dumps(self._status.pricing()), [varies])
        caller = await self._limit(request) or caller_of(self._authenticator, request, Accept.ANY)
        if isinstance(caller, Refusal):
            return caller
        reply = await self._accounts.ask(Identify(caller.proof))
        if reply.value is None:
            return refused(reply)
        document = self._status.pricing(reply.value.price_list)
        return Response(200, orjson.dumps(document), [headers.NO_STORE, varies])


_CREDENTIALS = (b"x-api-key", b"authorization", b"x-pubkey")
