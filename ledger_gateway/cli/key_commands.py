"""`keys`: named keys with budgets, which the wallet makes and ends."""

import time
from typing import Annotated, Any

import msgspec
import typer

from ledger_gateway.cli.shell import Refused, Shell, command
from ledger_gateway.keys import Keys, NewKey, narrow
from ledger_gateway.records import NamedKey

APP = typer.Typer(no_args_is_help=True)
_KEYS = typer.Typer(help="Named keys with budgets.", no_args_is_help=True)
APP.add_typer(_KEYS, name="keys")
_ID = Annotated[int, typer.Argument(help="Id of the key: `ledger-gateway keys list` shows it.")]
_A_DAY = Annotated[int | None, typer.Option("--credits-a-day", help="Most credits of a day (UTC).")]
_TOTAL = Annotated[int | None, typer.Option("--credits-total", help="Most credits for ever.")]
_RATE = Annotated[int | None, typer.Option("--requests-per-second", help="Most requests in a second.")]
_METHODS = Annotated[list[str] | None, typer.Option("--method", help="A method or class that it may call. Repeat it.")]
_ORIGINS = Annotated[list[str] | None, typer.Option("--origin", help="An origin of pages that may use it. Repeat it.")]
_ADDRESSES = Annotated[list[str] | None, typer.Option("--address", help="An address or network. Repeat it.")]
_EXPIRES = Annotated[str | None, typer.Option("--expires-at", help="When it ends: ISO 8601, UTC.")]
_NO_LIMIT = Annotated[list[str] | None, typer.Option("--no", help="Take a limit away, as credits-a-day. Repeat it.")]


@command(_KEYS, "list")
async def keys_list(
    shell: Shell,
    parent: Annotated[int | None, typer.Option("--parent", help="Those that were made from this key.")] = None,
) -> None:
    """Show named keys, their limits and what they have spent."""
    async with shell.caller() as gateway:
        found = await Keys(gateway).listed(parent)
    if shell.out.as_json:
        return shell.out.document([msgspec.to_builtins(key) for key in found])
    rows = [_row(key) for key in found]
    if not rows:
        shell.out.text("This account has no named keys.")
    else:
        shell.out.table(rows, ("id", "name", "status", "today", "of a day", "total", "of all"), ("today", "total"))
    shell.out.next("`ledger-gateway keys new NAME --credits-a-day 5000` makes one.")
    return None


@command(_KEYS, "new")
async def keys_new(
    shell: Shell,
    name: Annotated[str, typer.Argument(help="A name for people.")],
    credits_a_day: _A_DAY = None,
    credits_total: _TOTAL = None,
    requests_per_second: _RATE = None,
    method: _METHODS = None,
    origin: _ORIGINS = None,
    address: _ADDRESSES = None,
    expires_at: _EXPIRES = None,
) -> None:
    """Make a key with limits of its own, and print it: this once."""
    limits = _limits(credits_a_day, credits_total, requests_per_second, method, origin, address, expires_at)
    async with shell.gateway(shell.profile.wallet()) as gateway:
        new = await Keys(gateway).create(name, **limits)
    _show_new(shell, new)


@command(_KEYS, "narrow")
async def keys_narrow(
    shell: Shell,
    name: Annotated[str, typer.Argument(help="A name for people.")] = "child",
    credits_a_day: _A_DAY = None,
    credits_total: _TOTAL = None,
    requests_per_second: _RATE = None,
    method: _METHODS = None,
    origin: _ORIGINS = None,
    address: _ADDRESSES = None,
    seconds: Annotated[int | None, typer.Option("--seconds", min=1, help="How long it is good.")] = None,
) -> None:
    """Make a narrower key from the named key of --key, and print it. Asks nobody."""
    key = shell.profile.key
    if key is None:
        raise Refused("no named key to make it from", "pass --key, or set LEDGER_GATEWAY_API_KEY.")
    limits = _limits(credits_a_day, credits_total, requests_per_second, method, origin, address, None)
    if seconds is not None:
        limits["expires_at"] = int(time.time()) + seconds
    shell.out.rows({"name": name, **limits, "api_key": narrow(key, name, **limits)})
    shell.out.next("whoever gets it passes it as X-Api-Key; it spends from the key that it was made from.")


@command(_KEYS, "change")
async def keys_change(
    shell: Shell,
    id: _ID,
    name: Annotated[str | None, typer.Option("--name", help="Its new name.")] = None,
    credits_a_day: _A_DAY = None,
    credits_total: _TOTAL = None,
    requests_per_second: _RATE = None,
    method: _METHODS = None,
    origin: _ORIGINS = None,
    address: _ADDRESSES = None,
    expires_at: _EXPIRES = None,
    no: _NO_LIMIT = None,
) -> None:
    """Change some limits of a key, or its name. What it has spent stays."""
    changes = _limits(credits_a_day, credits_total, requests_per_second, method, origin, address, expires_at)
    if name is not None:
        changes["name"] = name
    changes |= {each.replace("-", "_"): None for each in no or ()}
    if not changes:
        raise Refused("nothing is to be changed", "`ledger-gateway keys change --help` lists what can be.")
    await _changed(shell, id, changes)


@command(_KEYS, "freeze")
async def keys_freeze(shell: Shell, id: _ID) -> None:
    """Stop a key: no call by it begins, and its streams end within a second."""
    await _changed(shell, id, {"frozen": True})


@command(_KEYS, "unfreeze")
async def keys_unfreeze(shell: Shell, id: _ID) -> None:
    """Let a frozen key call again."""
    await _changed(shell, id, {"frozen": False})


@command(_KEYS, "rotate")
async def keys_rotate(
    shell: Shell,
    id: _ID,
    grace: Annotated[int, typer.Option("--grace", help="Seconds in which the former text is good.")] = 0,
) -> None:
    """Give a key a new text, and print it: this once."""
    async with shell.gateway(shell.profile.wallet()) as gateway:
        new = await Keys(gateway).rotate(id, grace)
    _show_new(shell, new)


@command(_KEYS, "delete")
async def keys_delete(shell: Shell, id: _ID) -> None:
    """End a key for good."""
    async with shell.gateway(shell.profile.wallet()) as gateway:
        key = await Keys(gateway).delete(id)
    shell.out.rows(msgspec.to_builtins(key) if shell.out.as_json else _row(key))
    shell.out.next("what it spent stays in the ledger: `ledger-gateway usage --by key`.")


async def _changed(shell: Shell, id: int, changes: dict[str, Any]) -> None:
    async with shell.gateway(shell.profile.wallet()) as gateway:
        key = await Keys(gateway).change(id, **changes)
    shell.out.rows(msgspec.to_builtins(key) if shell.out.as_json else _row(key))
    shell.out.next("`ledger-gateway keys list` shows all keys.")


def _show_new(shell: Shell, new: NewKey) -> None:
    shell.out.rows({**(msgspec.to_builtins(new.key) if shell.out.as_json else _row(new.key)), "api_key": new.api_key})
    shell.out.say("This is the only time that the key is shown.")
    shell.out.next("pass it as --key, or as X-Api-Key; `ledger-gateway keys freeze ID` stops it.")


def _limits(
    credits_a_day: int | None,
    credits_total: int | None,
    requests_per_second: int | None,
    methods: list[str] | None,
    origins: list[str] | None,
    addresses: list[str] | None,
    expires_at: str | None,
) -> dict[str, Any]:
    """The limits that were given on the command line, by their names in a request."""
    limits = {
        "credits_a_day": credits_a_day,
        "credits_total": credits_total,
        "requests_per_second": requests_per_second,
        "methods": methods or None,
        "origins": origins or None,
        "addresses": addresses or None,
        "expires_at": expires_at,
    }
    return {name: value for name, value in limits.items() if value is not None}


def _row(key: NamedKey) -> dict[str, Any]:
    def most(credits: int | None) -> str:
        return "no limit" if credits is None else f"{credits:,}"

    return {
        "id": key.id,
        "name": key.name,
        "status": key.status,
        "today": key.spent_today,
        "of a day": most(key.credits_a_day),
        "total": key.spent_total,
        "of all": most(key.credits_total),
    }
