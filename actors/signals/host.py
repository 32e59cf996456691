"""The classifiers as Ray actors: placed, restarted and found by name.

Implements: design, "Layout" (an actor exists where state needs one owner). A thin wrapper around actor.py and
archive.py. After the loss of a machine there may be two of one name for a while: the log takes writes only of the one
that claimed its part last.

The log says into how many parts the work is divided (positions.py), and classifier n has part n. So their number
changes by one write into the log, once the processes of the new ones stand. The
classifiers of before find out with their next write, and those that have no part any more are ended then.
"""

import asyncio
import logging
import math
import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from actors import hosting
from actors.actor_settings import OF_EVERY_ACTOR, fingerprint, part_of
from actors.clock import SystemClock
from actors.config import Config
from actors.ownership.api import Commanded
from actors.ownership.director import CountFollower
from actors.ownership.store import PostgresOwnership, opened_ownership
from actors.signals.actor import SignalClassifier
from actors.signals.api import ACTOR_PREFIX
from actors.signals.archive import SignalArchive
from actors.signals.block_source import BlockSource
from actors.signals.classify import PROGRAMS
from actors.signals.geyser_source import GeyserSource
from actors.signals.history import PostgresSignalHistory
from actors.signals.log import RedisSignalLog, SignalLog, SignalLogUnavailable
from actors.signals.positions import PARTS_MAX
from actors.storage.connections import checked_redis, configured_postgres
from actors.telemetry.metrics import Metrics
from actors.telemetry.metrics_page import ReportingActor
from actors.upstream.replies import Node

logger = logging.getLogger(__name__)

_SOURCES = {"none": -1, "blocks": 1, "yellowstone": 2}  # As the metric `signals_source` numbers them.
KIND = "classifiers"  # The kind that operators name to change their number.
_READY_SECONDS = 30.0
OpenNode = Callable[[Config], Awaitable[Node]]
# The settings of a classifier and of what the wiring opens for it; it is replaced when one of them changes.
# Not by another number of classifiers: those that stay go on.
USES = (
    *OF_EVERY_ACTOR,
    *("signals.large_swap_lamports", "signals.stream_entries_max", "signals.stream_hours", "signals.history_days"),
    *("storage.cluster_secret", "storage.postgres_url", "storage.redis_url", "upstream"),
)


class SignalClassifierActor(ReportingActor):
    """part: index of its part. parts: number of parts if Redis is empty. open_node: given by the wiring, because this
    context may not know how nodes are reached. The classifier of the first part also keeps the history."""

    _archive: SignalArchive | None = None

    def __init__(self, config: Config, fingerprint: str, part: int, parts: int, open_node: OpenNode) -> None:
        super().__init__(config, fingerprint, f"{ACTOR_PREFIX}{part}")
        self._part, self._parts, self._open_node = part, parts, open_node

    async def health(self) -> dict[str, Any]:
        await self._ready()
        return self._classifier.health() | {"archive_fault": "" if self._archive is None else self._archive.fault}

    async def scale(self, count: int) -> None:
        """Have this many classifiers from now on, with the settings of this one. Called at the first classifier."""
        await self._ready()
        await self._counts.scale(count)

    async def spread(self) -> dict[str, Any]:
        """Return which classifiers have a part, and whether that is as wanted. Called at the first classifier."""
        await self._ready()
        division = await self._log.division()
        return await self._counts.spread(
            {f"{ACTOR_PREFIX}{part}": 1 for part in range(division.parts if division else 0)}
        )

    async def _have_wanted(self, commanded: Commanded) -> None:
        division, count = await self._log.division(), min(commanded.wanted, PARTS_MAX)
        if division is not None and count != division.parts:
            running = await hosting.running(ACTOR_PREFIX)
            await _have(self._config, self._fingerprint, self._open_node, count, running)

    async def _assemble(self) -> None:
        config, clock = self._config, SystemClock()
        assert config.storage.redis_url is not None
        redis = await checked_redis(config.storage.redis_url.get_secret_value())
        log = self._log = RedisSignalLog(redis, config.signals.stream_entries_max)
        node = await self._open_node(config)
        url, token = config.upstream.yellowstone_url, config.upstream.yellowstone_token
        stream = None
        if url is not None:
            stream = GeyserSource(url, PROGRAMS, None if token is None else token.get_secret_value())
        pool = await configured_postgres(config.storage, 2, self._name)
        self._counts = CountFollower(KIND, PostgresOwnership(pool), self._have_wanted, (SignalLogUnavailable,))
        history = PostgresSignalHistory(pool)
        self._classifier = SignalClassifier(
            *(self._part, self._parts, stream),
            lambda until: BlockSource(node, PROGRAMS, until=until),
            *(log, history, clock),
            large_swap_lamports=config.signals.large_swap_lamports,
            on_fenced=_end_process,
        )
        self._classifier.start()
        if self._part == 0:
            self._archive = SignalArchive(
                *(log, history, clock),
                stream_hours=config.signals.stream_hours,
                history_days=config.signals.history_days,
            )
            self._archive.start()
            self._following = asyncio.create_task(self._counts.run())
        watch_classifier(self._metrics, self._classifier.health)


def watch_classifier(metrics: Metrics, health: Callable[[], Mapping[str, Any]]) -> None:
    """Report the source of a classifier and its lag. Without a source the lag is not known: NaN, never 0."""

    def lag() -> float:
        slots = health()["lag_slots"]
        return math.nan if slots is None else float(slots)

    text = "Slots from the newest block that was read to the newest that is known; NaN: there is no source."
    metrics.watch("signals_lag_slots", text, lag)
    text = "Signals that wait until all other classifiers have come to their slot."
    metrics.watch("signals_held", text, lambda: float(health()["held"]))
    text = "Last slot of the newest gap that subscribers were told; 0: there was none since the start."
    metrics.watch("signals_gap_to_slot", text, lambda: float((health()["gap"] or {"to_slot": 0})["to_slot"]))
    text = f"Source of the blocks: {', '.join(f'{number} {name}' for name, number in _SOURCES.items())}."
    metrics.watch("signals_source", text, lambda: float(_SOURCES[health()["source"]]))


def _end_process() -> None:
    """End a classifier that is fenced. Ray starts it again only where it is still the actor of its name: one on a
    machine that was cut off, or of another number of classifiers, ends for good."""
    os._exit(1)


def place_classifiers(config: Config, open_node: OpenNode) -> int:
    """Have as many classifiers as an operator wants, or else the settings; return the number of parts of their work.

    Needs a connected Ray. Blocks while new processes start.
    """
    return asyncio.run(_place_wanted(config, open_node))


async def _place_wanted(config: Config, open_node: OpenNode) -> int:
    async with opened_ownership(config.storage, "ledger-gateway placing classifiers") as ownership:
        count = await ownership.wanted(KIND, config.signals.classifiers)
        await ownership.set_wanted(KIND, count, config.signals.classifiers)
    return await _have(part_of(config, USES), fingerprint(config, USES), open_node, count)


async def _have(
    config: Config, fingerprint: str, open_node: OpenNode, count: int, running: Collection[str] = ()
) -> int:
    """Start new classifiers first, then divide the work among all of them, then end those that have no part any more.

    Doing it again, from wherever it was broken off, ends in the same. config: the part of it that classifiers use.
    running: classifiers that stay as they are, whatever their settings.
    """
    assert config.storage.redis_url is not None

    def placed(part: int) -> hosting.Reference:
        name = f"{ACTOR_PREFIX}{part}"
        if name in running:
            return hosting.Reference(name)
        more = config, fingerprint, part, count, open_node
        return hosting.place(SignalClassifierActor, name, fingerprint, *more, may_share=part == 0)

    # In threads, because each call blocks while a new process starts.
    references = await asyncio.gather(*(asyncio.to_thread(placed, part) for part in range(count)))
    redis = await checked_redis(config.storage.redis_url.get_secret_value())
    try:
        parts = await divide_work(RedisSignalLog(redis), references)
    finally:
        await redis.aclose()
    kept = [f"{ACTOR_PREFIX}{part}" for part in range(max(parts, count))]
    await asyncio.to_thread(hosting.remove_others, ACTOR_PREFIX, kept)
    return parts


async def divide_work(log: SignalLog, classifiers: Sequence[Any]) -> int:
    """Divide the work among these classifiers, unless it is; return the number of parts.

    The work stays as it is while one of them does not answer: all others would wait for its part.
    """
    division = await log.division()
    is_to_change = division is not None and division.parts != len(classifiers)
    if is_to_change and None in await hosting.ask_each(classifiers, "health", _READY_SECONDS):
        assert division is not None
        logger.error("the work of %d classifiers stays divided: a new one does not answer", division.parts)
        return division.parts
    return (await log.divide(len(classifiers))).parts
