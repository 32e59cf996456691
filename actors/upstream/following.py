"""Takes an operator's changes of the nodes over from the store into one process, and tells how it finds the nodes.

Implements: upstream/README.md, "Nodes that change while the service runs". A shell. While the database is away, the
process goes on with the nodes that it has; one that starts meanwhile begins with those of the settings.
"""

import logging
from collections import deque
from collections.abc import Sequence

import msgspec

from actors.background import Background
from actors.provider_config import NodeConfig
from actors.upstream.api import Nodes
from actors.upstream.node_changes import wanted_nodes
from actors.upstream.node_reports import ProcessReport, SeenNode
from actors.upstream.store import NodeChangesStore, NodeChangesUnavailable

logger = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
_CALLS_APART = 5
_TOLD_EVERY = 4  # Look-ups between reports of an idle process; after 15 s without a report it counts as lost.
_LOOKS_COUNTED = 5  # Calls of the last ten seconds.
_FORGET_EVERY = 500  # Look-ups.


class NodesFollower:
    """process: its name in reports. limits: what it cannot take over, one sentence each."""

    def __init__(
        self,
        base: Sequence[NodeConfig],
        nodes: Nodes,
        store: NodeChangesStore,
        process: str,
        limits: tuple[str, ...] = (),
    ) -> None:
        self._base, self._nodes, self._store, self._process, self._limits = base, nodes, store, process, limits
        self._version = -1  # Nothing was taken over yet.
        self._network = ""
        self._looks = 0
        self._counts: deque[dict[str, int]] = deque(maxlen=_LOOKS_COUNTED)
        self._is_away = False
        self._told: tuple[ProcessReport, int] | None = None  # The latest report, and at which look-up it was made.
        self._background = Background(logger, "taking over changes of the nodes failed")

    async def begin(self) -> None:
        """Take over what was changed before this process began."""
        try:
            await self.take_over()
        except NodeChangesUnavailable as error:
            logger.warning("this process begins with the nodes of the settings: %s", error)

    def limit(self, limits: tuple[str, ...]) -> None:
        """Report these limits too: another part of this process uses the nodes."""
        self._limits = tuple(dict.fromkeys((*self._limits, *limits)))

    def start(self) -> None:
        self._background.repeat(self.look, LOOK_SECONDS)

    async def stop(self) -> None:
        await self._background.stop()

    async def look(self) -> None:
        """Take over changes, and report. Raises nothing if the database is unavailable."""
        try:
            await self.take_over()
            await self._tell(self._report())
            await self._keep_network()
            self._looks += 1
            if self._looks % _FORGET_EVERY == 0:
                await self._store.forget_silent()
        except NodeChangesUnavailable as error:
            if not self._is_away:
                logger.warning("changes of the nodes cannot be read, the nodes stay as they are: %s", error)
            self._is_away = True
        else:
            self._is_away = False

    async def _tell(self, report: ProcessReport) -> None:
        """Send a report unless nothing is new: an idle process has nothing to report, and each report is a write."""
        if self._told is not None:
            before, at = self._told
            if self._looks - at < _TOLD_EVERY and not _is_news(report, before):
                return
        await self._store.tell(report)
        self._told = report, self._looks

    async def take_over(self) -> None:
        """Raises NodeChangesUnavailable."""
        if await self._store.version() == self._version:
            return
        kept = await self._store.read()
        wanted = wanted_nodes(self._base, kept.changes)
        self._nodes.take_over(wanted.nodes)
        self._version, self._network = kept.version, kept.network
        if wanted.lacking is not None:
            logger.error("the changes of the nodes leave none for %s: those of the settings are in use", wanted.lacking)

    async def _keep_network(self) -> None:
        """Store the network from time to time, for times in which no node answers."""
        if self._looks % _FORGET_EVERY == 0:
            network = await self._nodes.network()
            if network is not None and network != self._network:
                await self._store.keep_network(network)
                self._network = network

    def _report(self) -> ProcessReport:
        figures = self._nodes.figures()
        before = self._counts[0] if self._counts else {}
        self._counts.append({one.id: one.calls for one in figures})
        # A node that came back under its id counts from zero, so its count may be lower.
        recent = [_with_calls(one, max(0, one.calls - before.get(one.id, 0))) for one in figures]
        return ProcessReport(self._process, self._version, tuple(recent), self._limits)


def _is_news(report: ProcessReport, before: ProcessReport) -> bool:
    """Whether a report says more than how the chain goes on. An actor that waits asks a few times in a second, too."""

    def told(one: ProcessReport) -> object:
        return one.version, one.limits, [(node.id, node.stage, node.health, node.in_flight) for node in one.nodes]

    if told(report) != told(before):
        return True
    return any(_is_another(now.calls, then.calls) for now, then in zip(report.nodes, before.nodes, strict=True))


def _is_another(calls: int, before: int) -> bool:
    return bool(calls) != bool(before) or abs(calls - before) > max(_CALLS_APART, before // 4)


def _with_calls(figures: SeenNode, calls: int) -> SeenNode:
    return msgspec.structs.replace(figures, calls=calls)
