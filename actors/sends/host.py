"""A racer as a Ray actor: some for the whole service, placed, restarted and found by name.

Implements: design, "Layout" (an actor exists where state needs one owner) and "Owners, for every kind of actor". A thin
wrapper around actor.py and recovery.py. After the loss of a machine there may be two of one name for a while: the
epochs of slices refuse the former one, and each of them has its own lease of the block engine's rate.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import base58
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from actors import hosting
from actors.actor_settings import OF_EVERY_ACTOR, OF_OWNERS_CLIENTS
from actors.background import Background
from actors.clock import Clock, SystemClock
from actors.config import Config, SendsConfig
from actors.ownership.director import Director
from actors.ownership.held import HeldSlices
from actors.ownership.keeper import SliceKeeper
from actors.ownership.spreading import place_team
from actors.ownership.store import PostgresOwnership
from actors.sends.actor import RACES_MAX, SendRacer
from actors.sends.api import RaceRefused, RaceResult, SliceMoved, WantedRace
from actors.sends.chain import SendChain
from actors.sends.engine import BlockEngineClient, EngineAnswer, EngineAway, EngineCall
from actors.sends.fault_switch import KillFile, pass_by
from actors.sends.hold_endings import Settles
from actors.sends.leaders import is_private_host
from actors.sends.leases import EngineLeases, PostgresLeases
from actors.sends.legs import JitoLeg, Leg, LocalRpcLeg
from actors.sends.notices import SignatureNotices
from actors.sends.recovery import RaceRecovery
from actors.sends.regions import EngineRegions
from actors.sends.slices import KIND, RACERS
from actors.sends.store import PostgresRaceStore
from actors.sends.tpu import TpuQuicLeg
from actors.storage.connections import configured_postgres
from actors.telemetry.metrics_page import ReportingActor
from actors.upstream.api import ChangingNode, first_ws_url
from actors.upstream.node_commands import NodeCommand, NodeReply
from actors.upstream.replies import Node

logger = logging.getLogger(__name__)

_CONNECTIONS_MAX = 6  # Of the 240 connections of the embedded PostgreSQL; a racer writes for a millisecond.
_SEED_BYTES = 32
OpenSettling = Callable[[Config], Awaitable[Settles]]


class OpenedNodes(NamedTuple):
    """node: all nodes as one. single_nodes: each by itself. ask: carries out an operator's command about the nodes."""

    node: ChangingNode
    single_nodes: Sequence[Node]
    ask: Callable[[NodeCommand], Awaitable[NodeReply]]


OpenNodes = Callable[[Config], Awaitable[OpenedNodes]]
# The settings of a racer and of what the wiring opens for it; it is replaced when one of them changes. How many racers
# there are is none of them: their slices move, and those that stay go on.
_OF_SENDS = tuple(f"sends.{name}" for name in SendsConfig.model_fields if name != "racers")
USES = (*OF_EVERY_ACTOR, *OF_OWNERS_CLIENTS, *_OF_SENDS, "storage.postgres_url", "upstream")


# A call of each race waits in the actor, and statuses and health must still be answered.
_CALLS_AT_ONCE = 2 * RACES_MAX


class SendRacerActor(ReportingActor):
    """name: of this racer. open_settling, open_nodes: given by the wiring, because this context may not know how
    accounts and nodes are reached."""

    def __init__(
        self, config: Config, fingerprint: str, name: str, open_settling: OpenSettling, open_nodes: OpenNodes
    ) -> None:
        super().__init__(config, fingerprint, name)
        self._open_settling, self._open_nodes = open_settling, open_nodes
        self._background = Background(logger, "the racer failed")

    async def health(self) -> dict[str, Any]:
        """Report the racer's state. under_way: races whose window is open; slices: how many it serves; landing: its
        part of GET /stats/landing; relay: of the block engines."""
        await self._ready()
        names = [leg.name for leg in self._legs]
        landing = self._racer.statistics.recent(self._clock.now_ms(), names)
        relay = {}
        if self._engines is not None:
            relay = {
                "reachable": self._engines.reachable,
                "tip_accounts": self._engines.known_tip_accounts,
                "requests_per_second": self._engines.requests_per_second,
            }
        slices = len(self._held.serving())
        return {"under_way": self._racer.under_way, "slices": slices, "landing": landing, "relay": relay}

    async def race(self, wanted: WantedRace) -> RaceResult | RaceRefused | SliceMoved:
        await self._ready()
        return await self._racer.race(wanted)

    async def status(self, signature: bytes, pubkey: bytes) -> RaceResult | None:
        await self._ready()
        return await self._racer.status(signature, pubkey)

    async def has_sent(self, signature: bytes) -> bool | SliceMoved:
        await self._ready()
        return await self._racer.has_sent(signature)

    async def take(self, slices: Sequence[int]) -> None:
        """Step of a move: own these slices from now on."""
        await self._ready()
        await self._keeper.take(slices)

    async def give(self, slices: Sequence[int]) -> None:
        """Step of a move: finish running work, and do nothing more for these slices."""
        await self._ready()
        await self._keeper.give(slices)

    async def scale(self, count: int) -> None:
        """Spread the slices over this many racers from now on."""
        await self._ready()
        await self._director.scale(count)

    async def spread(self) -> dict[str, Any]:
        """Return how many slices each racer holds, and whether that is as wanted."""
        await self._ready()
        return await self._director.spread()

    def _place(self, name: str) -> None:
        """Start a racer with the settings of this one."""
        more = (self._config, self._fingerprint, name, self._open_settling, self._open_nodes)
        hosting.place(SendRacerActor, name, self._fingerprint, *more, **_how_placed(name))

    async def ask_nodes(self, command: NodeCommand) -> NodeReply:
        """Carry out an operator's command about the nodes. Racers do, as there is always one, and it has nodes."""
        await self._ready()
        return await self._ask_nodes(command)

    async def ask_engine(self, call: EngineCall) -> EngineAnswer | EngineAway:
        await self._ready()
        if self._engines is None:
            return EngineAway("no block engine is configured")
        return await self._engines.answer(call)

    async def _assemble(self) -> None:
        config = self._config
        self._clock = clock = SystemClock()
        pool = await configured_postgres(config.storage, _CONNECTIONS_MAX, self._name)
        node, single_nodes, self._ask_nodes = await self._open_nodes(config)
        self._held = held = HeldSlices()
        store, chain = PostgresRaceStore(pool, held), SendChain(node, single_nodes)
        engines = _engines(config.sends, clock)
        self._engines = EngineRegions(engines, clock) if engines else None
        self._legs = _legs(config, node, clock, lambda: self._racer.slot, self._engines)
        metrics, fault_file = self._metrics, config.sends.fault_file
        notices = SignatureNotices(None)
        node.follow(lambda in_use: notices.use(first_ws_url(in_use)))
        self._racer = racer = SendRacer(
            chain,
            self._legs,
            store,
            await self._open_settling(config),
            clock,
            held,
            notices=notices,
            metrics=metrics,
            open_max=config.sends.open_sends_max,
            reached=pass_by if fault_file is None else KillFile(fault_file).reached,
        )
        recovery = RaceRecovery(racer, chain, store, clock)
        ownership = PostgresOwnership(pool)
        self._keeper = SliceKeeper(KIND, self._name, ownership, held, clock, racer.finish, recovery.begin)
        await self._keeper.start()
        metrics.watch("send_races_under_way", "Races without an outcome yet.", lambda: racer.under_way)
        text = "For how long the oldest window of a race has been open."
        metrics.watch("send_oldest_window_seconds", text, lambda: racer.oldest_window_seconds)
        metrics.watch("send_slices", "Slices of signatures that this racer serves.", lambda: len(held.serving()))
        text = "Whether the node announces confirmations without a gap, 1 or 0."
        metrics.watch("send_notices_complete", text, lambda: float(notices.complete))
        for leg in self._legs:  # Now that there is a racer, which tells them the slot.
            if isinstance(leg, TpuQuicLeg):
                leg.start()
        notices.start()
        self._director = Director(RACERS, ownership, self._name, self._place)
        for loop in (racer.watch(), recovery.run(), self._keeper.watch(), self._director.run()):
            self._background.start(loop)
        if self._engines is not None:
            leases = EngineLeases(PostgresLeases(pool), engines, self._name, os.urandom(8).hex(), clock)
            self._background.start(leases.keep(asyncio.sleep))
            self._background.start(self._engines.watch())


def _engines(sends: SendsConfig, clock: Clock) -> list[BlockEngineClient]:
    return [
        BlockEngineClient(
            engine.url.get_secret_value(),
            clock,
            tip_floor_url=sends.tip_floor_url,
            auth=None if engine.auth is None else engine.auth.get_secret_value(),
            requests_per_second=engine.requests_per_second,
            leased=True,
        )
        for engine in sends.engines
    ]


def _legs(
    config: Config, node: Node, clock: Clock, slot: Callable[[], int | None], engines: EngineRegions | None
) -> list[Leg]:
    sends = config.sends
    legs: list[Leg] = [LocalRpcLeg(node, clock)]
    if engines is not None:
        legs.append(JitoLeg(engines, clock))
    if sends.tpu:
        hosts = [urlsplit(each.url.get_secret_value()).hostname or "" for each in config.upstream.named_nodes]
        private = sends.tpu_private_leaders or all(is_private_host(host) for host in hosts)
        legs.append(TpuQuicLeg(node, clock, slot, identity_of(sends), private_leaders=private))
    return legs


def identity_of(sends: SendsConfig) -> Ed25519PrivateKey:
    """Return the identity shown to leaders: the one of the settings, or a new one without stake.

    The wiring has read the file and checked the key: it is base58 of 64 bytes, the seed first.
    """
    if sends.tpu_identity_key is None:
        return Ed25519PrivateKey.generate()
    return Ed25519PrivateKey.from_private_bytes(
        base58.b58decode(sends.tpu_identity_key.get_secret_value())[:_SEED_BYTES]
    )


def _how_placed(name: str) -> dict[str, Any]:
    return {"calls_at_once": _CALLS_AT_ONCE, "may_share": RACERS.may_share(name)}


async def place_racers(config: Config, open_settling: OpenSettling, open_nodes: OpenNodes) -> int:
    """Have as many racers as are wanted, each with its even share of the slices. Returns how many. Needs a connected
    Ray. May be called again at any time, and by several processes at once."""

    def place(name: str) -> Any:
        more = name, open_settling, open_nodes
        return hosting.place_with_settings(SendRacerActor, name, config, USES, *more, **_how_placed(name))

    return await place_team(config.storage, RACERS, config.sends.racers, place)
