"""Carries out an operator's commands about the nodes: asks the node, decides under the store's lock, lists.

Implements: upstream/README.md, "Nodes that change while the service runs". A shell: node_changes.py decides. Any
process that has nodes may carry out any command; all of them take the change over from the store.
"""

import asyncio
from collections.abc import Sequence

import websockets
from websockets.asyncio.client import connect

from actors.config import UpstreamConfig
from actors.provider_config import NodeConfig
from actors.upstream.api import Nodes
from actors.upstream.client import NodeClient
from actors.upstream.node_changes import Need, WantedNodes, decide, lack_of, needs_of, wanted_nodes
from actors.upstream.node_commands import (
    AddNode,
    ChangeNode,
    ListNodes,
    NodeCommand,
    NodeList,
    NodeRefused,
    NodeReply,
    NodeRow,
    Refused,
    RemoveNode,
    refusal_of,
    row_of,
)
from actors.upstream.node_reports import NodeStage, process_rows, with_figures
from actors.upstream.store import KeptChanges, NodeChangesStore, NodeChangesUnavailable

_ASK_MS = 5_000
_SILENT_SECONDS = 15  # A process reports every two to eight seconds; after this silence it is not counted.
_AWAY = NodeRefused(Refused.AWAY, "the database does not answer: try again in some seconds")


class NodeOperator:
    """base: the nodes of the settings, each with its name."""

    def __init__(self, config: UpstreamConfig, nodes: Nodes, store: NodeChangesStore) -> None:
        self._config, self._nodes, self._store = config, nodes, store
        self._base: Sequence[NodeConfig] = config.named_nodes

    async def ask(self, command: NodeCommand) -> NodeReply:
        """Carry out a command. Returns all nodes after it, or why it was refused. Repeating it is harmless: the second
        `add` is a duplicate, the second `remove` an unknown node."""
        refused = refusal_of(command)
        if refused is not None:
            return refused
        try:
            if isinstance(command, ListNodes):
                return await self._list(await self._store.read())
            return await self._change(command)
        except NodeChangesUnavailable:
            return _AWAY

    async def _change(self, command: AddNode | ChangeNode | RemoveNode) -> NodeReply:
        network = ""
        kept = await self._store.read()
        early = decide(command, self._base, kept.changes, network)
        if isinstance(early, NodeRefused):  # A command that needs no node is refused before a node is asked.
            return early
        if isinstance(command, AddNode):
            found = await self._network_for(command, kept.network)
            if isinstance(found, NodeRefused):
                return found
            network = found
        elif _takes_calls_away(command) and not self._nodes.is_answering_beside(command.id):
            text = "no other node answers now: wait until one does, or allow that calls fail (--unreachable)"
            return NodeRefused(Refused.UNREACHABLE, text)
        decided, _ = await self._store.change(lambda now: decide(command, self._base, now.changes, network))
        if isinstance(decided, NodeRefused):
            return decided
        return await self._list(await self._store.read())

    async def _network_for(self, command: AddNode, kept: str) -> str | NodeRefused:
        """Return the genesis hash of this network, once the new node was compared with it."""
        network, told, streams = await asyncio.gather(
            self._nodes.network(), self._genesis_hash(command.url), _accepts_streams(command.ws_url)
        )
        network = network or kept
        if not network:
            text = "no node tells the genesis hash of this network: add the node when one of them answers"
            return NodeRefused(Refused.NETWORK_UNKNOWN, text)
        if told is not None and told != network:
            return NodeRefused(Refused.OTHER_NETWORK, f"its genesis hash is {told}, and that of this network {network}")
        if not command.is_unreachable_allowed and (told is None or not streams):
            what = "its URL does not tell a genesis hash" if told is None else "its WebSocket URL takes no connection"
            text = f"{what}: correct it, or allow a node that is away (--unreachable); it gets calls once it answers"
            return NodeRefused(Refused.UNREACHABLE, text)
        return network

    async def _genesis_hash(self, url: str) -> str | None:
        client = NodeClient(self._config, url)
        try:
            return await client.network(_ASK_MS)
        finally:
            await client.close()

    async def _list(self, kept: KeptChanges) -> NodeList:
        wanted = wanted_nodes(self._base, kept.changes)
        reports = await self._store.reports(_SILENT_SECONDS)
        rows = with_figures(self._rows(wanted), reports)
        return NodeList(
            version=kept.version,
            nodes=rows,
            processes=process_rows(reports, kept.version),
            unused=wanted.unused,
            notes=tuple(self._notes(wanted, rows)),
        )

    def _rows(self, wanted: WantedNodes) -> list[NodeRow]:
        weights = {config.name: config.weight for config in self._base}
        rows = [
            row_of(
                node.config,
                origin="settings" if node.is_of_settings else "operator",
                settings_weight=weights[node.id] if node.is_of_settings else None,
                drained=node.is_drained,
                removed=False,
            )
            for node in wanted.nodes
        ]
        for config in wanted.removed:
            rows.append(row_of(config, origin="settings", settings_weight=config.weight, drained=True, removed=True))
        return rows

    def _notes(self, wanted: WantedNodes, rows: Sequence[NodeRow]) -> list[str]:
        """Return notes on what may surprise an operator."""
        notes = []
        if wanted.lacking is not None:
            text = "the changes would leave no node for {}: drains, removals and weights of the settings' nodes are not"
            notes.append(f"{text.format(wanted.lacking)} used until they leave one")
        has_streams = lack_of(wanted.nodes, [Need.STREAMS]) is None
        if has_streams and Need.STREAMS not in needs_of(self._base):
            text = "no node of the settings has a WebSocket URL, so this deployment offers no WebSockets to clients"
            notes.append(f"{text}: that of an added node speeds up deposits and sends alone")
        for row in rows:
            if row.state == NodeStage.OTHER_NETWORK:
                notes.append(f"{row.id} is of another network, and gets no calls: drain and remove it")
            elif row.state == NodeStage.WAITING:
                notes.append(f"{row.id} is drained, but keeps its calls until another node can take them")
        return notes


def _takes_calls_away(command: NodeCommand) -> bool:
    """Return whether calls would have to move to other nodes, and the operator does not accept that they fail."""
    return (
        isinstance(command, ChangeNode)
        and (command.drained is True or command.weight == 0)
        and not command.is_unreachable_allowed
    )


async def _accepts_streams(ws_url: str | None) -> bool:
    """Return whether a WebSocket URL takes a connection; also True if there is none."""
    if ws_url is None:
        return True
    try:
        async with connect(ws_url, open_timeout=_ASK_MS / 1000, close_timeout=1):
            return True
    except (OSError, TimeoutError, websockets.WebSocketException, ValueError):
        return False
