"""Operator commands on deposits and referral codes.

Implements: launch/README.md (commands). Each command prints its result and the next step.
Not here: the work of the commands; the deposit watcher and an account owner do it, through ordinary actor calls.
"""

import asyncio
import os
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any

import typer

from actors import hosting
from actors.accounts.api import Command, CreateReferral, ExpireReferral, ListReferrals, ReferralState, Value
from actors.accounts.referrals import BPS_MAX
from actors.clock import SystemClock
from actors.config import ConfigError
from actors.deposits.api import (
    STANDBY_ACTOR_NAME,
    WATCHER_ACTOR_NAME,
    AssignTransfer,
    CountTransfers,
    ExplainTransaction,
    ListTransfers,
    WatcherCommand,
    ask_watcher,
)
from actors.launch.local_run import owner_commands as operator
from actors.launch.local_run.cluster import token_environment
from actors.launch.local_run.ray_helpers import use
from actors.launch.local_run.run import Options, data_path, settings
from actors.launch.local_run.screen import DataDirOption, fail, print_document, say
from actors.launch.local_run.wallets import load_or_make
from actors.launch.operator.tables import print_rows, print_table, utc_text
from actors.local_servers.datadir import DataDirError

_DAY_SECONDS = 86_400
_WATCHER_SECONDS = 30.0  # A node may be slow to look up a transaction.
_Signature = Annotated[str, typer.Argument(help="Base58 signature of the transaction.")]
_Code = Annotated[str, typer.Argument(help="The referral code.")]


def add_deposits(cli: typer.Typer) -> None:
    deposits = typer.Typer(help="Transfers to the deposit account, and their outcomes.", no_args_is_help=True)
    cli.add_typer(deposits, name="deposits")

    @deposits.command("list")
    def listing(
        status: Annotated[str, typer.Option(help="listed, credited, assigned, ignored or all.")] = "listed",
        limit: Annotated[int, typer.Option(min=1, max=500)] = 50,
        offset: Annotated[int, typer.Option(min=0)] = 0,
        data_dir: DataDirOption = None,
    ) -> None:
        """List transfers, newest first; by default those that wait for an operator."""
        rows = _ask_watcher(data_dir, ListTransfers(status, limit, offset))
        if print_document(rows):
            return
        for row in rows:
            say(row["signature"])
            about = (
                f"transfer {row['transfer']} at {row['place']}, slot {row['slot']}, from {row['authority'] or 'nobody'}"
            )
            say(f"  {row['usdc']} USDC, {row['status']}: {row['why'] or _whose(row)}; {about}")
        if not rows:
            say("nothing to show")
        if status == "listed" and rows:
            say("Next: `deposits explain SIGNATURE`, then `deposits assign SIGNATURE PUBKEY --reason WHY`.")

    @deposits.command()
    def status(data_dir: DataDirOption = None) -> None:
        """Print the number of transfers of each status, and the state of the watcher."""
        told = _ask_watcher(data_dir, CountTransfers())
        if not print_document(told):
            print_rows(_watcher_rows(told))

    @deposits.command()
    def explain(signature: _Signature, data_dir: DataDirOption = None) -> None:
        """Look up a transaction on the chain, credit its transfers, and print the outcome of each."""
        told = _ask_watcher(data_dir, ExplainTransaction(signature))
        if print_document(told):
            return
        say(told["verdict"])
        for row in told["transfers"]:
            print_rows(row)

    @deposits.command()
    def assign(
        signature: _Signature,
        pubkey: Annotated[str, typer.Argument(help="Base58 public key of the account that gets the credits.")],
        reason: Annotated[str, typer.Option("--reason", help="Kept in the ledger; the customer sees it.")],
        transfer: Annotated[
            int | None, typer.Option("--transfer", help="Its index, where several are listed; explain shows it.")
        ] = None,
        data_dir: DataDirOption = None,
    ) -> None:
        """Give a listed transfer to an account (a ledger entry of type adjustment), once."""
        row = _ask_watcher(data_dir, AssignTransfer(signature, transfer, pubkey, reason))
        if print_document(row):
            return
        say(f"[green]assigned {row['credits']:,} credits[/green] to {row['account']}")
        say("Next: the customer sees it under GET /account/ledger; `deposits explain` shows it from now on.")


def add_referrals(cli: typer.Typer) -> None:
    referrals = typer.Typer(help="Referral codes and their bonus on deposits.", no_args_is_help=True)
    cli.add_typer(referrals, name="referrals")

    @referrals.command()
    def create(
        code: _Code,
        percent: Annotated[str, typer.Option(help="Bonus on every deposit, such as 10 or 2.5.")],
        days: Annotated[int | None, typer.Option(min=1, help="Days in which new accounts can link the code.")] = None,
        note: Annotated[str, typer.Option(help="For yourself.")] = "",
        data_dir: DataDirOption = None,
    ) -> None:
        """Make a code. Its percentage never changes, and accounts that link it keep it."""
        bonus_bps = _bps(percent)
        expires_at = None if days is None else SystemClock().now() + days * _DAY_SECONDS
        row = _shown(ask_owner(data_dir, lambda: CreateReferral(code, bonus_bps, expires_at, note)))
        if print_document(row):
            return
        say(f"[green]made {row['code']}[/green]: {row['bonus_percent']} % on every deposit")
        say('Next: customers send {"ref_code": "..."} with their first POST /account/api-key.')

    @referrals.command("list")
    def listing(data_dir: DataDirOption = None) -> None:
        """List all codes, with the number of accounts that have each."""
        rows = [_shown(state) for state in ask_owner(data_dir, ListReferrals)]
        if print_document(rows):
            return
        if not rows:
            say("no codes yet. Next: `referrals create CODE --percent 10` makes one.")
            return
        print_table(list(rows[0]), [list(_for_people(row).values()) for row in rows])

    @referrals.command()
    def expire(code: _Code, data_dir: DataDirOption = None) -> None:
        """End a code: no new account can link it, and accounts that have it keep their bonus."""
        row = _shown(ask_owner(data_dir, lambda: ExpireReferral(code)))
        if not print_document(row):
            print_rows(_for_people(row))


def _watcher_rows(told: dict[str, Any]) -> dict[str, Any]:
    """Return the watcher's state with dates in place of Unix seconds."""
    gaps = "; ".join(told["slots_never_seen"]) or "none"
    return told | {"slots_never_seen": gaps, "caught_up_at": utc_text(told["caught_up_at"] or None) or "not yet"}


def _whose(row: dict[str, Any]) -> str:
    return f"{row['credits']:,} credits of {row['account']}"


def _bps(percent: str) -> int:
    wanted = f"--percent: {percent!r}, wanted 0.01 to {BPS_MAX // 100}, with at most two decimals"
    try:
        hundredths = Decimal(percent) * 100
    except InvalidOperation:
        fail(wanted)
    if not hundredths.is_finite() or hundredths != int(hundredths) or not 1 <= hundredths <= BPS_MAX:
        fail(wanted)
    return int(hundredths)


def _shown(state: ReferralState) -> dict[str, Any]:
    referral = state.referral
    row = {
        "code": referral.code,
        "bonus_percent": f"{referral.bonus_bps // 100}.{referral.bonus_bps % 100:02d}",
        "created_at": referral.created_at,
        "expires_at": referral.expires_at,
        "note": referral.note,
    }
    return row if state.accounts is None else row | {"accounts": state.accounts}


def _for_people(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"created_at": utc_text(row["created_at"]), "expires_at": utc_text(row["expires_at"]) or "never"}


def _ask_watcher(data_dir: Path | None, command: WatcherCommand) -> Any:
    told = with_instance(data_dir, lambda instance: _asked_watcher(instance, command))
    if isinstance(told, str):
        fail(told)
    return told


def _asked_watcher(instance: operator.Instance, command: WatcherCommand) -> Any:
    watchers = [hosting.Reference(name) for name in (WATCHER_ACTOR_NAME, STANDBY_ACTOR_NAME)]
    with operator.joined(instance):
        try:
            return asyncio.run(ask_watcher(watchers, "ask", command, wait_seconds=_WATCHER_SECONDS))
        except hosting.ActorUnreachable as error:
            text = f"the deposit watcher did not answer ({error}): try again in a few seconds"
            raise operator.OperatorError(text) from None


def ask_owner(data_dir: Path | None, make: Callable[[], Command[Value]]) -> Value:
    """Send the command of `make` to its owner. When it is refused, print the reason and exit."""
    return with_instance(data_dir, lambda instance: operator.ask_owner(instance, make()))


def with_instance(data_dir: Path | None, ask: Callable[[operator.Instance], Value]) -> Value:
    """Ask the running product, here or on the cluster of RAY_ADDRESS. When that fails, print why and exit."""
    try:
        config = settings(Options(data_dir, False, None, None, {})).config
        cluster = os.environ.get("RAY_ADDRESS")
        if cluster and data_dir is None:  # Its token is in the environment too.
            return ask(operator.Instance(cluster))
        folder = data_path(config, data_dir)
        instance = operator.find_instance(folder / "run")
        use(token_environment(load_or_make(folder / "secrets").ray_token))
        return ask(instance)
    except (ConfigError, DataDirError, operator.OperatorError) as error:
        fail(str(error))
