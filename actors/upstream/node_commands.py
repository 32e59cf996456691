"""Commands of an operator about the nodes, and their replies: values that pass through layers, and their JSON form.

Implements: style, "Layers that add nothing"; upstream/README.md, "Nodes that change while the service runs". Pure.
Not here: what may be changed (node_changes.py), who carries it out (node_operator.py).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum, unique
from typing import Any

from pydantic import SecretStr, ValidationError

from actors.provider_config import NodeConfig, shown_url

URL_CHARACTERS_MAX = 2_048


@dataclass(frozen=True, slots=True)
class ListNodes:
    """List the nodes and their state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddNode:
    """Add a node. is_unreachable_allowed: also one that does not answer now; it gets calls once it does."""

    id: str
    url: str = field(repr=False)
    ws_url: str | None = field(default=None, repr=False)
    weight: int = 1
    roles: tuple[str, ...] = ("read", "send")
    is_unreachable_allowed: bool = False

    def config(self) -> NodeConfig:
        """Raises ValidationError, whose text may contain the URL: `refusal_of` has one that does not."""
        ws_url = None if self.ws_url is None else SecretStr(self.ws_url)
        values = {"url": SecretStr(self.url), "ws_url": ws_url, "weight": self.weight, "roles": self.roles}
        return NodeConfig.model_validate({"name": self.id, **values})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeNode:
    """Change a node. None: leave it. drained False: calls again, also for a removed node of the settings.

    is_unreachable_allowed: drain it even where no other node answers now.
    """

    id: str
    weight: int | None = None
    drained: bool | None = None
    is_unreachable_allowed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveNode:
    """Close the connections to a drained node, and forget it; or forget a change that has no effect."""

    id: str


NodeCommand = ListNodes | AddNode | ChangeNode | RemoveNode


@unique
class Refused(Enum):
    """Reasons to refuse a command about nodes: a word for programs, and the status over HTTP."""

    INVALID = "invalid", 400
    UNKNOWN = "unknown_node", 404
    DUPLICATE = "duplicate", 409
    LAST_NODE = "last_node", 409
    NOT_DRAINED = "not_drained", 409
    REMOVED = "removed", 409
    OTHER_NETWORK = "other_network", 409
    NETWORK_UNKNOWN = "network_unknown", 409
    UNREACHABLE = "unreachable", 409
    TOO_MANY = "too_many", 409
    AWAY = "store_away", 503

    @property
    def word(self) -> str:
        return self.value[0]

    @property
    def http(self) -> int:
        return self.value[1]


@dataclass(frozen=True, slots=True)
class NodeRefused:
    """reason: a word for programs. detail: one sentence for people, with the remedy; it names no URL."""

    reason: Refused
    detail: str

    def as_json(self) -> dict[str, Any]:
        return {"reason": self.reason.word, "message": self.detail}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One node. URLs are redacted. origin: "settings" or "operator". state: the furthest from serving of all processes.

    settings_weight: None: the operator added it. share_percent: of the calls of the last seconds; None: there were
    none. share_wanted_percent: of the calls that any node may take, by weight. lag_slots: None: it told no slot.
    health: how many processes find it well, behind, failing.
    """

    id: str
    url: str
    ws_url: str | None
    origin: str
    roles: tuple[str, ...]
    weight: int
    settings_weight: int | None
    drained: bool
    removed: bool = False
    state: str = "unknown"
    health: Mapping[str, int] = field(default_factory=dict)
    slot: int | None = None
    lag_slots: int | None = None
    latency_ms: int | None = None
    in_flight: int = 0
    calls: int = 0
    share_percent: int | None = None
    share_wanted_percent: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRow:
    """One process that uses nodes. is_current: whether it has taken over the newest change. limits: what it cannot."""

    process: str
    version: int
    is_current: bool
    age_seconds: int
    limits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeList:
    """version: of the changes; each change makes the next one. unused: changes without effect, and why.

    notes: what an operator should know, one sentence each.
    """

    version: int
    nodes: tuple[NodeRow, ...]
    processes: tuple[ProcessRow, ...] = ()
    unused: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def is_taken_over(self) -> bool:
        return all(process.is_current for process in self.processes)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "taken_over": self.is_taken_over}


NodeReply = NodeList | NodeRefused


def refusal_of(command: NodeCommand) -> NodeRefused | None:
    """Check the form of a command. None: it has none of these faults. The text repeats no URL."""
    match command:
        case AddNode():
            if max(len(command.url), len(command.ws_url or "")) > URL_CHARACTERS_MAX:
                return NodeRefused(Refused.INVALID, f"url, ws_url: longer than {URL_CHARACTERS_MAX} characters")
            if not (command.url + (command.ws_url or "")).isascii():
                return NodeRefused(Refused.INVALID, "url, ws_url: wanted ASCII characters alone")
            try:
                command.config()
            except ValidationError as error:
                faults = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
                return NodeRefused(Refused.INVALID, "; ".join(faults).replace("name:", "id:"))
        case ChangeNode() if command.weight is None and command.drained is None:
            return NodeRefused(Refused.INVALID, "nothing to change: give a weight, or drained")
        case ChangeNode() if command.weight is not None and not 0 <= command.weight <= 1_000:
            return NodeRefused(Refused.INVALID, "weight: wanted 0 to 1000")
    return None


def row_of(config: NodeConfig, *, origin: str, settings_weight: int | None, drained: bool, removed: bool) -> NodeRow:
    """Return a row without figures."""
    return NodeRow(
        id=str(config.name),
        url=shown_url(config.url.get_secret_value()),
        ws_url=None if config.ws_url is None else shown_url(config.ws_url.get_secret_value()),
        origin=origin,
        roles=config.roles,
        weight=config.weight,
        settings_weight=settings_weight,
        drained=drained,
        removed=removed,
        state="removed" if removed else "unknown",
    )
