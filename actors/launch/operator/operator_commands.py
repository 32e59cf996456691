"""Operator commands on the operators' page itself: its token; and the alerts that are on.

Implements: launch/README.md (commands); decisions, "The operators' page". Each command prints its result and the next
step. Not here: the rules of alerts (operators/).
"""

import asyncio
import secrets
from pathlib import Path
from typing import Annotated, Any

import typer

from actors.clock import SystemClock
from actors.config import ConfigError, environment_name
from actors.deposits.api import WATCHER_ACTOR_NAME
from actors.errors import Refusal
from actors.identity.operator_token import SETTING, new_token
from actors.launch.assembly.operating import WatchedTransfers
from actors.launch.local_run import owner_commands as operator
from actors.launch.local_run.run import Options, data_path, settings
from actors.launch.local_run.screen import DataDirOption, fail, print_document, say
from actors.launch.local_run.wallets import FILE, load_or_make
from actors.launch.operator.money_commands import with_instance
from actors.local_servers.datadir import DataDirError
from actors.operators.alerts import Alert, alerts_on
from actors.operators.cluster import alerts_body
from actors.operators.ports import ProductLook
from actors.operators.running import RunningProduct
from actors.telemetry.metrics_page import metrics_port

_COLOURS = {"critical": "red", "warning": "yellow", "info": "cyan"}


def add_operator(cli: typer.Typer) -> None:
    group = typer.Typer(help="The operators' page (GET /operator): its token.", no_args_is_help=True)
    cli.add_typer(group, name="operator")

    @group.command()
    def token(
        new: Annotated[bool, typer.Option("--new", help="Make one for the settings of a cluster.")] = False,
        data_dir: DataDirOption = None,
    ) -> None:
        """Print the token of a local run, or a new one for a cluster. It goes to nobody else, and into no URL."""
        if new:
            text = new_token(secrets.token_bytes(32))
            next_step = f"Next: set {environment_name(SETTING)} on every machine to it, and deploy; it is kept nowhere."
        else:
            text = _token_of(data_dir)
            next_step = "Next: paste it into the page GET /operator, or send it as the header X-Operator-Token."
        if not print_document({"token": text}):
            typer.echo(text)
            typer.echo(next_step, err=True)  # So that `$(... operator token)` is the token alone.

    @cli.command()
    def alerts(data_dir: DataDirOption = None) -> None:
        """Print what a person should look at now, each with what it means and what to do."""
        look, found = with_instance(data_dir, _alerts)
        if print_document(alerts_body(look, found)):
            return
        if look.figures is None:
            say("telemetry.metrics_port is 0: only what the actors themselves say is judged.")
        for alert in found:
            where = f" ({alert.process} on {alert.machine})" if alert.machine else ""
            say(f"[{_COLOURS[alert.severity]}]{alert.severity}[/] {alert.name}{where}")
            typer.echo(f"  {alert.summary}\n  {alert.means}\n  Do: {alert.remedy}")
        if not found:
            say(f"[green]no alert is on[/green]; {len(look.actors)} actors answer, {len(look.figures or ())} report")


def _token_of(data_dir: Path | None) -> str:
    """Return the token that a run on this data folder has. Prints why there is none, and exits."""
    try:
        config = settings(Options(data_dir, False, None, None, {})).config
        if config.operator.token is not None:
            fail(f"this run's token is the one of {environment_name(SETTING)}, which is set; it is printed nowhere")
        folder = data_path(config, data_dir) / "secrets"
        if not (folder / FILE).exists():
            fail(f"no product ran on {folder.parent}: start it with `python serve_app.py`, or name its --data-dir")
        return load_or_make(folder).operator_token
    except (ConfigError, DataDirError) as error:
        fail(str(error))


def _alerts(instance: operator.Instance) -> tuple[ProductLook, list[Alert]]:
    config = settings(Options(None, False, None, None, {})).config
    with operator.joined(instance):
        look, totals = asyncio.run(_looked(metrics_port(config) is not None))
    if isinstance(look, Refusal):
        raise operator.OperatorError(look.message)
    listed = None if isinstance(totals, Refusal) else int(totals["listed"])
    return look, alerts_on(look, listed, WATCHER_ACTOR_NAME in look.actors)


async def _looked(has_figures: bool) -> tuple[ProductLook | Refusal, Any]:
    return await RunningProduct(SystemClock(), has_figures).look(), await WatchedTransfers().totals()
