"""Operator commands on accounts: grant, remove, suspend, resume, limits, show; adjust and suspend also by themselves.

Implements: launch/README.md (commands). Each command prints its result and the next step.
Not here: the rules; the account's owner applies them, and operator/commands.py asks it.
"""

import getpass
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import UNSET

from actors.accounts.api import AccountState, AdjustCredits, Adjustment, Describe, ImportKey, SetLimits, SetStatus
from actors.accounts.directory import LISTED_MAX, ListAccounts, ListedAccount, Order, place_of
from actors.accounts.price_list import PUBLIC_WORD
from actors.gateway.pages.account import last_deposit_body
from actors.identity.credentials import TOKEN_CHARACTERS, key_hash, key_prefix, parse_api_key
from actors.launch.assembly.operating import account_document
from actors.launch.local_run import owner_commands as operator
from actors.launch.local_run.screen import DataDirOption, print_document, say
from actors.launch.operator.money_commands import ask_owner
from actors.launch.operator.price_commands import add_price
from actors.launch.operator.tables import print_rows, print_table, utc_text
from actors.operators.accounts import listed_body
from actors.units import base58_text

_Pubkey = Annotated[str, typer.Argument(help="Base58 public key of the account.")]
_Credits = Annotated[int, typer.Argument(min=1, help="Whole credits.")]
_Reason = Annotated[str, typer.Option("--reason", help="Kept in the ledger; the customer sees it.")]
_StatusReason = Annotated[str, typer.Option("--reason", help="Kept in the log of the account's owner.")]
_Limit = Annotated[int | None, typer.Option(min=1, help="Left out: stays as it is.")]
_NEXT_CHANGE = "Next: `accounts grant`, `accounts limits` and `accounts suspend` change this account."
_NEXT_LISTED = "Next: `accounts show PUBKEY` has the batches and limits of one."
_NEXT_ENTRY = "Next: the customer sees it under GET /account/ledger; `python -m actors.accounts.audit` proves it."
_NEXT_LIMITS = "Next: --requests-per-second and --concurrency set them, --default resets them."
_NEXT_KEY = "Next: the former key is refused from now on; POST /account/api-key replaces the imported one."
_NEXT_SUSPENDED = "Next: its paid calls are refused; `accounts resume PUBKEY --reason WHY` accepts them again."


def add_accounts(cli: typer.Typer) -> None:
    accounts = typer.Typer(help="Operator commands on accounts of the running instance.", no_args_is_help=True)
    cli.add_typer(accounts, name="accounts")

    @accounts.command()
    def grant(pubkey: _Pubkey, credits: _Credits, reason: _Reason, data_dir: DataDirOption = None) -> None:
        """Add credits to an account (a ledger entry of type adjustment); opens the account where there is none."""
        _adjust(data_dir, pubkey, credits, reason)

    @accounts.command()
    def remove(pubkey: _Pubkey, credits: _Credits, reason: _Reason, data_dir: DataDirOption = None) -> None:
        """Remove credits from an account, at most those that are available."""
        _adjust(data_dir, pubkey, -credits, reason)

    @accounts.command()
    def suspend(pubkey: _Pubkey, reason: _StatusReason, data_dir: DataDirOption = None) -> None:
        """Refuse every paid call of an account; GET /account/* still works."""
        _suspend(data_dir, pubkey, reason)

    @accounts.command()
    def resume(pubkey: _Pubkey, reason: _StatusReason, data_dir: DataDirOption = None) -> None:
        """Accept paid calls of a suspended account again."""
        _resume(data_dir, pubkey, reason)

    @accounts.command()
    def limits(
        pubkey: _Pubkey,
        requests_per_second: _Limit = None,
        concurrency: _Limit = None,
        default: Annotated[bool, typer.Option("--default", help="Return both limits to the defaults.")] = False,
        data_dir: DataDirOption = None,
    ) -> None:
        """Set the limits of one account; without options, print them."""
        given = {"requests_per_second": requests_per_second, "concurrency": concurrency}
        if default and any(limit is not None for limit in given.values()):
            raise typer.BadParameter("give either --default or limits, not both", param_hint="--default")
        if not default and all(limit is None for limit in given.values()):
            state = ask_owner(data_dir, lambda: Describe(operator.account_of(pubkey)))
            _print_account(state, "limits, unchanged", _NEXT_LIMITS, only=("pubkey", *given))
            return
        # A limit that is not given stays; None is the default.
        wanted = {name: UNSET if limit is None and not default else limit for name, limit in given.items()}
        state = ask_owner(data_dir, lambda: SetLimits(operator.account_of(pubkey), **wanted))
        done = "limits are the defaults" if default else "limits set"
        _print_account(state, done, "Next: they hold from the account's next call on.", only=("pubkey", *given))

    @accounts.command("import-key")
    def import_key(pubkey: _Pubkey, data_dir: DataDirOption = None) -> None:
        """Make a legacy API key (64 hexadecimal characters) the account's one key. It is read from standard input."""
        text = _key_from_input()
        state = ask_owner(data_dir, lambda: ImportKey(operator.account_of(pubkey), key_hash(text), key_prefix(text)))
        _print_account(state, f"imported the key {key_prefix(text)}...", _NEXT_KEY, only=("pubkey", "status"))

    @accounts.command()
    def show(pubkey: _Pubkey, data_dir: DataDirOption = None) -> None:
        """Print balance, status and limits of an account."""
        _print_account(ask_owner(data_dir, lambda: Describe(operator.account_of(pubkey))), "found", _NEXT_CHANGE)

    _add_listing(accounts)
    add_price(accounts)


def _add_listing(accounts: typer.Typer) -> None:
    @accounts.command("list")
    def listing(
        find: Annotated[str, typer.Option(help="Beginning of the public key.")] = "",
        order: Annotated[Order, typer.Option(help="Highest first.")] = Order.NEWEST,
        status: Annotated[str, typer.Option(help="active or suspended; left out: both.")] = "",
        cursor: Annotated[str, typer.Option(help="The next_cursor of the page before.")] = "",
        limit: Annotated[int, typer.Option(min=1, max=LISTED_MAX)] = 50,
        data_dir: DataDirOption = None,
    ) -> None:
        """List accounts, page by page."""
        after = place_of(cursor)
        if cursor and after is None:
            raise typer.BadParameter("wanted the next_cursor of a page", param_hint="--cursor")
        found = ask_owner(data_dir, lambda: ListAccounts(order.value, find, status, after, limit))
        following = found[-1].place(order).text if len(found) == limit else None
        if print_document({"accounts": list(map(listed_body, found)), "next_cursor": following}):
            return
        if not found:
            say("no such account. Next: `accounts grant PUBKEY CREDITS --reason WHY` opens one.")
            return
        print_table(("pubkey", "balance", "status", "consumed", "created_at", "prices"), map(_listed_cells, found))
        say(f"Next: `accounts list --cursor {following}`, with the same options." if following else _NEXT_LISTED)


def add_account_shortcuts(cli: typer.Typer) -> None:
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
        _adjust(data_dir, pubkey, credits, reason)

    @cli.command()
    def suspend(pubkey: _Pubkey, reason: _StatusReason, data_dir: DataDirOption = None) -> None:
        """Refuse every paid call of an account, as `accounts suspend` does."""
        _suspend(data_dir, pubkey, reason)


def _key_from_input() -> str:
    """Read a key from standard input: on the command line other users of the machine, and its history, would see it."""
    if sys.stdin.isatty():
        text = getpass.getpass("legacy API key: ").strip()
    else:
        text = sys.stdin.readline(4 * TOKEN_CHARACTERS).strip()
    if len(text) != TOKEN_CHARACTERS or parse_api_key(text) is None:
        raise typer.BadParameter(f"wanted {TOKEN_CHARACTERS} hexadecimal characters on standard input")
    return text


def _adjust(data_dir: Path | None, pubkey: str, amount: int, reason: str) -> None:
    operation = operator.new_operation()
    done = ask_owner(data_dir, lambda: AdjustCredits(operator.account_of(pubkey), amount, reason, operation))
    say(_adjusted_text(done, amount))
    if print_document({"pubkey": base58_text(done.pubkey), "asked": amount, **_figures(done)}):
        return
    print_rows({"pubkey": base58_text(done.pubkey), "balance": f"{done.balance:,} credits"})
    say(_NEXT_ENTRY)


def _figures(done: Adjustment) -> dict[str, Any]:
    return {name: getattr(done, name) for name in ("amount", "balance", "already_applied", "opened")}


def _adjusted_text(done: Adjustment, asked: int) -> str:
    """Say what was really moved: a removal may move fewer credits than were asked for."""
    moved = f"[green]{'granted' if done.amount > 0 else 'removed'} {abs(done.amount):,} credits[/green]"
    if done.amount != asked:
        moved += f" (asked for {abs(asked):,}; no more was available)"
    if done.already_applied:
        moved += " (by an earlier copy of this command; nothing was moved a second time)"
    return moved + ("; opened a new account: check its address" if done.opened else "")


def _suspend(data_dir: Path | None, pubkey: str, reason: str) -> None:
    state = ask_owner(data_dir, lambda: SetStatus(operator.account_of(pubkey), "suspended", reason))
    _print_account(state, "suspended", _NEXT_SUSPENDED)


def _resume(data_dir: Path | None, pubkey: str, reason: str) -> None:
    state = ask_owner(data_dir, lambda: SetStatus(operator.account_of(pubkey), "active", reason))
    _print_account(state, "resumed", "Next: paid calls of this account are accepted again.")


def _print_account(state: AccountState, what: str, next_step: str, only: tuple[str, ...] = ()) -> None:
    """Print an account: the whole document for programs; for people the rows of `only`, or all."""
    say(f"[green]{what}[/green]")
    if print_document(account_document(state)):
        return
    rows = _account_rows(state)
    print_rows({name: rows[name] for name in only} if only else rows)
    say(next_step)


def _listed_cells(account: ListedAccount) -> tuple[str, ...]:
    figures = f"{account.balance:,}", account.status, f"{account.total_consumed:,}"
    return base58_text(account.pubkey), *figures, utc_text(account.created_at), account.price_list or PUBLIC_WORD


def _account_rows(state: AccountState) -> dict[str, str]:
    last = last_deposit_body(state)
    batches = "\n".join(
        f"{batch.remaining:,} of {batch.credits:,} credits, {batch.source.value}, until {utc_text(batch.expires_at)}"
        for batch in state.batches
    )
    return {
        "pubkey": base58_text(state.pubkey),
        "balance": f"{state.balance:,} credits",
        "status": state.status,
        "price_list": state.price_list or PUBLIC_WORD,
        "total_consumed": f"{state.total_consumed:,} credits",
        "created_at": utc_text(state.created_at),
        "requests_per_second": f"{state.requests_per_second:,}",
        "concurrency": f"{state.concurrency:,} calls",
        "last_deposit": "none"
        if last is None
        else f"{last['amount_usdc']} USDC, {last['credits']:,} credits, {utc_text(last['credited_at'])}",
        "credit_batches": batches or "none",
    }
