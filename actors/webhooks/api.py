"""What a replica asks of the dispatcher: the commands of the pages, and the client.

Implements: interface, "Webhook management". Vocabulary; nothing is decided here.
"""

from typing import Any, TypeVar

import msgspec

from actors import hosting
from actors.errors import Err, Refusal

DISPATCHER_ACTOR_NAME = "webhook-dispatcher"
_ASK_SECONDS = 8.0
_TEST_SECONDS = 20.0  # A test delivery waits for the endpoint's answer.
_AWAY = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the webhook dispatcher does not answer at the moment")

Answered = TypeVar("Answered")


class WebhookCommand(msgspec.Struct, frozen=True):
    """A request of the account's owner. webhook_id: empty where no single webhook is meant."""

    pubkey: bytes
    webhook_id: str = ""


class CreateWebhook(WebhookCommand, frozen=True):
    """fields: the decoded body."""

    fields: Any = None


class ListWebhooks(WebhookCommand, frozen=True):
    pass


class DeleteWebhook(WebhookCommand, frozen=True):
    pass


class ChangeWebhook(WebhookCommand, frozen=True):
    fields: Any = None


class RotateSecret(WebhookCommand, frozen=True):
    pass


class ListDeliveries(WebhookCommand, frozen=True):
    """before: an event id; only older ones. None: from the newest."""

    limit: int = 50
    before: str | None = None


class TryWebhook(WebhookCommand, frozen=True):
    pass


class ReplayWebhook(WebhookCommand, frozen=True):
    fields: Any = None


class WebhooksClient(hosting.ActorClient):
    """Asks the dispatcher on behalf of one replica."""

    async def ask(self, command: WebhookCommand) -> dict[str, Any] | Refusal:
        """The body of the answer. A dispatcher that does not answer is a refusal like others."""
        wait_seconds = _TEST_SECONDS if isinstance(command, TryWebhook) else _ASK_SECONDS
        try:
            found: dict[str, Any] | Refusal = await hosting.ask(self._handle, "ask", command, wait_seconds=wait_seconds)
        except hosting.ActorUnreachable:
            return _AWAY
        return found
