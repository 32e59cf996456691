"""The classifiers as Ray actors: placed, restarted and found by name.

Implements: design, "Layout" (an actor exists where state needs one owner). A thin wrapper around actor.py and
archive.py. After the loss of a machine there may be two of one name for a while: the log takes writes only of the one
that claimed its slices last.
"""

import math
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from actors import hosting
from actors.actor_settings import OF_EVERY_ACTOR
from actors.clock import SystemClock
from actors.config import Config
from actors.signals.actor import SignalClassifier
from actors.signals.archive import SignalArchive
from actors.signals.block_source import BlockSource
from actors.signals.geyser_source import GeyserSource
from actors.signals.history import PostgresSignalHistory
from actors.signals.log import RedisSignalLog
from actors.signals.positions import WALLETS_SLICE, slices_of
from actors.storage.connections import checked_redis, configured_postgres
from actors.telemetry.metrics import Metrics
from actors.telemetry.metrics_page import ReportingActor
from actors.upstream.replies import Node

_SOURCES = {"none": -1, "blocks": 1, "yellowstone": 2}  # As the metric `signals_source` numbers them.
ACTOR_PREFIX = "signal-classifier-"
OpenNode = Callable[[Config], Awaitable[Node]]
# The settings of a classifier and of what the wiring opens for it; it is replaced when one of them changes.
USES = (*OF_EVERY_ACTOR, "signals", "storage.postgres_url", "storage.redis_url", "upstream")


class SignalClassifierActor(ReportingActor):
    """open_node: given by the wiring, because this context may not know how nodes are reached. The first of all
    classifiers also reports wallets and keeps the history."""

    _archive: SignalArchive | None = None

    def __init__(self, config: Config, fingerprint: str, index: int, open_node: OpenNode) -> None:
        super().__init__(config, fingerprint, f"{ACTOR_PREFIX}{index}")
        self._index, self._open_node = index, open_node

    async def health(self) -> dict[str, Any]:
        await self._ready()
        return self._classifier.health() | {"archive_fault": "" if self._archive is None else self._archive.fault}

    async def _assemble(self) -> None:
        config, clock = self._config, SystemClock()
        assert config.storage.redis_url is not None
        redis = await checked_redis(config.storage.redis_url.get_secret_value())
        log = RedisSignalLog(redis, config.signals.stream_entries_max)
        node, slices = await self._open_node(config), slices_of(self._index, config.signals.classifiers)
        programs = tuple(each for each in slices if each != WALLETS_SLICE)
        url, token = config.upstream.yellowstone_url, config.upstream.yellowstone_token
        stream = None
        if url is not None:
            stream = GeyserSource(url, programs, None if token is None else token.get_secret_value())
        pool = await configured_postgres(config.storage, 2, self._name)
        history = PostgresSignalHistory(pool)
        self._classifier = SignalClassifier(
            *(f"{self._index}/{config.signals.classifiers}", slices, stream),
            lambda until: BlockSource(node, programs, until=until),
            *(log, history, clock),
            large_swap_lamports=config.signals.large_swap_lamports,
            on_fenced=_end_process,
        )
        self._classifier.start()
        if self._index == 0:
            self._archive = SignalArchive(
                *(log, history, clock),
                stream_hours=config.signals.stream_hours,
                history_days=config.signals.history_days,
            )
            self._archive.start()
        watch_classifier(self._metrics, self._classifier.health)


def watch_classifier(metrics: Metrics, health: Callable[[], Mapping[str, Any]]) -> None:
    """Report the source of a classifier and its lag. Without a source the lag is not known: NaN, never 0."""

    def lag() -> float:
        slots = health()["lag_slots"]
        return math.nan if slots is None else float(slots)

    text = "Slots from the newest block that was read to the newest that is known; NaN: there is no source."
    metrics.watch("signals_lag_slots", text, lag)
    text = f"Source of the blocks: {', '.join(f'{number} {name}' for name, number in _SOURCES.items())}."
    metrics.watch("signals_source", text, lambda: float(_SOURCES[health()["source"]]))


def _end_process() -> None:
    """End a classifier that is fenced. Ray starts it again only where it is still the actor of its name: one on a
    machine that was cut off, or of another number of classifiers, ends for good."""
    os._exit(1)


def place_classifiers(config: Config, open_node: OpenNode) -> Sequence[Any]:
    """Return the handles of all classifiers, which are started where they do not run. Needs a connected Ray."""
    names = [f"{ACTOR_PREFIX}{index}" for index in range(config.signals.classifiers)]
    hosting.remove_others(ACTOR_PREFIX, names)
    return [
        hosting.place_with_settings(SignalClassifierActor, name, config, USES, index, open_node)
        for index, name in enumerate(names)
    ]
