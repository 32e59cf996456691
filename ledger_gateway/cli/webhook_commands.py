"""`webhooks`: URLs that are told of events, and what was delivered to them."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from ledger_gateway.cli.output import builtin
from ledger_gateway.cli.shell import FAILED, Refused, Shell, command

APP = typer.Typer(no_args_is_help=True)
_WEBHOOKS = typer.Typer(help="Webhooks: URLs that are told of events.", no_args_is_help=True)
APP.add_typer(_WEBHOOKS, name="webhooks")
_Id = Annotated[str, typer.Argument(help="Id of the webhook; `webhooks list` shows it.")]
_SecretFile = Annotated[Path | None, typer.Option("--secret-file", help="Write the secret here, mode 600.")]
_ShowSecret = Annotated[bool, typer.Option("--show-secret", help="Print the secret.")]


@command(_WEBHOOKS, "list")
async def listing(shell: Shell) -> None:
    """List the webhooks of the account."""
    async with shell.caller() as gateway:
        found = await gateway.webhooks()
    rows = [{**builtin(each), "filter": _filter(builtin(each))} for each in found]
    if shell.out.as_json:
        return shell.out.document(found)
    shell.out.table(rows, ("id", "status", "filter", "url"))
    shell.out.next("`ledger-gateway webhooks deliveries ID`, or `webhooks create URL --type ...`.")
    return None


@command(_WEBHOOKS)
async def create(
    shell: Shell,
    target: Annotated[str, typer.Argument(help="https URL that takes the deliveries.")],
    type: Annotated[str, typer.Option("--type", help="account, program, my_account, lifecycle or signal.")],
    value: Annotated[str | None, typer.Option("--value", help="Address or program, of account and program.")] = None,
    event: Annotated[list[str] | None, typer.Option("--event", help="Of lifecycle and signal; may come again.")] = None,
    wallet: Annotated[list[str] | None, typer.Option("--wallet", help="Watched wallets, of signal.")] = None,
    secret_file: _SecretFile = None,
    show_secret: _ShowSecret = False,
) -> None:
    """Register a URL. Its secret is told once: say where it goes."""
    _require_place(secret_file, show_secret)
    events = {"lifecycle": "lifecycle_events", "signal": "signal_events"}.get(type)
    if event and events is None:
        raise Refused(f"--event is for lifecycle and signal, not for {type}", "leave --event out.")
    fields: dict[str, Any] = {"filter_value": value, "wallets": wallet}
    if events is not None:
        fields[events] = event
    async with shell.caller() as gateway:
        found = await gateway.create_webhook(target, type, **fields)
    shell.out.rows({"id": found.id, "status": found.status, **_secret(found.secret or "", secret_file, show_secret)})
    shell.out.next(f"`ledger-gateway webhooks test {found.id}` sends an example.")


@command(_WEBHOOKS)
async def delete(shell: Shell, id: _Id) -> None:
    """Delete a webhook; what waits for it is dropped."""
    async with shell.caller() as gateway:
        await gateway.webhook_action(id, "", method="DELETE")
    shell.out.rows({"deleted": id})
    shell.out.next("`ledger-gateway webhooks list` shows the others.")


@command(_WEBHOOKS)
async def test(shell: Shell, id: _Id) -> None:
    """Send one signed example event, and show what came of it; free."""
    async with shell.caller() as gateway:
        found = await gateway.webhook_action(id, "test", {})
    shell.out.rows(found)
    if found.get("delivered") is True:
        shell.out.next(f"`ledger-gateway webhooks deliveries {id}` shows what was delivered.")
        return
    shell.out.next("mend the receiver: it must answer with 2xx within 15 seconds.")
    raise typer.Exit(FAILED)


@command(_WEBHOOKS)
async def deliveries(
    shell: Shell,
    id: _Id,
    limit: Annotated[int, typer.Option("--limit", min=1, max=500)] = 20,
    before: Annotated[str | None, typer.Option("--before", help="Event id; older ones.")] = None,
) -> None:
    """Show deliveries, newest first."""
    async with shell.caller() as gateway:
        found = await gateway.webhook_deliveries(id, limit, before)
    if shell.out.as_json:
        return shell.out.document(found)
    rows = [{**each, "attempts": _attempts(each), "last": _last(each)} for each in found]
    shell.out.table(rows, ("event_id", "status", "attempts", "last"))
    shell.out.next(f"`ledger-gateway webhooks replay {id} --event EVENT_ID` sends one again.")
    return None


@command(_WEBHOOKS)
async def replay(
    shell: Shell,
    id: _Id,
    event: Annotated[list[str] | None, typer.Option("--event", help="Event id; may come again.")] = None,
    from_: Annotated[int | None, typer.Option("--from", help="Unix seconds.")] = None,
    to: Annotated[int | None, typer.Option("--to", help="Unix seconds.")] = None,
) -> None:
    """Send events again; free where they were delivered before."""
    if (not event and (from_ is None or to is None)) or (event and (from_ or to)):
        raise typer.BadParameter("wanted --event, or --from and --to")
    content: dict[str, Any] = {"event_ids": event} if event else {"from": from_, "to": to}
    async with shell.caller() as gateway:
        found = await gateway.webhook_action(id, "replay", content)
    shell.out.rows(found)
    shell.out.next(f"`ledger-gateway webhooks deliveries {id}` shows what became of them.")


@command(_WEBHOOKS)
async def rotate(shell: Shell, id: _Id, secret_file: _SecretFile = None, show_secret: _ShowSecret = False) -> None:
    """Make a new secret; both sign for 24 hours."""
    _require_place(secret_file, show_secret)
    async with shell.caller() as gateway:
        found = await gateway.webhook_action(id, "rotate-secret", {})
    told = {"previous_valid_until": str(found.get("previous_valid_until"))}
    shell.out.rows({"id": id, **told, **_secret(str(found.get("secret", "")), secret_file, show_secret)})
    shell.out.next("give the receiver the new secret within 24 hours.")


def _require_place(secret_file: Path | None, show_secret: bool) -> None:
    """Refuse before anything is made: the secret could not be had later."""
    if secret_file is None and not show_secret:
        raise Refused("the secret is told once", "pass --secret-file FILE, or --show-secret to print it.")
    if secret_file is not None and secret_file.expanduser().exists():
        raise FileExistsError(17, "exists", str(secret_file))


def _secret(secret: str, secret_file: Path | None, show_secret: bool) -> dict[str, str]:
    told = {"secret": secret} if show_secret else {}
    if secret_file is None:
        return told
    where = secret_file.expanduser()
    with os.fdopen(os.open(where, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(secret)
    return {**told, "secret_file": str(where)}


def _filter(row: dict[str, Any]) -> str:
    events = row.get("lifecycle_events") or row.get("signal_events") or []
    return " ".join(
        [str(row.get("filter_type")), str(row.get("filter_value") or ""), ",".join(map(str, events))]
    ).strip()


def _attempts(row: dict[str, Any]) -> Any:
    found = row.get("attempts")
    return len(found) if isinstance(found, list) else found


def _last(row: dict[str, Any]) -> str:
    found = row.get("attempts")
    last = found[-1] if isinstance(found, list) and found and isinstance(found[-1], dict) else {}
    return str(last.get("error") or last.get("http_status") or last.get("status") or "")
