"""Looks at a node again and again, and keeps its score.

Implements: decisions, "health transitions" (probes). The shell; how a probe changes a score is core.py.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from actors.clock import Clock
from actors.config import UpstreamConfig
from actors.upstream.client import NodeClient
from actors.upstream.core import NodeScore, Probe
from actors.upstream.replies import AnswerKind

_T = TypeVar("_T")
logger = logging.getLogger(__name__)

_PROBE_TIMEOUT_MS = 2_000
_NO_PARAMS = b"[]"


class _Version(msgspec.Struct):
    name: str = msgspec.field(name="solana-core", default="")


class Prober:
    """`listener` hears every probe and the score after it, in the prober's own task."""

    def __init__(
        self,
        config: UpstreamConfig,
        client: NodeClient,
        node_url: str,
        clock: Clock,
        listener: Callable[[NodeScore, Probe], None] | None = None,
    ) -> None:
        self._pause_seconds = config.probe_seconds
        self._client = client
        self._clock = clock
        self._listener = listener
        self._task: asyncio.Task[None] | None = None
        parts = urlsplit(node_url)
        self.score = NodeScore(f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname))

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def probe(self) -> Probe:
        """One look: slot, height and version at once. getHealth is not asked: a lagging node is told by its slot."""
        started = self._clock.monotonic()
        slot, height, version = await asyncio.gather(
            self._ask("getSlot", int), self._ask("getBlockHeight", int), self._ask("getVersion", _Version)
        )
        latency_ms = round((self._clock.monotonic() - started) * 1000)
        probe = Probe(
            answered=slot is not None,
            slot=slot,
            block_height=height,
            version=None if version is None else version.name or None,
            latency_ms=latency_ms if slot is not None else None,
        )
        before, self.score = self.score, self.score.after(probe)
        if (before.failures_in_a_row == 0) != (self.score.failures_in_a_row == 0):
            state = "answers" if probe.answered else "does not answer"
            logger.warning("node %s %s", self.score.name, state)
        if self._listener is not None:
            self._listener(self.score, probe)
        return probe

    async def _ask(self, method: str, kind: type[_T]) -> _T | None:
        answer = await self._client.call(method, _NO_PARAMS, _PROBE_TIMEOUT_MS)
        if answer.kind is not AnswerKind.RESULT:
            return None
        try:
            return msgspec.json.decode(answer.value(), type=kind)
        except msgspec.DecodeError:
            return None

    async def _run(self) -> None:
        while True:
            try:
                await self.probe()
            except Exception:  # A bug must not freeze the node's score at its last value.
                logger.exception("probing the node failed")
            await asyncio.sleep(self._pause_seconds)
