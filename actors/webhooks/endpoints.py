"""The pages of webhooks: from requests to commands of the dispatcher, and back.

Implements: interface, "Webhook management"; decisions, webhook replay and test. A shell.
The dispatcher checks bodies, as it knows the webhook that they are about (commands.py).
"""

from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from actors.errors import Err, Refusal
from actors.pages import Page, PageAnswer, PageRequest, json_answer
from actors.webhooks.api import (
    ChangeWebhook,
    CreateWebhook,
    DeleteWebhook,
    ListDeliveries,
    ListWebhooks,
    ReplayWebhook,
    RotateSecret,
    TryWebhook,
    WebhookCommand,
)

_LIMIT, _LIMIT_MAX = 50, 500  # As for the listings of /account/*.
_NO_STORE = (("cache-control", "no-store"),)
_NO_FIELDS = Refusal(Err.INVALID_REQUEST, "this path takes no fields: send {} or no body")
Ask = Callable[[WebhookCommand], Awaitable[dict[str, Any] | Refusal]]


class WebhookPages:
    """ask: sends a command to its dispatcher."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def pages(self) -> list[Page]:
        return [
            Page("POST", "/webhooks", self._create),
            Page("GET", "/webhooks", self._list),
            Page("DELETE", "/webhooks/{id}", self._delete),
            Page("PATCH", "/webhooks/{id}", self._change),
            Page("POST", "/webhooks/{id}/rotate-secret", self._rotate),
            Page("GET", "/webhooks/{id}/deliveries", self._deliveries),
            Page("POST", "/webhooks/{id}/test", self._test),
            Page("POST", "/webhooks/{id}/replay", self._replay),
        ]

    async def _create(self, request: PageRequest) -> PageAnswer | Refusal:
        fields = _json(request.body)
        if isinstance(fields, Refusal):
            return fields
        return await self._answer(CreateWebhook(request.account, fields=fields), 201, _NO_STORE)

    async def _list(self, request: PageRequest) -> PageAnswer | Refusal:
        return await self._answer(ListWebhooks(request.account))

    async def _delete(self, request: PageRequest) -> PageAnswer | Refusal:
        return await self._answer(DeleteWebhook(request.account, request.parameters["id"]))

    async def _change(self, request: PageRequest) -> PageAnswer | Refusal:
        fields = _json(request.body)
        if isinstance(fields, Refusal):
            return fields
        return await self._answer(ChangeWebhook(request.account, request.parameters["id"], fields))

    async def _rotate(self, request: PageRequest) -> PageAnswer | Refusal:
        # A client that sends a secret of its own must not believe that it was accepted.
        if not _has_no_fields(request.body):
            return _NO_FIELDS
        return await self._answer(RotateSecret(request.account, request.parameters["id"]), 200, _NO_STORE)

    async def _deliveries(self, request: PageRequest) -> PageAnswer | Refusal:
        text, before = request.query.get("limit", str(_LIMIT)), request.query.get("before")
        limit = int(text) if text.isascii() and text.isdigit() and len(text) <= 4 else 0
        if not 1 <= limit <= _LIMIT_MAX:
            return Refusal(Err.INVALID_REQUEST, f"limit must be a whole number from 1 to {_LIMIT_MAX}")
        return await self._answer(ListDeliveries(request.account, request.parameters["id"], limit, before))

    async def _test(self, request: PageRequest) -> PageAnswer | Refusal:
        if not _has_no_fields(request.body):
            return _NO_FIELDS
        return await self._answer(TryWebhook(request.account, request.parameters["id"]))

    async def _replay(self, request: PageRequest) -> PageAnswer | Refusal:
        fields = _json(request.body)
        if isinstance(fields, Refusal):
            return fields
        return await self._answer(ReplayWebhook(request.account, request.parameters["id"], fields))

    async def _answer(
        self, command: WebhookCommand, status: int = 200, headers: tuple[tuple[str, str], ...] = ()
    ) -> PageAnswer | Refusal:
        found = await self._ask(command)
        return found if isinstance(found, Refusal) else json_answer({"ok": True} | found, status, headers)


def _has_no_fields(body: bytes) -> bool:
    return not body.strip() or _json(body) == {}


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return Refusal(Err.INVALID_REQUEST, "the body must be JSON")
