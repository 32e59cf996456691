"""Operator commands on the cluster: how many actors of a kind there are, where they run, and what they hold.

Implements: launch/README.md (commands); design, "Owners, for every kind of actor". Each command prints its result and
the next step. Not here: how work moves from actor to actor; the first actor of each kind directs that.
"""

import asyncio
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any

import typer

from actors.accounts.api import OWNERS_MAX, owner_name
from actors.clock import SystemClock
from actors.launch.local_run import owner_commands as operator
from actors.launch.local_run.screen import DataDirOption, fail, print_document, say
from actors.launch.operator.money_commands import with_instance
from actors.launch.operator.tables import print_table
from actors.sends.slices import RACERS_MAX, racer_names
from actors.signals.api import ACTOR_PREFIX
from actors.signals.positions import PARTS_MAX
from actors.webhooks.slices import DISPATCHER_ACTOR_NAME, DISPATCHERS_MAX

_WAIT_SECONDS = 180.0
_LOOK_SECONDS = 1.0
_ANSWER_SECONDS = 10.0


class ScaledKind(StrEnum):
    """The kinds of actors whose number an operator chooses."""

    OWNERS = "owners"
    RACERS = "racers"
    CLASSIFIERS = "classifiers"
    DISPATCHERS = "dispatchers"


# The first actor of each kind, which directs the others, and the most that there may be.
_DIRECTORS: Mapping[ScaledKind, tuple[str, int]] = MappingProxyType(
    {
        ScaledKind.OWNERS: (owner_name(0), OWNERS_MAX),
        ScaledKind.RACERS: (racer_names(1)[0], RACERS_MAX),
        ScaledKind.CLASSIFIERS: (f"{ACTOR_PREFIX}0", PARTS_MAX),
        ScaledKind.DISPATCHERS: (DISPATCHER_ACTOR_NAME, DISPATCHERS_MAX),
    }
)
_Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the work is spread over so many.")]


def add_cluster(cli: typer.Typer) -> None:
    cluster = typer.Typer(help="The actors of the running instance: their number, their state.", no_args_is_help=True)
    cli.add_typer(cluster, name="cluster")

    @cluster.command()
    def scale(
        kind: Annotated[ScaledKind, typer.Argument(help="Whose number.")],
        count: Annotated[int, typer.Argument(min=1, help="How many there shall be.")],
        wait: _Wait = True,
        data_dir: DataDirOption = None,
    ) -> None:
        """Change the number of actors of a kind while the product runs. It lasts until the setting is changed."""
        director, most = _DIRECTORS[kind]
        if count > most:
            fail(f"at most {most} {kind}: choose fewer")
        spread = with_instance(data_dir, lambda instance: _scaled(instance, director, count, wait))
        is_replaced = spread.get("wanted", count) != count
        is_done = not is_replaced and (not wait or spread["is_even"])
        rows = {"kind": kind.value, **spread}
        if print_document(rows):
            raise typer.Exit(0 if is_done else 1)
        if is_replaced:
            fail(f"another command, or a deployment, has set {spread['wanted']} {kind} meanwhile; the last one counts")
        say(f"{count} {kind}: " + ", ".join(f"{name} has {held}" for name, held in spread["slices"].items()))
        if not wait:
            say("Next: `cluster status` shows how far it is.")
        elif is_done:
            say("Next: `cluster status` shows the actors; another setting of their number ends this command.")
        if not is_done:
            fail(f"the work is not spread over {count} yet: see the logs of {director}; it goes on by itself")

    @cluster.command()
    def status(data_dir: DataDirOption = None) -> None:
        """Show each actor: where it runs, its epoch, what it holds, and how it is."""
        states = with_instance(data_dir, lambda instance: operator.ask_all(instance, _ANSWER_SECONDS))
        if print_document({"actors": states}):
            return
        print_table(
            ("actor", "machine", "process", "epoch", "holds", "state"),
            [(name, *_cells(state)) for name, state in states.items()],
        )
        away = [name for name, state in states.items() if not state]
        say(
            f"Next: {', '.join(away)}: no answer; Ray restarts lost actors within seconds, else see their logs."
            if away
            else "Next: `cluster scale` changes a number; `--json` shows everything that each actor tells."
        )


def _scaled(instance: operator.Instance, director: str, count: int, wait: bool) -> dict[str, Any]:
    """Tell the director, and wait for the outcome."""
    with operator.joined(instance):
        clock, told = SystemClock(), ""
        deadline = clock.monotonic() + _WAIT_SECONDS
        operator.ask_actor_here(director, "scale", count)
        while True:
            spread = _spread(director, until=deadline - clock.monotonic())
            text = ", ".join(f"{name}: {held}" for name, held in spread["slices"].items())
            if wait and text != told:
                say(text)
                told = text
            if not wait or spread["is_even"] or spread.get("wanted", count) != count or clock.monotonic() > deadline:
                return spread
            asyncio.run(asyncio.sleep(_LOOK_SECONDS))


def _spread(director: str, until: float) -> dict[str, Any]:
    """Ask how far it is, for so many seconds: the number is kept, though the director may end meanwhile."""
    clock = SystemClock()
    deadline = clock.monotonic() + until
    while True:
        try:
            spread: dict[str, Any] = operator.ask_actor_here(director, "spread")
            return spread
        except operator.OperatorError:
            if clock.monotonic() > deadline:
                raise
        asyncio.run(asyncio.sleep(_LOOK_SECONDS))


def _cells(state: Mapping[str, Any]) -> tuple[Any, ...]:
    if not state:
        return "", "", "", "", "no answer"
    held = ("shards", "slices", "accounts", "holds")
    holds = ", ".join(f"{state[name]} {name[: -1 if state[name] == 1 else None]}" for name in held if name in state)
    return state.get("machine"), state.get("process"), state.get("epoch"), holds, _condition(state)


def _condition(state: Mapping[str, Any]) -> str:
    if state.get("fenced"):
        return "has a newer owner"
    if state.get("committing") is False:
        return "does not commit"
    return "ok"
