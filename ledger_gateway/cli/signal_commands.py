"""`signals`: what programs emit on the chain."""

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Annotated

import typer

from ledger_gateway.cli.output import builtin
from ledger_gateway.cli.shell import Refused, Shell, command
from ledger_gateway.history import HistoryReader
from ledger_gateway.history_files import writer_of
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


@command(_SIGNALS)
async def history(
    shell: Shell,
    path: Annotated[Path, typer.Argument(help="File to write: .parquet, .arrow, .jsonl or .csv.")],
    start: Annotated[str | None, typer.Option("--from", help="Time in UTC, as 2026-11-22T19:00, or seconds.")] = None,
    to: Annotated[str | None, typer.Option("--to", help="End of the time, exclusive; now where absent.")] = None,
    kind: _Kinds = None,
    program: Annotated[str | None, typer.Option("--program", help="Only of this program.")] = None,
    mint: _Mint = None,
    cursor: Annotated[str | None, typer.Option("--cursor", help="Only what comes after this place.")] = None,
    max_credits: Annotated[int | None, typer.Option("--max-credits", min=1, help="Spend no more than this.")] = None,
) -> None:
    """Write the signals of a time to a file; priced per thousand. A cut connection is taken up again."""
    if path.exists():
        raise FileExistsError(17, "exists", str(path))
    try:
        write = writer_of(path)
    except ImportError as error:
        raise Refused(str(error), "install the extra, or write a .jsonl file.") from None
    except ValueError as error:
        raise Refused(str(error), "name the file by its format.") from None
    part = path.with_name(path.name + ".part")
    try:
        async with shell.caller() as gateway:
            reader = HistoryReader(
                *(gateway, start, to), kinds=kind, program=program, mint=mint, cursor=cursor, max_credits=max_credits
            )
            with part.open("xb") as file, write(file) as add:
                async with aclosing(reader.groups()) as groups:
                    async for group in groups:
                        await asyncio.to_thread(add, group)
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)
    end = reader.end
    assert end is not None
    shell.out.rows(
        {"signals": end.events, "credits": end.credits, "ended": end.reason, "gaps": len(end.gaps), "file": str(path)}
    )
    if end.reason != "complete":
        shell.out.next(f"`ledger-gateway signals history FILE --cursor {end.cursor}` goes on here.")


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
