"""`calls`: what an account has called in the last day, refused and free calls too."""

from typing import Annotated

import msgspec
import typer

from ledger_gateway.call_log import CallLog
from ledger_gateway.cli.shell import Shell, command

APP = typer.Typer(no_args_is_help=True)
_REQUEST = Annotated[str | None, typer.Option("--request-id", help="The X-Request-Id of an answer.")]
_METHOD = Annotated[str | None, typer.Option("--method", help="Calls of this method.")]
_OUTCOME = Annotated[
    str | None, typer.Option("--outcome", help="result, node_error, refused, or a constant as RATE_LIMITED.")
]
_KEY = Annotated[int | None, typer.Option("--key-id", help="Calls of this named key; 0: of none.")]


@APP.callback()
def _group() -> None:
    """Makes a group of the one command, as the other modules have one."""


@command(APP)
async def calls(
    shell: Shell,
    limit: Annotated[int, typer.Option("--limit", min=1, max=200, help="How many, newest first.")] = 20,
    request_id: _REQUEST = None,
    method: _METHOD = None,
    outcome: _OUTCOME = None,
    key_id: _KEY = None,
) -> None:
    """Show the calls of the last day: outcome, time and credits of each."""
    async with shell.caller() as gateway:
        found = await CallLog(gateway).newest(limit, request_id=request_id, method=method, outcome=outcome, key=key_id)
    if shell.out.as_json:
        return shell.out.document([msgspec.to_builtins(call) for call in found])
    rows = [
        {
            "time": call.at[11:23],
            "method": call.method or "(unknown)",
            "outcome": call.outcome,
            "ms": f"{call.ms:,.1f}",
            "credits": call.credits,
            "request": call.request_id,
        }
        for call in found
    ]
    shell.out.table(rows, ("time", "method", "outcome", "ms", "credits", "request"), ("ms", "credits"))
    shell.out.next("`ledger-gateway calls --request-id ID` finds the call of an answer by its X-Request-Id.")
    return None
