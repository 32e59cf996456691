"""`call`, `quote`, `send`: calls of the chain's methods."""

import base64
import binascii
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ledger_gateway.answers import plain
from ledger_gateway.call_requests import Consistency, new_idempotency_key
from ledger_gateway.cli.output import builtin
from ledger_gateway.cli.shell import Refused, Shell, command
from ledger_gateway.client import Gateway
from ledger_gateway.errors import BadAnswer, KeyConflict, Unavailable, Unreachable

APP = typer.Typer(no_args_is_help=True)
_Method = Annotated[str, typer.Argument(help="Such as getBalance.")]
_Params = Annotated[list[str] | None, typer.Argument(help="Each is JSON, or else a text as it is.")]
_Idempotency = Annotated[
    str | None, typer.Option("--idempotency-key", help="Same key and call again: carried out and charged once.")
]
_TRANSACTION_BYTES_MAX = 4_096  # Interface, "Transaction size", of version 1.


@command(APP)
async def call(
    shell: Shell,
    method: _Method,
    params: _Params = None,
    idempotency_key: _Idempotency = None,
    max_credits: Annotated[int | None, typer.Option("--max-credits", min=0, help="Refuse a dearer call.")] = None,
    consistency: Annotated[
        Consistency | None, typer.Option(help="monotonic: not older than the monotonic reads before it.")
    ] = None,
) -> None:
    """Make one JSON-RPC call. The result is JSON; the credits that are left are told beside it."""
    given = [_value(text) for text in params or ()]
    async with shell.caller() as gateway:
        found = await gateway.call(
            *(method, *given), idempotency_key=idempotency_key, max_credits=max_credits, consistency=consistency
        )
        shell.out.document(found)
        _tell_cost(shell, gateway)


@command(APP)
async def quote(shell: Shell, method: _Method, params: _Params = None) -> None:
    """Show what a call would cost; free."""
    given = [_value(text) for text in params or ()]
    async with shell.caller() as gateway:
        found = await gateway.quote([(method, *given)])
    if shell.out.as_json:
        return shell.out.document(found)
    for each in found.calls:
        if each.error is not None:
            raise Refused(f"the call would be refused: {_error(each.error)}", "correct the call; a quote is free.")
    rows = [{**builtin(each), "method": each.method or method} for each in found.calls]
    shell.out.table(rows, ("method", "credits", "exact", "reason"), ("credits",))
    shell.out.next(f"`ledger-gateway call {method} ...` makes the call.")
    return None


@command(APP)
async def send(
    shell: Shell,
    transaction: Annotated[str, typer.Argument(help="Base64, a file that holds it, or - for the standard input.")],
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Only send; the answer is the signature.")] = False,
    preflight: Annotated[bool, typer.Option("--preflight", help="Simulate first.")] = False,
    idempotency_key: _Idempotency = None,
) -> None:
    """Send a signed transaction and wait until it is confirmed."""
    signed, key = _transaction(transaction), idempotency_key or new_idempotency_key()
    again = f"the same command with --idempotency-key {key} gives the answer of this send, and sends nothing twice."
    async with shell.caller() as gateway:
        try:
            with shell.out.steps(2) as begin:
                begin("sending, and waiting until it is confirmed" if not no_wait else "sending")
                method = "sendTransaction" if no_wait else "sendAndConfirm"
                options: dict[str, Any] = {"encoding": "base64", "skipPreflight": not preflight}
                found = await gateway.call(method, signed, options, idempotency_key=key)
        except (Unreachable, BadAnswer, Unavailable, KeyConflict) as error:  # Any other refusal came before the send.
            raise Refused(str(error), f"{error.next_step} Then: {again}") from None
        if no_wait:
            shell.out.rows({"signature": found, "idempotency_key": key})
            shell.out.next("`ledger-gateway call getSignatureStatuses '[\"SIGNATURE\"]'` tells its state.")
            return
        shell.out.rows({**found, "idempotency_key": key} if isinstance(found, dict) else {"result": found})
        _tell_cost(shell, gateway)
    if isinstance(found, dict) and found.get("confirmed") is not True:
        raise Refused(f"not confirmed: {plain(str(found.get('error') or found.get('status') or 'unknown'))}", again)


def _tell_cost(shell: Shell, gateway: Gateway) -> None:
    left, cost = gateway.figures.credits_remaining, gateway.headers.get("x-credits-cost")
    told = [] if cost is None else [f"cost {plain(cost)}"]
    told += [] if left is None else [f"{left:,} credits left"]
    if told:
        shell.out.say("; ".join(told))


def _value(text: str) -> Any:
    """Return JSON, and a text that is no JSON as itself: an address needs no quotes."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _transaction(given: str) -> str:
    """Return the base64 of a transaction, from an argument, a file, or the standard input."""
    text = given
    if given == "-":
        text = sys.stdin.read()
    elif len(given) < 256 and Path(given).is_file():
        raw = Path(given).read_bytes()
        text = raw.decode("ascii", "ignore") if raw.isascii() else base64.b64encode(raw).decode()
    text = "".join(text.split())
    try:
        size = len(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        size = 0
    if not 0 < size <= _TRANSACTION_BYTES_MAX:
        what = f"{given} is neither a file nor a" if 0 < len(given) < 256 and given != "-" else "that is no"
        raise Refused(
            f"{what} transaction in base64", "sign it first, and give its base64, a file that holds it, or -."
        )
    return text


def _error(error: Any) -> str:
    return str(error.get("message", error)) if isinstance(error, dict) else str(error)
