"""`balance`, `usage`, `runway`, `status`: what an account has and spends, and how its gateway is."""

import csv
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from ledger_gateway.answers import plain
from ledger_gateway.cli.output import builtin
from ledger_gateway.cli.runway import runway as runway_of
from ledger_gateway.cli.shell import FAILED, Refused, Shell, command

APP = typer.Typer(no_args_is_help=True)
_LOW_CREDITS = 1_000  # Interface, "Low-credit flag".
_GROUPS = ("method", "hour", "day", "key")


@command(APP)
async def balance(shell: Shell) -> None:
    """Show credits, limits and where to pay."""
    async with shell.caller() as gateway:
        account = await gateway.account()
    if shell.out.as_json:
        return shell.out.document(account)
    funding = account.funding
    coming = min((batch for batch in account.credit_batches if batch.remaining), key=_expiry, default=None)
    shell.out.rows(
        {
            "account": account.pubkey,
            "credits": account.balance,
            "status": account.status,
            "prices": account.price_list,
            "spent so far": account.total_consumed_credits,
            "next expiry": "" if coming is None else f"{coming.remaining:,} credits on {_date(coming.expires_at)}",
            "pay to": account.deposit_address,
            "rate": f"{funding.credits_per_usdc:,} credits for 1 USDC, {funding.network_name or funding.network}",
        }
    )
    if account.balance < _LOW_CREDITS:
        shell.out.next("few credits are left: `ledger-gateway deposit AMOUNT` pays in.")
    else:
        shell.out.next("`ledger-gateway usage` tells what they went to, `ledger-gateway runway` how long they last.")
    return None


@command(APP)
async def usage(
    shell: Shell,
    by: Annotated[str, typer.Option("--by", help="method, hour, day, key; several with commas.")] = "method",
    days: Annotated[int, typer.Option("--days", min=1, max=92, help="How far back.")] = 1,
    from_: Annotated[str | None, typer.Option("--from", help="ISO 8601, in place of --days.")] = None,
    to: Annotated[str | None, typer.Option("--to", help="ISO 8601; by default now.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Comma-separated values.")] = False,
) -> None:
    """Show what calls cost, by method, hour or day."""
    groups = tuple(dict.fromkeys(each.strip() for each in by.split(",") if each.strip()))
    if not groups or not set(groups) <= set(_GROUPS):
        raise typer.BadParameter("wanted method, hour, day or key, or several of them with commas", param_hint="--by")
    began = from_ or (_now() - timedelta(days=days)).isoformat(timespec="seconds")
    async with shell.caller() as gateway:
        found = await gateway.usage(groups, began, to)
    if shell.out.as_json:
        return shell.out.document(found)
    rows = [builtin(row) for row in found.rows]
    columns = (*groups, "calls", "credits")
    if as_csv:
        writer = csv.writer(sys.stdout)
        writer.writerow(columns)
        writer.writerows([csv_cell(row[name]) for name in columns] for row in rows)
        return None
    shell.out.table(rows, columns, ("calls", "credits"))
    shell.out.text(f"{found.totals.calls:,} calls, {found.totals.credits:,} credits, {found.from_} to {found.to}")
    shell.out.next("`ledger-gateway runway` tells how long the credits last.")
    return None


@command(APP)
async def runway(
    shell: Shell,
    hours: Annotated[int, typer.Option("--hours", min=1, max=720, help="Window of which the rate is taken.")] = 24,
) -> None:
    """Show how fast credits are spent, and how long they last at that rate."""
    async with shell.caller() as gateway:
        account = await gateway.account()
        began = (_now() - timedelta(hours=hours)).isoformat(timespec="seconds")
        spent = (await gateway.usage(("hour",), began)).totals.credits
    now = int(time.time())
    found = runway_of(account.balance, spent, hours, account.credit_batches, now)
    is_endless = found.hours_left is None
    empty_at = None if found.hours_left is None else now + found.hours_left * 3_600
    shell.out.rows(
        {
            "credits": account.balance,
            "spent": spent,
            "window_hours": hours,
            "credits_per_day": found.credits_per_day,
            "hours_left": found.hours_left if shell.out.as_json or not is_endless else "for ever: nothing was spent",
            "empty_at": empty_at if shell.out.as_json or empty_at is None else _date(empty_at),
            "expire_unspent": found.expiring,
        }
    )
    if found.hours_left is not None and found.hours_left < 72:
        shell.out.next("the credits end within three days: `ledger-gateway deposit AMOUNT` pays in.")
    else:
        shell.out.next("`ledger-gateway usage --by method` tells which calls cost most.")


@command(APP)
async def status(shell: Shell) -> None:
    """Show the health of a gateway; exit code 1 where it takes no paid calls."""
    async with shell.gateway() as gateway:
        health = await gateway.health()
    state = health.get("status")
    shell.out.rows({"url": shell.profile.url, **_flat(health)})
    if state == "ok":
        shell.out.next("`ledger-gateway call getSlot`.")
        return
    if state == "degraded":
        shell.out.next(
            "calls go on by the nodes that are left; operators: `ledger-gateway deposits status` and the logs."
        )
        return
    shell.out.next("wait until it has started; operators find the reason in its logs.")
    raise typer.Exit(FAILED)


def _flat(document: dict[str, Any]) -> dict[str, Any]:
    """Return nested flags as one line each."""
    found: dict[str, Any] = {}
    for name, value in document.items():
        if isinstance(value, dict):
            for inner, flag in value.items():
                on = [each for each, is_on in flag.items() if is_on is True] if isinstance(flag, dict) else flag
                found[f"{name}.{inner}"] = on
        else:
            found[name] = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    return found


def csv_cell(value: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula."""
    if not isinstance(value, str):
        return "" if value is None else value
    text = plain(value)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text


def _expiry(batch: Any) -> int:
    return int(batch.expires_at)


def _date(seconds: int) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        raise Refused("the gateway told a time that is none", "ask the operator of the gateway.") from None


def _now() -> datetime:
    return datetime.now(UTC)
