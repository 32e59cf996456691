"""Commands of the webhook pages to the dispatchers, and the client that sends them.

Implements: interface, "Webhook management"; design, "Owners, for every kind of actor" (replicas ask again when
refused). Each command goes to one dispatcher, by the slice that it is about.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from actors import hosting
from actors.actor_client import ActorClient
from actors.background import Background
from actors.clock import Clock
from actors.errors import Err, Refusal
from actors.ownership.api import Owned, OwnershipUnavailable
from actors.webhooks.slices import SOURCES_SLICE, slice_of

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 5.0  # Interval of reading which dispatcher has which slice.
_MOVING_SECONDS = 0.1  # Interval of retries while no dispatcher has the slice.
_ASK_SECONDS = 8.0
_TEST_SECONDS = 20.0  # A test delivery waits for the endpoint's answer.
_AWAY = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the webhook dispatcher does not answer at the moment")

ReadHolders = Callable[[], Awaitable[Mapping[int, Owned]]]


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


class NotMine(msgspec.Struct, frozen=True):
    """Another dispatcher has the slice of this command; nothing was done."""


def slice_for(command: WebhookCommand) -> int:
    """Return the slice whose dispatcher carries the command out: the account's.

    A command that needs places of watched wallets goes to the dispatcher that follows the signals, because only that
    one knows who holds places."""
    fields = command.fields if isinstance(command, CreateWebhook | ChangeWebhook) else None
    takes_wallets = isinstance(fields, dict) and bool(fields.get("wallets"))
    return SOURCES_SLICE if takes_wallets else slice_of(command.pubkey)


class WebhooksClient:
    """Asks the dispatchers on behalf of one replica. read_holders: of all slices; raises OwnershipUnavailable. refer:
    gives a reference to the actor of a name.

    Who holds what is read every few seconds, and when a dispatcher does not have the slice or does not answer.
    """

    def __init__(
        self, read_holders: ReadHolders, clock: Clock, refer: Callable[[str], Any] = hosting.Reference
    ) -> None:
        self._read_holders, self._clock, self._refer = read_holders, clock, refer
        self._holders: Mapping[int, str] = {}
        self._dispatchers: dict[str, ActorClient] = {}
        self._references: dict[str, Any] = {}
        self._background = Background(logger, "reading the holders of webhooks failed")

    async def start(self) -> None:
        """Learn who holds what, and follow it until `stop`."""
        await self._look()
        self._background.repeat(self._look, _LOOK_SECONDS)

    async def stop(self) -> None:
        await self._background.stop()
        await asyncio.gather(*(each.stop() for each in self._dispatchers.values()))

    async def ask(self, command: WebhookCommand) -> dict[str, Any] | Refusal:
        """Send a command, and return the body of the answer. A dispatcher that does not answer is a refusal."""
        found = await self._ask(command, slice_for(command))
        own = slice_of(command.pubkey)
        is_disabled = isinstance(command, ChangeWebhook) and isinstance(found, dict) and _disables(command.fields)
        if is_disabled and slice_for(command) != own:
            # Another dispatcher made the change; the one that sends the deliveries must give back its leases.
            return await self._ask(ChangeWebhook(command.pubkey, command.webhook_id, {"status": "disabled"}), own)
        return found

    async def _ask(self, command: WebhookCommand, number: int) -> dict[str, Any] | Refusal:
        """Send a command to one dispatcher; never to a second one if the first may have it."""
        seconds = _TEST_SECONDS if isinstance(command, TryWebhook) else _ASK_SECONDS
        deadline = self._clock.monotonic() + seconds
        while (left := deadline - self._clock.monotonic()) > 0:
            name = self._holders.get(number)
            if name is not None:
                try:
                    found = await hosting.ask(self._reference(name), "ask", command, wait_seconds=left)
                except hosting.ActorUnreachable:
                    await self._look()
                    return _AWAY
                if not isinstance(found, NotMine):
                    answer: dict[str, Any] | Refusal = found
                    return answer
            await self._look()
            if self._holders.get(number) == name:
                await asyncio.sleep(_MOVING_SECONDS)
        return _AWAY

    async def _look(self) -> None:
        try:
            found = await self._read_holders()
        except OwnershipUnavailable as error:
            logger.warning("who delivers to webhooks is not known anew: %s", error)
            return
        self._holders = {number: owned.holder for number, owned in found.items()}
        names = set(self._holders.values())
        for name in names - self._dispatchers.keys():  # Their health check also starts an actor that Ray has restarted.
            self._dispatchers[name] = ActorClient(self._reference(name))
            self._dispatchers[name].start()
        for name in self._dispatchers.keys() - names:
            self._references.pop(name, None)
            self._background.start(self._dispatchers.pop(name).stop())

    def _reference(self, name: str) -> Any:
        if name not in self._references:
            self._references[name] = self._refer(name)
        return self._references[name]


def _disables(fields: Any) -> bool:
    return isinstance(fields, dict) and fields.get("status") == "disabled"
