"""Reports of each process on the nodes, and their sum for the whole service.

Implements: upstream/README.md, "Nodes that change while the service runs". Pure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import StrEnum, unique

import msgspec

from actors.upstream.node_commands import NodeRow, ProcessRow


@unique
class NodeStage(StrEnum):
    """Of a node in one process, the furthest from serving first.

    OTHER_NETWORK: it answers, and is of another network. JOINING: it must first answer some probes. ENDING: removed,
    but calls run. WAITING: drained, but no other node can take its calls yet.
    """

    OTHER_NETWORK = "other_network"
    JOINING = "joining"
    ENDING = "ending"
    WAITING = "waiting"
    DRAINING = "draining"
    DRAINED = "drained"
    IN_USE = "in_use"


_STAGES = tuple(NodeStage)


class SeenNode(msgspec.Struct, frozen=True):
    """A node as one process finds it. health: well, behind, failing. calls: of the last seconds."""

    id: str
    stage: NodeStage
    health: str
    in_flight: int = 0
    calls: int = 0
    slot: int | None = None
    lag_slots: int | None = None
    latency_ms: int | None = None


class ProcessReport(msgspec.Struct, frozen=True):
    """Report of a process. version: of the changes taken over. limits: what it cannot take over."""

    process: str
    version: int
    nodes: tuple[SeenNode, ...] = ()
    limits: tuple[str, ...] = ()
    age_seconds: int = 0


def with_figures(rows: Iterable[NodeRow], reports: Sequence[ProcessReport]) -> tuple[NodeRow, ...]:
    """Return the rows with the figures of all processes. Shares that are wanted: of nodes in use, by weight."""
    found = [
        _with_figures(row, [one for report in reports for one in report.nodes if one.id == row.id]) for row in rows
    ]
    calls = sum(row.calls for row in found)
    taking = {row.id: row.weight for row in found if _takes_calls(row)}
    weight = sum(taking.values())
    return tuple(
        replace(
            row,
            share_percent=round(100 * row.calls / calls) if calls else None,
            share_wanted_percent=round(100 * taking.get(row.id, 0) / weight) if weight else 0,
        )
        for row in found
    )


def _takes_calls(row: NodeRow) -> bool:
    return not row.drained and not row.removed and row.state in (NodeStage.IN_USE, "unknown")


def _with_figures(row: NodeRow, figures: Sequence[SeenNode]) -> NodeRow:
    if not figures:
        return row
    slots = [one.slot for one in figures if one.slot is not None]
    lags = [one.lag_slots for one in figures if one.lag_slots is not None]
    latencies = [one.latency_ms for one in figures if one.latency_ms is not None]
    names = ("well", "behind", "failing")
    return replace(
        row,
        state=min((one.stage for one in figures), key=_STAGES.index).value,
        health={name: sum(one.health == name for one in figures) for name in names},
        in_flight=sum(one.in_flight for one in figures),
        calls=sum(one.calls for one in figures),
        slot=max(slots, default=None),
        lag_slots=min(lags, default=None),
        latency_ms=max(latencies, default=None),
    )


def process_rows(reports: Iterable[ProcessReport], version: int) -> tuple[ProcessRow, ...]:
    return tuple(
        ProcessRow(
            process=one.process,
            version=one.version,
            is_current=one.version >= version,
            age_seconds=one.age_seconds,
            limits=one.limits,
        )
        for one in reports
    )
