"""The racer as a Ray actor: one for the whole service, placed, restarted and found by name.

Implements: design, "Layout" (an actor exists where state needs one owner). A thin wrapper around actor.py and
recovery.py. After the loss of a machine there may be two for a while: each broadcast is claimed in the store, and each
hold ends once, so they share the work; only the block engine's limit is then used twice.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from actors import hosting
from actors.actor_settings import OF_EVERY_ACTOR, OF_OWNERS_CLIENTS
from actors.background import Background
from actors.clock import Clock, SystemClock
from actors.config import Config
from actors.sends.actor import RACES_MAX, SendRacer
from actors.sends.api import RACER_ACTOR_NAME, RaceRefused, RaceResult, WantedRace
from actors.sends.chain import SendChain
from actors.sends.engine import BlockEngineClient, EngineAnswer, EngineAway, EngineCall
from actors.sends.fault_switch import KillFile, pass_by
from actors.sends.hold_endings import Settles
from actors.sends.leaders import is_private_host
from actors.sends.legs import JitoLeg, Leg, LocalRpcLeg
from actors.sends.notices import SignatureNotices
from actors.sends.recovery import RaceRecovery
from actors.sends.store import PostgresRaceStore
from actors.sends.tpu import TpuQuicLeg
from actors.storage.connections import configured_postgres
from actors.telemetry.metrics_page import ReportingActor
from actors.upstream.replies import Node

logger = logging.getLogger(__name__)

_CONNECTIONS_MAX = 16
OpenSettling = Callable[[Config], Awaitable[Settles]]
# The nodes as one, and each by itself.
OpenNodes = Callable[[Config], Awaitable[tuple[Node, Sequence[Node]]]]
# The settings of the racer and of what the wiring opens for it; it is replaced when one of them changes.
USES = (*OF_EVERY_ACTOR, *OF_OWNERS_CLIENTS, "sends", "storage.postgres_url", "upstream")


class SendRacerActor(ReportingActor):
    """open_settling, open_nodes: given by the wiring, because this context may not know how accounts and nodes are
    reached."""

    def __init__(self, config: Config, fingerprint: str, open_settling: OpenSettling, open_nodes: OpenNodes) -> None:
        super().__init__(config, fingerprint, RACER_ACTOR_NAME)
        self._open_settling, self._open_nodes = open_settling, open_nodes
        self._background = Background(logger, "the racer failed")

    async def health(self) -> dict[str, Any]:
        """Report the racer's state. under_way: races whose window is open; landing: for GET /stats/landing; relay: of
        the block engine."""
        await self._ready()
        names = [leg.name for leg in self._legs]
        landing = self._racer.statistics.recent(self._clock.now_ms(), names)
        relay = {}
        if self._engine is not None:
            relay = {"reachable": self._engine.reachable, "tip_accounts": self._engine.known_tip_accounts}
        return {"under_way": self._racer.under_way, "landing": landing, "relay": relay}

    async def race(self, wanted: WantedRace) -> RaceResult | RaceRefused:
        await self._ready()
        return await self._racer.race(wanted)

    async def status(self, signature: bytes, pubkey: bytes) -> RaceResult | None:
        await self._ready()
        return await self._racer.status(signature, pubkey)

    async def has_sent(self, signature: bytes) -> bool:
        await self._ready()
        return await self._racer.has_sent(signature)

    async def ask_engine(self, call: EngineCall) -> EngineAnswer | EngineAway:
        await self._ready()
        if self._engine is None:
            return EngineAway("no block engine is configured")
        return await self._engine.answer(call)

    async def _assemble(self) -> None:
        config = self._config
        self._clock = clock = SystemClock()
        pool = await configured_postgres(config.storage, _CONNECTIONS_MAX, RACER_ACTOR_NAME)
        node, single_nodes = await self._open_nodes(config)
        store, chain = PostgresRaceStore(pool), SendChain(node, single_nodes)
        self._engine = _engine(config, clock)
        self._legs = _legs(config, node, clock, lambda: self._racer.slot, self._engine)
        metrics, fault_file = self._metrics, config.sends.fault_file
        notices = SignatureNotices(config.upstream.node_ws_url)
        self._racer = SendRacer(
            chain,
            self._legs,
            store,
            await self._open_settling(config),
            clock,
            notices=notices,
            metrics=metrics,
            open_max=config.sends.open_sends_max,
            reached=pass_by if fault_file is None else KillFile(fault_file).reached,
        )
        metrics.watch("send_races_under_way", "Races without an outcome yet.", lambda: self._racer.under_way)
        text = "Whether the node announces confirmations without a gap, 1 or 0."
        metrics.watch("send_notices_complete", text, lambda: float(notices.complete))
        for leg in self._legs:  # Now that there is a racer, which tells them the slot.
            if isinstance(leg, TpuQuicLeg):
                leg.start()
        recovery = RaceRecovery(self._racer, chain, store, clock)
        notices.start()
        self._background.start(self._racer.watch())
        self._background.start(recovery.run())
        if self._engine is not None:
            self._background.start(self._engine.watch())


def _engine(config: Config, clock: Clock) -> BlockEngineClient | None:
    sends = config.sends
    if sends.block_engine_url is None:
        return None
    auth = None if sends.block_engine_auth is None else sends.block_engine_auth.get_secret_value()
    return BlockEngineClient(
        sends.block_engine_url,
        clock,
        tip_floor_url=sends.tip_floor_url,
        auth=auth,
        requests_per_second=sends.block_engine_requests_per_second,
    )


def _legs(
    config: Config, node: Node, clock: Clock, slot: Callable[[], int | None], engine: BlockEngineClient | None
) -> list[Leg]:
    sends = config.sends
    legs: list[Leg] = [LocalRpcLeg(node, clock)]
    if engine is not None:
        legs.append(JitoLeg(engine, clock))
    if sends.tpu:
        hosts = [urlsplit(each.url.get_secret_value()).hostname or "" for each in config.upstream.named_nodes]
        private = sends.tpu_private_leaders or all(is_private_host(host) for host in hosts)
        legs.append(TpuQuicLeg(node, clock, slot, Ed25519PrivateKey.generate(), private_leaders=private))
    return legs


def place_racer(config: Config, open_settling: OpenSettling, open_nodes: OpenNodes) -> Any:
    """Return the handle of the one racer, which is started where there is none. Needs a connected Ray."""
    openers = open_settling, open_nodes
    # A call of each race waits in the actor, and statuses and health must still be answered.
    calls = 2 * RACES_MAX
    return hosting.place_with_settings(SendRacerActor, RACER_ACTOR_NAME, config, USES, *openers, calls_at_once=calls)
