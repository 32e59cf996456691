"""`limit`: the most credits that the account spends in an hour."""

from typing import Annotated

import msgspec
import typer

from ledger_gateway.cli.shell import Shell, command
from ledger_gateway.hourly_limit import HourlyLimit, hourly_limit, lift_hourly_limit, set_hourly_limit

APP = typer.Typer(no_args_is_help=True)
_SET = Annotated[int | None, typer.Option("--set", min=1, help="Most credits of an hour.")]
_LEARNT = Annotated[bool, typer.Option("--learnt", help="Ten times a usual hour of the account.")]
_NONE = Annotated[bool, typer.Option("--none", help="No limit.")]
_LIFT = Annotated[int | None, typer.Option("--lift", min=0, max=86_400, help="Limit nothing for so many seconds.")]


@APP.callback()
def _only() -> None:
    """Keep the command's name: an application of one command has none."""


@command(APP)
async def limit(
    shell: Shell, credits: _SET = None, learnt: _LEARNT = False, none: _NONE = False, lift: _LIFT = None
) -> None:
    """Show or change the most credits that the account spends in an hour."""
    if sum((credits is not None, learnt, none, lift is not None)) > 1:
        raise typer.BadParameter("one of --set, --learnt, --none and --lift")
    if credits is None and not learnt and not none and lift is None:
        async with shell.caller() as gateway:
            return _show(shell, await hourly_limit(gateway))
    async with shell.gateway(shell.profile.wallet()) as gateway:
        if lift is not None:
            return _show(shell, await lift_hourly_limit(gateway, lift))
        return _show(shell, await set_hourly_limit(gateway, "learnt" if learnt else credits))


def _show(shell: Shell, found: HourlyLimit) -> None:
    if shell.out.as_json:
        return shell.out.document(msgspec.to_builtins(found))
    no_basis = "learnt: too few hours are known" if found.setting == "learnt" else "no limit is set"
    shell.out.rows(
        {
            "credits_an_hour": "no limit" if found.credits_an_hour is None else found.credits_an_hour,
            "basis": found.basis or no_basis,
            "usual_credits_an_hour": found.usual_credits_an_hour or "not known",
            "spent_this_hour": found.spent_this_hour,
            "stage": found.stage,
            "hour_ends_at": found.hour_ends_at,
            "lifted_until": found.lifted_until or "not lifted",
        }
    )
    if found.stage in ("slowed", "stopped"):
        shell.out.next("`ledger-gateway limit --lift 3600` lifts it for an hour, `--set CREDITS` raises it.")
    else:
        shell.out.next("`ledger-gateway usage --by hour` tells what hours cost.")
    return None
