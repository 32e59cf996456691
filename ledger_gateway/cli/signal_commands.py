"""`signals`: what programs emit on the chain."""

from contextlib import aclosing
from pathlib import Path
from typing import Annotated

import typer

from ledger_gateway.cli.output import builtin
from ledger_gateway.cli.shell import Refused, Shell, command
from ledger_gateway.signals import Signal, SignalGap, to_pandas

APP = typer.Typer(no_args_is_help=True)
_SIGNALS = typer.Typer(help="Signals of the chain.", no_args_is_help=True)
APP.add_typer(_SIGNALS, name="signals")
_Kinds = Annotated[list[str] | None, typer.Option("--kind", help="newPair, graduation, largeSwap, walletActivity.")]
_Mint = Annotated[str | None, typer.Option("--mint", help="Only of this token.")]
_Since = Annotated[str | None, typer.Option("--since", help="Cursor; what came after it comes first.")]


@command(_SIGNALS)
async def tail(
    shell: Shell,
    kind: _Kinds = None,
    mint: _Mint = None,
    program: Annotated[list[str] | None, typer.Option("--program", help="Only of these programs.")] = None,
    wallet: Annotated[list[str] | None, typer.Option("--wallet", help="Watch these wallets.")] = None,
    min_lamports: Annotated[int | None, typer.Option("--min-lamports", min=1, help="Of largeSwap.")] = None,
    since: _Since = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Stop after so many.")] = None,
) -> None:
    """Print signals as they happen, until Ctrl-C; with --json one document in a line. 5 credits, and 1 for each."""
    filters = {"kinds": kind, "mint": mint, "programs": program, "wallets": wallet, "min_lamports": min_lamports}
    shell.out.say("waiting for signals; Ctrl-C stops")
    told, cursor = 0, since
    try:
        async with shell.caller() as gateway, aclosing(gateway.signals(since, **filters)) as signals:
            async for event in signals:
                _print(shell, event)
                if isinstance(event, Signal):
                    told, cursor = told + 1, event.cursor or cursor
                if limit is not None and told >= limit:
                    return
    finally:
        if cursor is not None:
            shell.out.next(f"`ledger-gateway signals tail --since {cursor}` goes on here.")


@command(_SIGNALS)
async def recent(
    shell: Shell,
    kind: _Kinds = None,
    mint: _Mint = None,
    since: _Since = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=500)] = 20,
) -> None:
    """Show recent signals; free."""
    async with shell.gateway() as gateway:
        page = await gateway.recent_signals(limit, since, kinds=kind, mint=mint)
    if shell.out.as_json:
        return shell.out.document(page)
    for event in page.events:
        _print(shell, event)
    if not page.events:
        shell.out.text("no signals yet")
    shell.out.next(f"`ledger-gateway signals tail --since {page.next_cursor}` goes on here.")
    return None


@command(_SIGNALS)
async def export(
    shell: Shell,
    path: Annotated[Path, typer.Argument(help="Parquet file to write.")],
    kind: _Kinds = None,
    mint: _Mint = None,
    since: _Since = None,
) -> None:
    """Write the signals that the gateway has kept to a Parquet file, oldest first; free."""
    if path.exists():
        raise FileExistsError(17, "exists", str(path))
    async with shell.gateway() as gateway:
        found = [signal async for signal in gateway.past_signals(since or "0-0", kinds=kind, mint=mint)]
    try:
        to_pandas(found).to_parquet(path)
    except ImportError as error:
        raise Refused(str(error), "install the extra: `pip install -c constraints.txt -e '.[data]'`.") from None
    shell.out.rows({"signals": len(found), "file": str(path)})
    shell.out.next(f"`pandas.read_parquet({str(path)!r})` reads it.")


def _print(shell: Shell, event: Signal | SignalGap) -> None:
    if shell.out.as_json:
        kind = "gap" if isinstance(event, SignalGap) else "signal"
        shell.out.document({"type": kind, **builtin(event)})
    elif isinstance(event, SignalGap):
        shell.out.text(f"gap: {event.reason}; signals may be missing")
    else:
        size = "" if event.lamports is None else f"  {event.lamports:,} lamports"
        changed = "" if event.correction is None else f"  ({event.correction})"
        shell.out.text(f"{event.slot}  {event.kind}{changed}  {event.mint or '-'}{size}")
        shell.out.text(f"    {event.signature}")
