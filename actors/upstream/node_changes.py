"""The changes that an operator made to the nodes while the service runs, on top of the settings.

Implements: upstream/README.md, "Nodes that change while the service runs". Pure. Not here: where changes are kept
(store.py), who carries them out (api.py).

The settings are the base. A change belongs to a node by its id, which is its name in the settings.

| The settings                             | The operator's change of that id | What holds                           |
|------------------------------------------|----------------------------------|--------------------------------------| |
have a node of this id                   | none                             | the settings                         | |
have it, whatever its URL is by now      | weight, drained, removed         | URL and roles of the settings, with  | |
|                                  | the change on top                    | | do not have it                           |
added                            | the added node                       | | have it by now                           |
added                            | the settings; the change is not used | | do not have it any more                  |
weight, drained, removed         | nothing; the change is not used      | | leave no node for reads, sends, streams  |
any                              | drains, removals and weights of the  | |                                          |
| settings' nodes are not used         |

A change that is not used is kept and listed, and `remove` forgets it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum, unique
from types import MappingProxyType
from urllib.parse import urlsplit

from actors.provider_config import NodeConfig
from actors.upstream.node_commands import AddNode, ChangeNode, NodeRefused, Refused, RemoveNode

NODES_MAX = 64  # As many as the settings may have.
_DEFAULT_PORTS = MappingProxyType({"http": 80, "https": 443})


@unique
class Need(StrEnum):
    """A kind of calls for which the service must always have a node."""

    READ = "read"
    SEND = "send"
    STREAMS = "streams"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChange:
    """A change of one node. added: a node that the settings do not have; None: of a node of the settings.

    weight: None: as in the settings, or as added. network: genesis hash of the network when the node was added.
    is_readable: whether the cluster's secret of today opens its URL.
    """

    id: str
    added: NodeConfig | None = field(default=None, repr=False)
    weight: int | None = None
    is_drained: bool = False
    is_removed: bool = False
    network: str = ""
    is_readable: bool = True

    @property
    def is_of_settings(self) -> bool:
        return self.added is None and self.is_readable

    @property
    def says_nothing(self) -> bool:
        return self.is_of_settings and self.weight is None and not self.is_drained and not self.is_removed


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedNode:
    """A node as it shall be. network: as in NodeChange; empty: of the settings, which are trusted."""

    config: NodeConfig
    is_of_settings: bool = True
    is_drained: bool = False
    network: str = ""

    @property
    def id(self) -> str:
        assert self.config.name is not None
        return self.config.name


@dataclass(frozen=True, slots=True)
class WantedNodes:
    """removed: nodes of the settings that are not used. unused: changes without effect, and why.

    lacking: what the changes would leave no node for, so that they hold for added nodes alone."""

    nodes: tuple[WantedNode, ...]
    removed: tuple[NodeConfig, ...] = ()
    unused: Mapping[str, str] = field(default_factory=dict)
    lacking: Need | None = None


@dataclass(frozen=True, slots=True)
class Forget:
    """Remove the change of this id."""

    id: str


def needs_of(base: Sequence[NodeConfig]) -> tuple[Need, ...]:
    """Return the required kinds of calls: streams only where the settings offer them."""
    return (Need.READ, Need.SEND, *([Need.STREAMS] if any(node.ws_url for node in base) else []))


def wanted_nodes(base: Sequence[NodeConfig], changes: Iterable[NodeChange]) -> WantedNodes:
    """Return the nodes of the settings with the changes on top, in the settings' order, then added ones by id."""
    kept = sorted(changes, key=lambda change: change.id)
    found = _with_changes(base, kept)
    lacking = lack_of(found.nodes, needs_of(base))
    if lacking is None:
        return found
    without = _with_changes(base, [change for change in kept if not change.is_of_settings])
    return replace(without, unused={**found.unused, **without.unused}, lacking=lacking)


def _with_changes(base: Sequence[NodeConfig], changes: Sequence[NodeChange]) -> WantedNodes:
    by_id = {change.id: change for change in changes}
    nodes, removed, unused = [], [], {}
    for config in base:
        change = by_id.pop(str(config.name), None)
        if change is not None and not change.is_of_settings:
            unused[change.id] = "the settings have a node of this id by now"
            change = None
        if change is not None and change.is_removed:
            removed.append(config)
            continue
        weight = None if change is None else change.weight
        shown = config if weight is None else config.model_copy(update={"weight": weight})
        nodes.append(WantedNode(config=shown, is_drained=change is not None and change.is_drained))
    for change in by_id.values():
        if not change.is_readable:
            unused[change.id] = (
                "it was kept with another cluster secret, or by another release: remove it, and add it again"
            )
        elif change.added is None:
            unused[change.id] = "the settings have no node of this id any more"
        else:
            nodes.append(_as_added(change, change.added))
    return WantedNodes(tuple(nodes), tuple(removed), unused)


def _as_added(change: NodeChange, added: NodeConfig) -> WantedNode:
    weight = added.weight if change.weight is None else change.weight
    config = added.model_copy(update={"name": change.id, "weight": weight})
    return WantedNode(config=config, is_of_settings=False, is_drained=change.is_drained, network=change.network)


def lack_of(nodes: Iterable[WantedNode], needs: Iterable[Need]) -> Need | None:
    """Return the kind of calls for which no node would be left. Nodes of weight 0 are only spares, as in the
    settings."""
    serving = [node.config for node in nodes if not node.is_drained and node.config.weight]
    for need in needs:
        if not any(node.ws_url if need is Need.STREAMS else need.value in node.roles for node in serving):
            return need
    return None


def decide(
    command: AddNode | ChangeNode | RemoveNode, base: Sequence[NodeConfig], changes: Sequence[NodeChange], network: str
) -> NodeChange | Forget | NodeRefused:
    """Return the change to keep. network: of an added node; the caller has compared it."""
    match command:
        case AddNode():
            return _decide_add(command, base, changes, network)
        case ChangeNode():
            return _decide_change(command, base, changes)
        case RemoveNode():
            return _decide_remove(command, base, changes)


def _decide_add(
    command: AddNode, base: Sequence[NodeConfig], changes: Sequence[NodeChange], network: str
) -> NodeChange | NodeRefused:
    """A node of the settings that was removed comes back by `undrain`."""
    if any(config.name == command.id for config in base):
        text = "the settings have a node of this id: choose another, or `undrain` it where it is drained or removed"
        return NodeRefused(Refused.DUPLICATE, text)
    if any(change.id == command.id for change in changes):
        text = "there is a node, or a change of one, of this id: choose another, or drain and remove that one first"
        return NodeRefused(Refused.DUPLICATE, text)
    added = command.config()
    place = _place_of(added)
    others = [*base, *(change.added for change in changes if change.added is not None)]
    for other in others:
        if _place_of(other) == place:
            return NodeRefused(Refused.DUPLICATE, f"the node {other.name} has this URL: change that one")
    if len(others) >= NODES_MAX:
        return NodeRefused(Refused.TOO_MANY, f"there are {NODES_MAX} nodes: remove one first")
    return NodeChange(id=command.id, added=added, network=network)


def _decide_change(
    command: ChangeNode, base: Sequence[NodeConfig], changes: Sequence[NodeChange]
) -> NodeChange | Forget | NodeRefused:
    before = change_of(command.id, base, changes)
    if before is None:
        return _unknown(command.id)
    after = before
    if command.drained is not None:
        after = replace(after, is_drained=command.drained, is_removed=after.is_removed and command.drained)
    if after.is_removed:
        return NodeRefused(Refused.REMOVED, "it is removed: `undrain` brings it back")
    if command.weight is not None:
        usual = before.added or next(config for config in base if config.name == command.id)
        after = replace(after, weight=None if command.weight == usual.weight else command.weight)
    return _unless_last(before, after, base, changes)


def _decide_remove(
    command: RemoveNode, base: Sequence[NodeConfig], changes: Sequence[NodeChange]
) -> NodeChange | Forget | NodeRefused:
    if command.id in _with_changes(base, sorted(changes, key=lambda change: change.id)).unused:
        return Forget(command.id)
    before = change_of(command.id, base, changes)
    if before is None:
        return _unknown(command.id)
    after = replace(before, is_drained=True, is_removed=True)
    refused = _unless_last(before, after, base, changes)
    if isinstance(refused, NodeRefused):
        return refused
    if not before.is_drained:
        return NodeRefused(Refused.NOT_DRAINED, "calls may be under way there: `drain` it first, then remove it")
    return after if before.is_of_settings else Forget(command.id)


def _unless_last(
    before: NodeChange, after: NodeChange, base: Sequence[NodeConfig], changes: Sequence[NodeChange]
) -> NodeChange | Forget | NodeRefused:
    others = [change for change in changes if change.id != after.id]
    needs = needs_of(base)
    lacking = lack_of(_with_changes(base, sorted([*others, after], key=lambda change: change.id)).nodes, needs)
    had = lack_of(_with_changes(base, sorted([*others, before], key=lambda change: change.id)).nodes, needs)
    if lacking is not None and had is None:
        what = {Need.STREAMS: "with a WebSocket URL"}.get(lacking, f"that has the role {lacking}")
        text = f"it is the last node {what} and a weight above 0: add another, or `undrain` one, first"
        return NodeRefused(Refused.LAST_NODE, text)
    return Forget(after.id) if after.says_nothing else after


def change_of(node_id: str, base: Sequence[NodeConfig], changes: Sequence[NodeChange]) -> NodeChange | None:
    """Return the change of a node that is there, an empty one where it has none. None: there is no such node."""
    kept = next((change for change in changes if change.id == node_id), None)
    if any(config.name == node_id for config in base):
        return kept if kept is not None and kept.is_of_settings else NodeChange(id=node_id)
    return kept if kept is not None and kept.added is not None else None


def _unknown(node_id: str) -> NodeRefused:
    return NodeRefused(Refused.UNKNOWN, f"there is no node {node_id}: `list` names them")


def _place_of(config: NodeConfig) -> tuple[object, ...]:
    """Return the part of a URL that identifies a node."""
    parts = urlsplit(config.url.get_secret_value())
    port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
    return parts.scheme, parts.username, parts.password, parts.hostname, port, parts.path.rstrip("/"), parts.query
