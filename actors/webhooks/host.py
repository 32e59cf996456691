"""A dispatcher as a Ray actor: some for the whole service, placed, restarted and found by name.

Implements: design, "Layout" (an actor exists where state needs one owner) and "Owners, for every kind of actor". A thin
wrapper around actor.py, sources.py and commands.py. After the loss of a machine there may be two of one name for a
while: the epochs of slices refuse the former one.
"""

import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from actors import hosting
from actors.accounts.api import OwnersClient
from actors.actor_settings import OF_EVERY_ACTOR, OF_OWNERS_CLIENTS
from actors.background import Background
from actors.clock import SystemClock
from actors.config import Config, WebhooksConfig
from actors.errors import Refusal
from actors.methods.price_lists import price_lists
from actors.ownership.api import OwnershipUnavailable
from actors.ownership.director import Director
from actors.ownership.held import HeldSlices
from actors.ownership.keeper import SliceKeeper
from actors.ownership.spreading import place_team
from actors.ownership.store import PostgresOwnership
from actors.storage.connections import configured_postgres
from actors.telemetry.metrics_page import ReportingActor
from actors.upstream.replies import Node
from actors.webhooks.actor import WebhookDispatcher
from actors.webhooks.api import NotMine, WebhookCommand, slice_for
from actors.webhooks.chain import ChainFollower
from actors.webhooks.commands import WebhookCommands
from actors.webhooks.fact_teller import FactTeller
from actors.webhooks.facts_store import PostgresFacts
from actors.webhooks.postgres_store import PostgresWebhookStore
from actors.webhooks.resolver import GuardedResolver
from actors.webhooks.sealing import SecretSeal
from actors.webhooks.sender import WebhookSender
from actors.webhooks.signal_follower import SignalFeed, SignalFollower
from actors.webhooks.slices import DISPATCHERS, KIND, SOURCES_SLICE
from actors.webhooks.sources import EventSources, Follower
from actors.webhooks.standings import Standings
from actors.webhooks.store import WebhookStore
from actors.webhooks.targets import EgressRules
from actors.webhooks.watched_wallets import WatchedWallets

logger = logging.getLogger(__name__)

_CONNECTIONS_MAX = 6  # Of the 240 connections that the embedded PostgreSQL has in all.
_DAY_MS = 86_400_000
OpenOwners = Callable[[Config], Awaitable[OwnersClient]]
OpenNode = Callable[[Config], Awaitable[Node]]


# Opens the log of signals; with the exceptions that it raises while its stores do not answer.
OpenFeed = Callable[[Config], Awaitable[tuple[SignalFeed, tuple[type[Exception], ...]]]]
# The settings of a dispatcher and of what the wiring opens for it; it is replaced when one of them changes. How many
# there are is none of them: their slices move, and those that stay go on.
USES = (
    *OF_EVERY_ACTOR,
    *OF_OWNERS_CLIENTS,
    "pricing.lists",
    "serve.public_url",
    "signals.stream_entries_max",
    "storage.postgres_url",
    "storage.redis_url",
    "upstream",
    *(f"webhooks.{name}" for name in WebhooksConfig.model_fields if name != "dispatchers"),
)


class WebhookDispatcherActor(ReportingActor):
    """name: of this dispatcher. open_owners, open_node, open_feed: given by the
    wiring, because this context may not know how accounts, nodes and signals are reached."""

    def __init__(
        self,
        config: Config,
        fingerprint: str,
        name: str,
        open_owners: OpenOwners,
        open_node: OpenNode,
        open_feed: OpenFeed,
    ) -> None:
        super().__init__(config, fingerprint, name)
        self._open_owners, self._open_node, self._open_feed = open_owners, open_node, open_feed
        self._background = Background(logger, "webhooks: the dispatcher failed")

    async def health(self) -> dict[str, Any]:
        """waiting: jobs of its slices that are not delivered; slices: how many it serves; follows_sources: whether it
        takes in events for all; streaming: whether it follows the chain by a stream."""
        await self._ready()
        streaming = self._sources.are_followed and self._chain is not None and self._chain.is_streaming
        return {
            "waiting": self._dispatcher.figures.waiting,
            "slices": len(self._held.serving()),
            "follows_sources": self._sources.are_followed,
            "streaming": streaming,
        }

    async def ask(self, command: WebhookCommand) -> dict[str, Any] | Refusal | NotMine:
        """While its slice is being given, too: commands need not wait for requests under way."""
        await self._ready()
        return NotMine() if self._held.epoch(slice_for(command)) is None else await self._commands.ask(command)

    async def changed(self) -> None:
        """Read webhooks again, because another dispatcher created, changed or deleted some."""
        await self._ready()
        if self._sources.are_followed:
            self._sources.changed()

    async def take(self, slices: Sequence[int]) -> None:
        """Step of a move: own these slices from now on."""
        await self._ready()
        await self._keeper.take(slices)

    async def give(self, slices: Sequence[int]) -> None:
        """Step of a move: finish running work, and do nothing more for these slices."""
        await self._ready()
        await self._keeper.give(slices)

    async def scale(self, count: int) -> None:
        """Have this many dispatchers from now on."""
        await self._ready()
        await self._director.scale(count)

    async def spread(self) -> dict[str, Any]:
        """Return how many slices each dispatcher holds, and whether that is as wanted."""
        await self._ready()
        return await self._director.spread()

    async def _assemble(self) -> None:
        config, settings = self._config, self._config.webhooks
        assert config.storage.cluster_secret is not None
        clock = SystemClock()
        pool = await configured_postgres(config.storage, _CONNECTIONS_MAX, self._name)
        self._held, self._ownership = HeldSlices(), PostgresOwnership(pool)
        self._store = store = PostgresWebhookStore(pool, self._held)
        rules = egress_rules(config)
        sender = WebhookSender(rules, GuardedResolver(rules, settings.name_servers), clock, settings.ca_file)
        seal = SecretSeal(config.storage.cluster_secret.get_secret_value().encode())
        owners = await self._open_owners(config)
        self._dispatcher = WebhookDispatcher(
            *(self._name, store, sender, owners, seal, clock, self._metrics, self._held),
            kept_ms=settings.kept_days * _DAY_MS,
            lists=price_lists(config.pricing),
        )
        node, feed = await self._open_node(config), await self._open_feed(config)
        watched = WatchedWallets()
        self._chain: ChainFollower | None = None
        self._sources = EventSources(
            partial(self._followers, store, node, feed, watched), lambda: self._background.start(self._tell_sources())
        )
        self._commands = WebhookCommands(
            *(store, sender, seal, clock, os.urandom, Standings(owners).one, self._sources.changed),
            withdraw=self._dispatcher.withdraw,
            watched=watched,
        )
        self._keeper = SliceKeeper(KIND, self._name, self._ownership, self._held, clock, self._finish, self._begin)
        text = "Slices of accounts that this dispatcher serves."
        self._metrics.watch("webhook_slices", text, lambda: len(self._held.serving()))
        await self._keeper.start()
        self._dispatcher.start()
        self._director = Director(DISPATCHERS, self._ownership, self._name, self._place)
        self._background.start(self._keeper.watch())
        self._background.start(FactTeller(PostgresFacts(pool, self._held), owners).run())
        self._background.start(self._director.run())

    def _followers(
        self,
        store: WebhookStore,
        node: Node,
        feed: tuple[SignalFeed, tuple[type[Exception], ...]],
        watched: WatchedWallets,
    ) -> Collection[Follower]:
        upstream, clock, wake = self._config.upstream, SystemClock(), self._dispatcher.wake.set
        token = None if upstream.yellowstone_token is None else upstream.yellowstone_token.get_secret_value()
        endpoint = None if upstream.yellowstone_url is None else (upstream.yellowstone_url, token)
        self._chain = ChainFollower(store, node, clock, endpoint, wake)
        return self._chain, SignalFollower(store, feed[0], clock, wake, watched=watched, away=feed[1])

    def _begin(self, slices: Sequence[int]) -> None:
        self._sources.begin(slices)
        self._dispatcher.begin(slices)

    async def _finish(self, slices: Sequence[int]) -> None:
        await self._sources.finish(slices)
        await self._dispatcher.finish(slices)

    async def _tell_sources(self) -> None:
        """Notify the sources' dispatcher. Its followers also look every ten seconds, so a lost notice does no harm."""
        with contextlib.suppress(OwnershipUnavailable, hosting.ActorUnreachable):
            owned = (await self._ownership.holders(KIND)).get(SOURCES_SLICE)
            if owned is not None and owned.holder != self._name:
                await hosting.ask(hosting.Reference(owned.holder), "changed")

    def _place(self, name: str) -> None:
        """Start a dispatcher with the settings of this one."""
        more = self._config, self._fingerprint, name, self._open_owners, self._open_node, self._open_feed
        hosting.place(WebhookDispatcherActor, name, self._fingerprint, *more, may_share=DISPATCHERS.may_share(name))


def egress_rules(config: Config) -> EgressRules:
    """Return the rules on where deliveries of this service may go."""
    own = urlsplit(config.serve.public_url or "").hostname
    settings = config.webhooks
    return EgressRules(frozenset(settings.ports), settings.allow_loopback, (own,) if own else ())


async def place_dispatchers(config: Config, open_owners: OpenOwners, open_node: OpenNode, open_feed: OpenFeed) -> int:
    """Have as many dispatchers as are wanted, each with its even share of the slices. Returns how many. Needs a
    connected Ray. May be called again at any time, and by several processes at once."""

    def place(name: str) -> Any:
        more = name, open_owners, open_node, open_feed
        may_share = DISPATCHERS.may_share(name)
        return hosting.place_with_settings(WebhookDispatcherActor, name, config, USES, *more, may_share=may_share)

    return await place_team(config.storage, DISPATCHERS, config.webhooks.dispatchers, place)
