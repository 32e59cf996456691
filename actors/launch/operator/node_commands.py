"""Operator commands on the nodes of the running product: list, add, drain, undrain, weight, remove.

Implements: launch/README.md (commands). A racer carries them out; every process takes the change over by itself. Not
here: what may be changed (upstream/node_changes.py).
"""

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from actors.clock import SystemClock
from actors.launch.local_run import owner_commands as operator
from actors.launch.local_run.screen import DataDirOption, fail, print_document, say
from actors.launch.operator.money_commands import with_instance
from actors.launch.operator.tables import print_table
from actors.sends.slices import racer_names
from actors.upstream.node_commands import (
    AddNode,
    ChangeNode,
    ListNodes,
    NodeCommand,
    NodeList,
    NodeRefused,
    NodeRow,
    RemoveNode,
)

_WAIT_SECONDS = 20.0
_LOOK_SECONDS = 0.5
_AFTER_CHANGE = "Next: `nodes list` shows its share of the calls of the last ten seconds."
_AFTER_DRAIN = "Next: `nodes remove` closes its connections; `nodes undrain` takes it back."
_Id = Annotated[str, typer.Argument(metavar="ID", help="Of a node, as `list` shows it.")]
_Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until every process has taken it over.")]
_Unreachable = Annotated[bool, typer.Option("--unreachable", help="Also where no other node answers now.")]


def add_nodes(cli: typer.Typer) -> None:
    nodes = typer.Typer(help="The nodes that calls go to, changed while the product runs.", no_args_is_help=True)
    cli.add_typer(nodes, name="nodes")
    _add_list(nodes)
    _add_add(nodes)

    @nodes.command()
    def drain(node: _Id, unreachable: _Unreachable = False, wait: _Wait = True, data_dir: DataDirOption = None) -> None:
        """Send a node no new calls; those under way end there."""
        command = ChangeNode(id=node, drained=True, is_unreachable_allowed=unreachable)
        _carry_out(data_dir, command, wait, _AFTER_DRAIN)

    @nodes.command()
    def undrain(node: _Id, wait: _Wait = True, data_dir: DataDirOption = None) -> None:
        """Send a drained node calls again, or take a removed one of the settings back."""
        _carry_out(data_dir, ChangeNode(id=node, drained=False), wait, _AFTER_CHANGE)

    @nodes.command()
    def weight(
        node: _Id,
        weight: Annotated[int, typer.Argument(min=0, max=1_000, help="Share; 0: when no other node can answer.")],
        unreachable: _Unreachable = False,
        wait: _Wait = True,
        data_dir: DataDirOption = None,
    ) -> None:
        """Change a node's share of the calls."""
        command = ChangeNode(id=node, weight=weight, is_unreachable_allowed=unreachable)
        _carry_out(data_dir, command, wait, _AFTER_CHANGE)

    @nodes.command()
    def remove(node: _Id, wait: _Wait = True, data_dir: DataDirOption = None) -> None:
        """Close the connections to a drained node, and forget it; or forget a change without effect."""
        _carry_out(data_dir, RemoveNode(id=node), wait, "Next: `nodes undrain` takes back one of the settings.")


def _add_list(nodes: typer.Typer) -> None:
    @nodes.command("list")
    def list_command(data_dir: DataDirOption = None) -> None:
        """Show each node: health, weight, share of the calls, lag, calls in flight."""
        found = _ask_once(data_dir, ListNodes())
        if not print_document(found.as_json()):
            _print(found)
            say("Next: `nodes add`, `drain`, `undrain`, `weight`, `remove`; `--json` shows every process, too.")


def _add_add(nodes: typer.Typer) -> None:
    @nodes.command()
    def add(
        node: Annotated[str, typer.Argument(metavar="ID", help="A name of your own for it: a-z, 0-9, hyphens.")],
        url: Annotated[
            str,
            typer.Argument(help="JSON-RPC URL; `-`: from standard input, and a second line is the WebSocket URL."),
        ],
        ws_url: Annotated[str | None, typer.Option("--ws-url", help="Its WebSocket URL.")] = None,
        weight: Annotated[int, typer.Option(min=0, max=1_000, help="Share of the calls.")] = 1,
        role: Annotated[
            list[str] | None, typer.Option("--role", help="read, send, archive; may be repeated. Default: read, send.")
        ] = None,
        unreachable: Annotated[bool, typer.Option("--unreachable", help="Also where it does not answer now.")] = False,
        wait: _Wait = True,
        data_dir: DataDirOption = None,
    ) -> None:
        """Add a node. It gets calls after its first good probes, if it is of this network."""
        if url == "-":  # Other users of the machine see command lines, and the URL may contain a key.
            lines = [line.strip() for line in sys.stdin.read(8_192).splitlines() if line.strip()]
            if not 1 <= len(lines) <= 2:
                fail("wanted one line with the URL, or two with the WebSocket URL below")
            url, ws_url = lines[0], (lines[1] if len(lines) > 1 else ws_url)
        command = AddNode(
            id=node,
            url=url,
            ws_url=ws_url,
            weight=weight,
            roles=tuple(role or ("read", "send")),
            is_unreachable_allowed=unreachable,
        )
        _carry_out(data_dir, command, wait, _AFTER_CHANGE)


def _carry_out(data_dir: Path | None, command: NodeCommand, wait: bool, then: str) -> None:
    """Carry out a change, and wait until every process has it, or tell which has not."""

    def ask(instance: operator.Instance) -> NodeList:
        with operator.joined(instance):
            found = _ask_here(command)
            return _awaited(found, getattr(command, "id", "")) if wait else found

    found = with_instance(data_dir, ask)
    if print_document(found.as_json()):
        return
    _print(found)
    late = [process.process for process in found.processes if not process.is_current]
    if late:
        say(f"Not taken over yet by: {', '.join(late)}. They look every two seconds; `nodes list` shows it.")
    elif found.processes:
        say(f"Taken over by {len(found.processes)} processes.")
    say(then)


def _awaited(found: NodeList, node_id: str) -> NodeList:
    """Wait until every process has the version, and the node is where it was sent, or for _WAIT_SECONDS."""
    clock = SystemClock()
    version, deadline = found.version, clock.monotonic() + _WAIT_SECONDS
    while clock.monotonic() < deadline:
        row = next((row for row in found.nodes if row.id == node_id), None)
        is_moving = row is not None and row.state in ("unknown", "joining", "draining", "waiting", "ending")
        if found.processes and not is_moving and all(process.version >= version for process in found.processes):
            break
        asyncio.run(asyncio.sleep(_LOOK_SECONDS))
        found = _ask_here(ListNodes())
    return found


def _ask_once(data_dir: Path | None, command: NodeCommand) -> NodeList:
    def ask(instance: operator.Instance) -> NodeList:
        with operator.joined(instance):
            return _ask_here(command)

    return with_instance(data_dir, ask)


def _ask_here(command: NodeCommand) -> NodeList:
    reply = operator.ask_actor_here(racer_names(1)[0], "ask_nodes", command)
    if isinstance(reply, NodeRefused):
        raise operator.OperatorError(f"{reply.reason.word}: {reply.detail}")
    assert isinstance(reply, NodeList)
    return reply


def _print(found: NodeList) -> None:
    heads = ("node", "url", "from", "state", "health", "weight", "share", "slot", "lag", "in flight")
    print_table(heads, [_cells(row) for row in found.nodes])
    for node_id, reason in found.unused.items():
        say(f"A change of {node_id} has no effect: {reason}. `nodes remove {node_id}` forgets it.")
    for note in found.notes:
        say(f"Note: {note}.")
    for limit in sorted({limit for process in found.processes for limit in process.limits}):
        say(f"Not changed while the product runs: {limit}.")


def _cells(row: NodeRow) -> tuple[Any, ...]:
    health = ", ".join(f"{count} {word}" for word, count in row.health.items() if count)
    share = "" if row.share_percent is None else f"{row.share_percent} % of {row.share_wanted_percent} %"
    weight = f"{row.weight}"
    if row.settings_weight is not None and row.settings_weight != row.weight:
        weight = f"{row.weight} (settings: {row.settings_weight})"
    return row.id, row.url, row.origin, row.state, health, weight, share, row.slot, row.lag_slots, row.in_flight
