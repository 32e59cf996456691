"""The command line of serve_app.py: run, config, migrate, audit; accounts are in operator/account_commands.py, deposits
and referrals in operator/money_commands.py, sponsor in operator/sponsor_commands.py, restored copies in
operator/backup_commands.py.

Implements: launch/README.md (commands). Each command prints its result and the next step.
Not here: the work of the commands (run.py, accounts/audit.py).
"""

import inspect
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import SecretStr

from actors.accounts import audit
from actors.config import ConfigError, environment_name
from actors.config_loader import Loaded
from actors.launch.local_run import start_checks, supervisor_process
from actors.launch.local_run.run import Options, Parts, data_path, run, settings
from actors.launch.local_run.screen import (
    ConfigFileOption,
    DataDirOption,
    fail,
    print_document,
    print_for_programs,
    say,
)
from actors.launch.operator.account_commands import add_account_shortcuts, add_accounts
from actors.launch.operator.backup_commands import add_backup
from actors.launch.operator.cluster_commands import add_cluster
from actors.launch.operator.ledger_key_commands import add_ledger_keys
from actors.launch.operator.memo_commands import add_memos
from actors.launch.operator.money_commands import add_deposits, add_referrals
from actors.launch.operator.month_commands import add_months
from actors.launch.operator.node_commands import add_nodes
from actors.launch.operator.operator_commands import add_operator
from actors.launch.operator.sponsor_commands import add_sponsor
from actors.launch.operator.tables import is_for_a_terminal, print_table
from actors.provider_config import BlockEngineConfig, NodeConfig, shown_url
from actors.storage.connections import StoreUnreachable
from actors.storage.schema_plan import MigrationStep, SchemaMismatch
from actors.webhooks import audit as webhooks_audit

_OWN_JSON = frozenset(("run", "audit"))  # `run` has --ready-file; `audit` prints its report by itself.


def make_cli(parts: Parts) -> typer.Typer:
    """Build the command line. parts: the product, assembled by serve_app.py."""
    cli = typer.Typer(
        help="Ledger Gateway: a prepaid, credit-metered gateway in front of a Solana node. "
        "Without a command it starts the whole product on this machine.",
        add_completion=False,
        pretty_exceptions_enable=False,
    )

    def run_command(
        data_dir: DataDirOption = None,
        config: ConfigFileOption = None,
        fresh: Annotated[
            bool, typer.Option("--fresh", help="Delete accounts, ledger and chain first; keys stay.")
        ] = False,
        ready_file: Annotated[
            Path | None, typer.Option("--ready-file", help="Write URLs, keys and process ids here as JSON once ready.")
        ] = None,
        http_port: Annotated[int | None, typer.Option("--http-port", min=1, max=65535, help="Port of HTTP.")] = None,
        tls: Annotated[
            bool, typer.Option("--tls", help="Also serve HTTPS, WSS and gRPC over TLS, on port 8443.")
        ] = False,
    ) -> None:
        """Start the whole product; Ctrl-C stops it."""
        overrides = {} if http_port is None else {"LEDGER_SERVE__HTTP_PORT": str(http_port)}
        if tls:
            overrides["LEDGER_SERVE__TLS"] = "true"
        supervisor_process.supervised(lambda: run(Options(data_dir, fresh, config, ready_file, overrides), parts))

    def start(context: typer.Context, **options: Any) -> None:
        if context.invoked_subcommand is None:
            run_command(**options)
        else:
            _refuse_misplaced(context, context.invoked_subcommand)

    # Both without a command, and as `run`: the same options.
    own = inspect.signature(run_command)
    told = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    start.__signature__ = own.replace(parameters=[told, *own.parameters.values()])  # type: ignore[attr-defined]
    start.__annotations__ = {"context": typer.Context, **run_command.__annotations__}
    cli.callback(invoke_without_command=True)(start)
    cli.command("run")(run_command)
    _add_config(cli)
    _add_migrate(cli, parts)
    add_backup(cli)
    add_accounts(cli)
    add_cluster(cli)
    add_deposits(cli)
    add_referrals(cli)
    add_ledger_keys(cli)
    add_memos(cli)
    add_months(cli)
    add_nodes(cli)
    add_sponsor(cli)
    add_operator(cli)
    cli.command("audit")(audit.command(webhooks_audit.audit))
    add_account_shortcuts(cli)
    _add_json(cli)
    return cli


def _refuse_misplaced(context: typer.Context, command: str) -> None:
    """Refuse options that stand before a command: they are those of a start, and would change nothing."""
    misplaced = [
        one.opts[0]
        for one in context.command.params
        if (source := context.get_parameter_source(one.name or "")) is not None and source.name == "COMMANDLINE"
    ]
    if misplaced:
        raise typer.BadParameter(
            f"it stands before the command, and would change nothing there; options of `{command}` come after it, "
            f"and `{command} --help` lists them",
            param_hint=", ".join(misplaced),
        )


def _add_json(cli: typer.Typer) -> None:
    """Give every command the option --json, but those that have their own form of it."""
    for info in cli.registered_commands:
        assert info.callback is not None
        if info.name not in _OWN_JSON:
            info.callback = _with_json(info.callback)
    for group in cli.registered_groups:
        assert group.typer_instance is not None
        _add_json(group.typer_instance)


def _with_json(work: Callable[..., None]) -> Callable[..., None]:
    def run_for(as_json: bool, **options: Any) -> None:
        print_for_programs(as_json)
        work(**options)

    own, option = inspect.signature(work), typer.Option("--json", help="One JSON document, for programs.")
    told = inspect.Parameter(
        "as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, option]
    )
    run_for.__signature__ = own.replace(parameters=[*own.parameters.values(), told])  # type: ignore[attr-defined]
    run_for.__annotations__ = {**work.__annotations__, "as_json": told.annotation}
    run_for.__name__, run_for.__doc__ = work.__name__, work.__doc__
    return run_for


def _add_config(cli: typer.Typer) -> None:
    @cli.command("config")
    def config_command(
        show: Annotated[bool, typer.Option("--show", help="Print every setting, its value and its origin.")] = False,
        config: ConfigFileOption = None,
    ) -> None:
        """Check the settings; with --show print them, secrets masked."""
        try:
            loaded = settings(Options(None, False, config, None, {}))
            start_checks.require_startable(loaded.config, data_path(loaded.config, None) / "secrets")
        except ConfigError as error:
            fail(str(error))
        if print_document(_settings_of(loaded) if show else {"valid": True}):
            return
        if show:
            _print_settings(_settings_of(loaded))
        say("The settings are valid. Next: `python serve_app.py` starts with them.")


def _settings_of(loaded: Loaded) -> list[dict[str, Any]]:
    return [
        {
            "setting": (name := f"{branch_name}.{field}"),
            "environment": environment_name(name),
            "value": _shown(field, getattr(branch, field)),
            "from": loaded.sources.get(name, "default"),
            "meaning": info.description,
        }
        for branch_name, branch in loaded.config
        for field, info in type(branch).model_fields.items()
    ]


def _print_settings(rows: list[dict[str, Any]]) -> None:
    """Print a line for each setting; a terminal has no room for the variable's name beside it, so it is below."""
    if is_for_a_terminal():
        rows = [{**row, "setting": f"{row['setting']}\n{row.pop('environment')}"} for row in rows]
    print_table(list(rows[0]), [list(row.values()) for row in rows])


def _add_migrate(cli: typer.Typer, parts: Parts) -> None:
    @cli.command()
    def migrate(
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Make the changes in a transaction that is rolled back.")
        ] = False,
        config: ConfigFileOption = None,
    ) -> None:
        """Create or update the tables of your own PostgreSQL, with LEDGER_STORAGE__POSTGRES_MIGRATIONS_URL."""
        try:
            loaded = settings(Options(None, False, config, None, {})).config
            if loaded.storage.postgres_url is None:
                fail("set DATABASE_URL to your PostgreSQL; every start updates the embedded one")
            steps = parts.planned_steps(loaded)
            _print_plan(steps)
            if dry_run:
                tried = parts.try_out(loaded)
            else:
                parts.migrate(loaded)
        except (ConfigError, StoreUnreachable, SchemaMismatch) as error:
            fail(str(error))
        plan = [{"context": step.context, "change": step.name, "what": step.what} for step in steps]
        if print_document({"migrated": not dry_run, "plan": plan}):
            return
        if dry_run:
            left_out = len(steps) - len(tried)
            say(f"Tried out, and rolled back: {len(tried)} changes" + (f"; {left_out} not tried." if left_out else "."))
        else:
            say("The tables are those of this version. Next: a start of this version needs only DATABASE_URL.")


def _print_plan(steps: Sequence[MigrationStep]) -> None:
    """Print what will change, before it does; functions and rights are applied anew in any case."""
    if not steps:
        say("The database has all tables and functions of this version.")
    for step in steps:
        say(f"  {step.context:12} {step.name:28} {step.what}")


def _shown(field: str, value: Any) -> str:
    """Return a setting as text: no secret, and of a URL only the host, because the rest of it may be a key."""
    if isinstance(value, SecretStr):
        return "(set, hidden)"
    if isinstance(value, tuple) and any(isinstance(item, BlockEngineConfig) for item in value):
        return "\n".join(map(_shown_engine, value))
    if isinstance(value, tuple) and any(isinstance(item, NodeConfig) for item in value):
        return "\n".join(_shown_node(node, number) for number, node in enumerate(value, 1))
    if isinstance(value, dict):
        return json.dumps({name: one.model_dump() for name, one in value.items()})
    if isinstance(value, str) and field.endswith("url"):
        return shown_url(value)
    return "" if value is None else str(value)


def _shown_engine(engine: BlockEngineConfig) -> str:
    auth = "" if engine.auth is None else ", auth (set, hidden)"
    return f"{shown_url(engine.url.get_secret_value())}, {engine.requests_per_second:g} requests/s{auth}"


def _shown_node(node: NodeConfig, number: int) -> str:
    url = shown_url(node.url.get_secret_value())
    return f"{node.name or f'node-{number}'}: {url}, weight {node.weight}, {' '.join(node.roles)}"
