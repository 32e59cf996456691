"""The dispatcher as a Ray actor: one for the whole service, placed, restarted and found by name.

Implements: design, "Layout" (an actor exists where state needs one owner). A thin wrapper around actor.py, chain.py,
signal_follower.py and commands.py. After the loss of a machine there may be two for a while; a job that is leased goes
to one of them.
"""

import os
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from actors import hosting
from actors.accounts.api import OwnersClient
from actors.actor_settings import OF_EVERY_ACTOR, OF_OWNERS_CLIENTS
from actors.clock import SystemClock
from actors.config import Config
from actors.errors import Refusal
from actors.storage.connections import configured_postgres
from actors.telemetry.metrics_page import ReportingActor
from actors.upstream.replies import Node
from actors.webhooks.actor import WebhookDispatcher
from actors.webhooks.api import DISPATCHER_ACTOR_NAME, WebhookCommand
from actors.webhooks.chain import ChainFollower
from actors.webhooks.commands import WebhookCommands
from actors.webhooks.postgres_store import PostgresWebhookStore
from actors.webhooks.resolver import GuardedResolver
from actors.webhooks.sealing import SecretSeal
from actors.webhooks.sender import WebhookSender
from actors.webhooks.signal_follower import SignalFeed, SignalFollower
from actors.webhooks.standings import Standings
from actors.webhooks.targets import EgressRules
from actors.webhooks.watched_wallets import WatchedWallets

_CONNECTIONS_MAX = 8
_DAY_MS = 86_400_000
OpenOwners = Callable[[Config], Awaitable[OwnersClient]]
OpenNode = Callable[[Config], Awaitable[Node]]


# The log of signals, and what it raises while its stores do not answer.
OpenFeed = Callable[[Config], Awaitable[tuple[SignalFeed, tuple[type[Exception], ...]]]]
# The settings of the dispatcher and of what the wiring opens for it; it is replaced when one of them changes.
USES = (
    *OF_EVERY_ACTOR,
    *OF_OWNERS_CLIENTS,
    "serve.public_url",
    "signals.stream_entries_max",
    "storage.postgres_url",
    "storage.redis_url",
    "upstream",
    "webhooks",
)


class WebhookDispatcherActor(ReportingActor):
    """open_owners, open_node, open_feed: given by the wiring, because this context may not know how accounts, nodes and
    signals are reached."""

    def __init__(
        self, config: Config, fingerprint: str, open_owners: OpenOwners, open_node: OpenNode, open_feed: OpenFeed
    ) -> None:
        super().__init__(config, fingerprint, DISPATCHER_ACTOR_NAME)
        self._open_owners, self._open_node, self._open_feed = open_owners, open_node, open_feed

    async def health(self) -> dict[str, Any]:
        """waiting: jobs that are not delivered; streaming: whether the chain is followed by a stream."""
        await self._ready()
        return {"waiting": self._dispatcher.figures.waiting, "streaming": self._chain.is_streaming}

    async def ask(self, command: WebhookCommand) -> dict[str, Any] | Refusal:
        await self._ready()
        return await self._commands.ask(command)

    async def _assemble(self) -> None:
        config = self._config
        assert config.storage.cluster_secret is not None
        clock, settings = SystemClock(), config.webhooks
        pool = await configured_postgres(config.storage, _CONNECTIONS_MAX, DISPATCHER_ACTOR_NAME)
        store = PostgresWebhookStore(pool)
        rules = egress_rules(config)
        sender = WebhookSender(rules, GuardedResolver(rules, settings.name_servers), clock, settings.ca_file)
        seal = SecretSeal(config.storage.cluster_secret.get_secret_value().encode())
        owners = await self._open_owners(config)
        self._dispatcher = WebhookDispatcher(
            DISPATCHER_ACTOR_NAME,
            store,
            sender,
            owners,
            seal,
            clock,
            self._metrics,
            kept_ms=settings.kept_days * _DAY_MS,
        )
        upstream = config.upstream
        token = None if upstream.yellowstone_token is None else upstream.yellowstone_token.get_secret_value()
        endpoint = None if upstream.yellowstone_url is None else (upstream.yellowstone_url, token)
        self._chain = ChainFollower(store, await self._open_node(config), clock, endpoint, self._dispatcher.wake.set)
        feed, away = await self._open_feed(config)
        watched = WatchedWallets()
        self._signals = SignalFollower(store, feed, clock, self._dispatcher.wake.set, watched=watched, away=away)
        self._commands = WebhookCommands(
            *(store, sender, seal, clock, os.urandom, Standings(owners).one, self._changed),
            withdraw=self._dispatcher.withdraw,
            watched=watched,
        )
        self._dispatcher.start()
        self._chain.start()
        self._signals.start()

    def _changed(self) -> None:
        self._chain.changed()
        self._signals.changed()


def egress_rules(config: Config) -> EgressRules:
    """Where deliveries of this service may go."""
    own = urlsplit(config.serve.public_url or "").hostname
    settings = config.webhooks
    return EgressRules(frozenset(settings.ports), settings.allow_loopback, (own,) if own else ())


def place_dispatcher(config: Config, open_owners: OpenOwners, open_node: OpenNode, open_feed: OpenFeed) -> Any:
    """Return the handle of the one dispatcher, which is started where there is none. Needs a connected Ray."""
    openers = open_owners, open_node, open_feed
    return hosting.place_with_settings(WebhookDispatcherActor, DISPATCHER_ACTOR_NAME, config, USES, *openers)
