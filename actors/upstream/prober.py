"""Probes a node at regular intervals.

Implements: decisions, "health transitions" (probes); node pool (slot and health probes). The shell.
node_health.py turns probes into a score, and node_selection.py uses the score.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

import msgspec

from actors.background import Background
from actors.clock import Clock
from actors.config import UpstreamConfig
from actors.upstream.client import NodeClient
from actors.upstream.node_health import Probe
from actors.upstream.replies import AnswerKind, NodeAnswer, concerns_one_node

_T = TypeVar("_T")
logger = logging.getLogger(__name__)

_NO_PARAMS = b"[]"
_CONFIRMED, _PROCESSED = b'[{"commitment":"confirmed"}]', b'[{"commitment":"processed"}]'
# The chain reaches this slot in 12,000 years. A higher one would make all other nodes count as behind.
_SLOT_MAX = 10**12
_ANSWER_BYTES_MAX = 4_096  # Size of the answer: a number, a word or a version.
_VERSION_CHARACTERS_MAX = 64
_VERSION_EVERY = 30  # In probes. A version changes only with a restart, and the first probe after a restart asks too.


class _Version(msgspec.Struct):
    name: str = msgspec.field(name="solana-core", default="")


class Prober:
    """Probes one node, and passes each probe to `listener`.

    one_of_several: also ask for the slots that only the choice between nodes needs.
    """

    def __init__(
        self,
        config: UpstreamConfig,
        client: NodeClient,
        name: str,
        clock: Clock,
        listener: Callable[[Probe], None],
        one_of_several: bool = False,
    ) -> None:
        self._period_seconds, self._timeout_ms = config.probe_seconds, config.probe_timeout_ms
        self._client, self._name, self._clock = client, name, clock
        self._listener, self.one_of_several = listener, one_of_several
        self._background = Background(logger, "probing the node failed")
        self._probes = 0
        self._answered = True
        self._version: str | None = None

    def start(self) -> None:
        self._background.start(self._run())

    async def stop(self) -> None:
        await self._background.stop()

    async def probe(self) -> Probe:
        """Probe once: ask for slots, height and health at the same time."""
        started = self._clock.monotonic()
        health, slot, height, confirmed, processed = await asyncio.gather(
            self._ask("getHealth"),
            self._ask("getSlot"),
            self._ask("getBlockHeight"),
            self._ask("getSlot", _CONFIRMED, self.one_of_several),
            self._ask("getSlot", _PROCESSED, self.one_of_several),
        )
        latency_ms = round((self._clock.monotonic() - started) * 1000)
        finalized = _slot(slot)
        answered = finalized is not None
        if answered and self._probes % _VERSION_EVERY == 0:
            version = _value(await self._ask("getVersion"), _Version)
            self._version = self._version if version is None else _shown(version.name)
        self._probes = self._probes + 1 if answered else 0
        probe = Probe(
            answered=answered,
            slot=finalized,
            block_height=_slot(height),
            version=self._version,
            latency_ms=latency_ms if answered else None,
            confirmed_slot=_slot(confirmed),
            processed_slot=_slot(processed),
            behind=health is not None and concerns_one_node(health.error_code, health.error_message),
        )
        if answered is not self._answered:
            self._answered = answered
            logger.warning("node %s %s", self._name, "answers" if answered else "does not answer")
        self._listener(probe)
        return probe

    async def _ask(self, method: str, params: bytes = _NO_PARAMS, wanted: bool = True) -> NodeAnswer | None:
        return await self._client.ask(method, params, self._timeout_ms, _ANSWER_BYTES_MAX) if wanted else None

    async def _run(self) -> None:
        """Probe until stopped. A node that hangs is probed as often as the others."""
        loop = asyncio.get_running_loop()
        while True:
            next_at = loop.time() + self._period_seconds
            try:
                await self.probe()
            except Exception:  # A bug must not freeze the score at its last value.
                logger.exception("probing the node failed")
            await asyncio.sleep(max(0.0, next_at - loop.time()))


def _slot(answer: NodeAnswer | None) -> int | None:
    """Return the slot, or height, that a node tells. None: it tells none, or a number that no chain has reached."""
    slot = _value(answer, int)
    return slot if slot is not None and 0 <= slot <= _SLOT_MAX else None


def _shown(version: str) -> str | None:
    """Return a version as /health shows it. None: the text is no version, and may be of any length."""
    return version if 0 < len(version) <= _VERSION_CHARACTERS_MAX and version.isprintable() else None


def _value(answer: NodeAnswer | None, kind: type[_T]) -> _T | None:
    if answer is None or answer.kind is not AnswerKind.RESULT:
        return None
    try:
        return msgspec.json.decode(answer.value(), type=kind)
    except msgspec.DecodeError:
        return None
