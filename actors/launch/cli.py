"""The command line of serve_app.py: run, config, migrate, accounts; deposits and referrals are in money_commands.py,
sponsor in sponsor_commands.py.

Implements: launch/README.md (commands). Each command prints its result and the next step.
Not here: the work of the commands (run.py, operator.py).
"""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import SecretStr
from rich.console import Console
from rich.table import Table

from actors.accounts import audit
from actors.accounts.api import AccountState, AdjustCredits, Adjustment, Describe, SetLimits, SetStatus
from actors.config import ConfigError, NodeConfig, shown_url
from actors.config_loader import Loaded
from actors.launch import operator, start_checks, supervisor_process
from actors.launch.money_commands import add_deposits, add_referrals, ask_owner
from actors.launch.run import Options, Parts, run, settings
from actors.launch.screen import (
    ConfigFileOption,
    DataDirOption,
    fail,
    print_document,
    print_for_programs,
    print_rows,
    say,
)
from actors.launch.sponsor_commands import add_sponsor
from actors.storage.connections import StoreUnreachable
from actors.storage.schema import SchemaMismatch
from actors.units import base58_text

_OWN_JSON = frozenset(("run", "audit"))  # `run` has --ready-file; `audit` prints its report by itself.
_Pubkey = Annotated[str, typer.Argument(help="Base58 public key of the account.")]
_Credits = Annotated[int, typer.Argument(min=1, help="Whole credits.")]
_Reason = Annotated[str, typer.Option("--reason", help="Kept in the ledger; the customer sees it.")]


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
    _add_accounts(cli)
    add_deposits(cli)
    add_referrals(cli)
    add_sponsor(cli)
    _add_shortcuts(cli)
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
            start_checks.require_startable(loaded.config)
        except ConfigError as error:
            fail(str(error))
        if print_document(_settings_of(loaded) if show else {"valid": True}):
            return
        if show:
            table = Table("setting", "value", "from", "meaning")
            for branch_name, branch in loaded.config:
                for field, info in type(branch).model_fields.items():
                    name = f"{branch_name}.{field}"
                    table.add_row(
                        name,
                        _shown(field, getattr(branch, field)),
                        loaded.sources.get(name, "default"),
                        info.description,
                    )
            Console(highlight=False, markup=False).print(table)
        say("The settings are valid. Next: `python serve_app.py` starts with them.")


def _settings_of(loaded: Loaded) -> list[dict[str, Any]]:
    return [
        {
            "setting": (name := f"{branch_name}.{field}"),
            "value": _shown(field, getattr(branch, field)),
            "from": loaded.sources.get(name, "default"),
        }
        for branch_name, branch in loaded.config
        for field in type(branch).model_fields
    ]


def _add_migrate(cli: typer.Typer, parts: Parts) -> None:
    @cli.command()
    def migrate(config: ConfigFileOption = None) -> None:
        """Create or update the tables of your own PostgreSQL, with LEDGER_STORAGE__POSTGRES_MIGRATIONS_URL."""
        try:
            loaded = settings(Options(None, False, config, None, {})).config
            if loaded.storage.postgres_url is None:
                fail("set DATABASE_URL to your PostgreSQL; every start updates the embedded one")
            parts.migrate(loaded)
        except (ConfigError, StoreUnreachable, SchemaMismatch) as error:
            fail(str(error))
        print_document({"migrated": True})
        say("The tables are those of this version. Next: a start of this version needs only DATABASE_URL.")


def _shown(field: str, value: Any) -> str:
    """Return a setting as text: no secret, and of a URL only the host, because the rest of it may be a key."""
    if isinstance(value, SecretStr):
        return "(set, hidden)"
    if isinstance(value, tuple) and any(isinstance(item, NodeConfig) for item in value):
        return "\n".join(_shown_node(node, number) for number, node in enumerate(value, 1))
    if isinstance(value, str) and field.endswith("url"):
        return shown_url(value)
    return "" if value is None else str(value)


def _shown_node(node: NodeConfig, number: int) -> str:
    url = shown_url(node.url.get_secret_value())
    return f"{node.name or f'node-{number}'}: {url}, weight {node.weight}, {' '.join(node.roles)}"


def _add_accounts(cli: typer.Typer) -> None:
    accounts = typer.Typer(help="Operator commands on accounts of the running instance.", no_args_is_help=True)
    cli.add_typer(accounts, name="accounts")

    @accounts.command()
    def grant(pubkey: _Pubkey, credits: _Credits, reason: _Reason, data_dir: DataDirOption = None) -> None:
        """Add credits to an account (a ledger entry of type adjustment)."""
        done = ask_owner(data_dir, lambda: _adjustment(pubkey, credits, reason))
        _done(done, f"granted {credits:,} credits")

    @accounts.command()
    def remove(pubkey: _Pubkey, credits: _Credits, reason: _Reason, data_dir: DataDirOption = None) -> None:
        """Remove credits from an account, at most those that are available."""
        done = ask_owner(data_dir, lambda: _adjustment(pubkey, -credits, reason))
        _done(done, f"removed {credits:,} credits")

    @accounts.command()
    def suspend(pubkey: _Pubkey, reason: _Reason, data_dir: DataDirOption = None) -> None:
        """Refuse every paid call of an account; GET /account/* still works."""
        done = ask_owner(data_dir, lambda: SetStatus(operator.account_of(pubkey), "suspended", reason))
        _done(done, "suspended")

    @accounts.command()
    def resume(pubkey: _Pubkey, reason: _Reason, data_dir: DataDirOption = None) -> None:
        """Accept paid calls of a suspended account again."""
        _done(ask_owner(data_dir, lambda: SetStatus(operator.account_of(pubkey), "active", reason)), "resumed")

    @accounts.command()
    def limits(
        pubkey: _Pubkey,
        requests_per_second: Annotated[int | None, typer.Option(min=1, help="Left out: the default.")] = None,
        concurrency: Annotated[int | None, typer.Option(min=1, help="Left out: the default.")] = None,
        data_dir: DataDirOption = None,
    ) -> None:
        """Set the limits of one account, or return it to the default limits."""
        done = ask_owner(data_dir, lambda: SetLimits(operator.account_of(pubkey), requests_per_second, concurrency))
        _done(done, "limits set")

    @accounts.command()
    def show(pubkey: _Pubkey, data_dir: DataDirOption = None) -> None:
        """Print balance, status and limits of an account."""
        _done(ask_owner(data_dir, lambda: Describe(operator.account_of(pubkey))), "found")


def _add_shortcuts(cli: typer.Typer) -> None:
    cli.command("audit")(audit.main)

    @cli.command(context_settings={"ignore_unknown_options": True})  # A negative number is no option.
    def adjust(
        pubkey: _Pubkey,
        credits: Annotated[int, typer.Argument(help="Whole credits; below zero they are removed.")],
        reason: _Reason,
        data_dir: DataDirOption = None,
    ) -> None:
        """Add or remove credits, as `accounts grant` and `accounts remove` do."""
        if credits == 0:
            raise typer.BadParameter("wanted a number above or below zero", param_hint="CREDITS")
        done = ask_owner(data_dir, lambda: _adjustment(pubkey, credits, reason))
        _done(done, f"{'granted' if credits > 0 else 'removed'} {abs(credits):,} credits")

    @cli.command()
    def suspend(pubkey: _Pubkey, reason: _Reason, data_dir: DataDirOption = None) -> None:
        """Refuse every paid call of an account, as `accounts suspend` does."""
        _done(ask_owner(data_dir, lambda: SetStatus(operator.account_of(pubkey), "suspended", reason)), "suspended")


def _adjustment(pubkey: str, amount: int, reason: str) -> AdjustCredits:
    return AdjustCredits(operator.account_of(pubkey), amount, reason, operator.new_operation())


def _done(value: Adjustment | AccountState, what: str) -> None:
    say(f"[green]{what}[/green]")
    if print_document({name: _plain(getattr(value, name)) for name in value.__struct_fields__}):
        return
    print_rows({name: _field_text(getattr(value, name)) for name in value.__struct_fields__})
    say("Next: the customer sees it under GET /account/ledger; `python -m actors.accounts.audit` proves it.")


def _plain(field: Any) -> Any:
    """Return a field for programs: keys as base58, numbers as they are."""
    if isinstance(field, bytes):
        return base58_text(field)
    return [_field_text((batch,)) for batch in field] if isinstance(field, tuple) else field


def _field_text(field: Any) -> str:
    if isinstance(field, bytes):
        return base58_text(field)
    if isinstance(field, tuple):
        return "; ".join(f"{batch.remaining:,} of {batch.credits:,} credits, {batch.source}" for batch in field)
    if isinstance(field, int) and not isinstance(field, bool):
        return f"{field:,}"
    return f"{field.credits:,} credits" if hasattr(field, "credits") else str(field)
