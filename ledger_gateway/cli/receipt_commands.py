"""`receipts`, `verify`, `bill`: receipts of the ledger, their check with the published keys, and a month's sums."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
import typer

from ledger_gateway.cli.shell import Refused, Shell, command
from ledger_gateway.receipts import (
    OUTCOMES,
    TYPES,
    Chain,
    NotProven,
    PublishedKey,
    Receipt,
    check,
    check_continued,
    public_keys,
    read_receipts,
)

APP = typer.Typer(no_args_is_help=True)
KEYS_PATH = "/.well-known/ledger-keys.json"
_COLUMNS = ("number", "time", "type", "credits", "method", "outcome")


@command(APP)
async def receipts(
    shell: Shell,
    name: Annotated[
        str | None, typer.Argument(help="An operation of X-Receipt, or AT_MS-NUMBER of an entry; else the newest ones.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write here, in place of the standard output.")] = None,
    from_: Annotated[str | None, typer.Option("--from", help="ISO 8601 or Unix seconds.")] = None,
    to: Annotated[str | None, typer.Option("--to", help="ISO 8601 or Unix seconds.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100)] = 20,
) -> None:
    """Get signed receipts of ledger entries, as JSON."""
    async with shell.caller() as gateway:
        if name is not None:
            found = await gateway.page(f"/account/receipts/{name}")
        else:
            found = await gateway.page("/account/receipts", {"from": from_, "to": to, "limit": limit})
    if out is None:
        shell.out.document(found)
    else:
        with out.open("x", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
    shell.out.next(f"`ledger-gateway verify {out or 'FILE'}` checks them with the published keys.")


class BillFormat(StrEnum):
    JSON, CSV, BEANCOUNT, HTML, PARQUET = "json", "csv", "beancount", "html", "parquet"


@command(APP)
async def bill(
    shell: Shell,
    month: Annotated[str, typer.Argument(help="Such as 2026-11, in UTC.")],
    by: Annotated[str, typer.Option("--by", help="month, or day: lines for each day.")] = "month",
    form: Annotated[BillFormat, typer.Option("--format", help="Of --out.")] = BillFormat.CSV,
    out: Annotated[Path | None, typer.Option("--out", help="Write here in that format; a new file.")] = None,
) -> None:
    """Show what a month began with, what came and went, and what was left."""
    path = f"/account/bills/{month}"
    async with shell.caller() as gateway:
        found = await gateway.page(path, {"by": by})
        if out is not None and form not in (BillFormat.JSON, BillFormat.PARQUET):
            written = await gateway.text(path, {"by": by, "format": form.value})
        else:
            written = json.dumps(found, indent=1)
    if out is not None:
        with out.open("xb") as file:
            if form is BillFormat.PARQUET:
                _write_parquet(found, file)
            else:
                file.write(written.encode())
    if shell.out.as_json:
        return shell.out.document(found)
    rows = [{**line, "method": line["method"] or ""} for line in found["lines"]]
    columns = (
        ("day", "type", "method", "entries", "credits") if by == "day" else ("type", "method", "entries", "credits")
    )
    shell.out.text(f"{found['month']}: {found['opening']['balance']:,} credits at the beginning")
    shell.out.table(rows, columns, ("entries", "credits"))
    shell.out.text(f"{found['closing']['balance']:,} credits at the end")
    shell.out.next(f"`ledger-gateway receipts {found['closing']['receipt']}` proves the last balance.")
    return None


def _write_parquet(bill: Any, file: BinaryIO) -> None:
    """Lines, with the balances of both ends in the file's metadata."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        raise Refused("Parquet needs pyarrow", "`pip install ledger-gateway[data]` installs it.") from None
    kinds = {"entries": pa.int64(), "credits": pa.int64(), "first": pa.int64(), "last": pa.int64()}
    names = ("day", "type", "method", "entries", "credits", "first", "last", "digest")
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in names])
    ends = {name: str(bill[name]["balance"]) for name in ("opening", "closing")}
    table = pa.Table.from_pylist(bill["lines"], schema=schema)
    pq.write_table(table.replace_schema_metadata({"account": bill["account"], "month": bill["month"], **ends}), file)


@command(APP)
async def verify(
    shell: Shell,
    files: Annotated[list[Path], typer.Argument(help="Answers of /account/receipts and /account/consistency.")],
    keys: Annotated[
        Path | None, typer.Option("--keys", help=f"{KEYS_PATH} as you saved it; else the gateway is asked.")
    ] = None,
) -> None:
    """Check receipts. Exit code 1: one does not hold."""
    documents = [(path, _read(path)) for path in files]
    if keys is None:
        async with shell.gateway() as gateway:
            published = await gateway.page(KEYS_PATH)
    else:
        published = _read(keys)
    known = _public_keys(published)
    found = [one for path, each in documents if not _is_chain(each) for one in _checked(path, each, known)]
    chains = [(path, each) for path, each in documents if _is_chain(each)]
    for path, each in chains:
        _check_chain(path, each, found)
    if not found:
        raise Refused("there is no receipt in these files", "`ledger-gateway receipts --out FILE` gets some.")
    rows = [_row(receipt) for receipt in found]
    if shell.out.as_json:
        return shell.out.document({"ok": True, "receipts": rows, "chains": len(chains)})
    shell.out.table(rows, _COLUMNS, ("number", "credits"))
    continued = f", and {len(chains)} of the chains between them" if chains else ""
    shell.out.text(f"{len(found)} receipts hold{continued}.")
    shell.out.next(f"keep them, and {KEYS_PATH}: they prove the ledger whatever becomes of the gateway.")
    return None


def _public_keys(published: Any) -> dict[str, PublishedKey]:
    try:
        return public_keys(published)
    except NotProven as error:
        raise Refused(str(error), f"give what GET {KEYS_PATH} answers, as it is.") from None


def _checked(path: Path, document: Any, known: dict[str, PublishedKey]) -> list[Receipt]:
    try:
        found = read_receipts(document)
        for receipt in found:
            check(receipt, known)
    except NotProven as error:
        raise _refused(path, error) from None
    return found


def _check_chain(path: Path, document: Any, receipts: Sequence[Receipt]) -> None:
    """Check that the chain leads from one of the receipts to another one."""
    try:
        chain = msgspec.convert(document, Chain)
        last = chain.after + len(chain.entries)
        ours = {one.entry.number: one for one in receipts if one.account == chain.account}
        if chain.after not in ours or last not in ours:
            raise NotProven(f"the entries after {chain.after} up to {last} need the receipts of both of these entries")
        check_continued(ours[chain.after], ours[last], chain)
    except (NotProven, msgspec.ValidationError) as error:
        raise _refused(path, error) from None


def _refused(path: Path, error: Exception) -> Refused:
    return Refused(
        f"{path}: not proven: {error}",
        "keep the file and its source: either it was changed on the way, or the ledger is not what was signed.",
    )


def _row(receipt: Receipt) -> dict[str, Any]:
    entry = receipt.entry
    is_call = TYPES[entry.type] == "debit" if entry.type < len(TYPES) else False
    return {
        "number": entry.number,
        "time": f"{datetime.fromtimestamp(entry.at_ms / 1000, UTC):%F %T} UTC",
        "type": TYPES[entry.type] if entry.type < len(TYPES) else str(entry.type),
        "credits": entry.amount,
        "balance": entry.balance,
        "method": entry.method,
        "outcome": OUTCOMES[entry.outcome] if is_call and entry.outcome < len(OUTCOMES) else "",
        "request": entry.request_id,
        "operation": entry.operation,
    }


def _is_chain(document: Any) -> bool:
    return isinstance(document, dict) and "after" in document


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (ValueError, UnicodeDecodeError):
        raise Refused(f"{path} is no JSON", "give files that the gateway answered, as they are.") from None
