"""`python -m actors.memos.audit`: compares the memos on the chain with the files of signed statements.

Implements: decisions, "Signed roots" (memos on the chain). Reads the chain, through a node, and files; it needs no
database. Whoever holds the cluster's secret could sign another past and write the files anew: a memo says since when a
statement was as it is, and the statement covers all before it in its series. Memory grows with the memos alone.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console

from actors.accounts.audit_database import RootsKeysOption, report_console
from actors.accounts.audit_report import AuditFailed, AuditReport, exit_where_unreadable
from actors.accounts.signed_links import read_keys
from actors.clock import SystemClock
from actors.config import UpstreamConfig
from actors.memos.chain import MemoChain, NoAnswer, Paid
from actors.memos.core import Root, roots_of
from actors.receipts.root_keys import ProvenKey
from actors.receipts.roots_file import BrokenRoots, files_of, read_roots
from actors.units import parse_pubkey
from actors.upstream.api import Nodes

_SLACK_SECONDS = 60  # Allowance between the ledger's clock and the chain's.


@dataclass(slots=True)
class MemosReport(AuditReport):
    memos: int = 0
    statements: int = 0  # Statements in the files.
    series: int = 0  # Series with a memo.
    newest_seconds: int = 0  # Block time of the newest memo; 0: there is none, or the node does not give it.
    lamports: int = 0  # Fees that the chain charged for the memos.


class _Told(NamedTuple):
    """Content of a memo, and its place on the chain."""

    digest: bytes
    paid: Paid


async def audit(
    chain: MemoChain, payer: str, paths: Iterable[Path], pinned: dict[str, ProvenKey] | None = None
) -> MemosReport:
    """Compare memos and files. Raises NoAnswer, BrokenRoots, OSError."""
    report, told = MemosReport(), dict[tuple[int, int], list[_Told]]()
    async for paid in chain.paid_by(payer):
        roots = roots_of(paid.transaction, payer)
        report.lamports += paid.fee if roots else 0
        for root in roots:
            report.memos += 1
            report.newest_seconds = max(report.newest_seconds, paid.block_seconds)
            told.setdefault((root.series, root.number), []).append(_Told(root.digest, paid))
    report.series = len({series for series, _ in told})
    ends: dict[int, int] = {}
    found: set[tuple[int, int]] = set()
    for file in files_of(paths):
        for written in read_roots(file, pinned):
            report.statements += 1
            statement = written.statement
            ends[statement.series] = max(ends.get(statement.series, 0), statement.number)
            for one in told.get((statement.series, statement.number), ()):
                found.add((statement.series, statement.number))
                root = Root(statement.series, statement.number, written.signed.digest)
                _compare(root, statement.at_ms, one, report)
    for (series, number), memos in sorted(told.items()):
        if (series, number) not in found:
            end = ends.get(series, 0)
            why = f"the files end with {end}: later ones were taken away" if end < number else "the files lack it"
            report.add(memos[0].paid.signature, f"the chain has statement {number} of series {series}, and {why}")
    return report


def _compare(root: Root, at_ms: int, told: _Told, report: MemosReport) -> None:
    named = f"statement {root.number} of series {root.series}"
    if told.digest != root.digest:
        report.add(told.paid.signature, f"{named} has another hash in the files than on the chain: it was made anew")
    if told.paid.block_seconds and at_ms > (told.paid.block_seconds + _SLACK_SECONDS) * 1000:
        report.add(told.paid.signature, f"{named} says that it is of later than the block which has its memo")


def show(report: MemosReport, console: Console) -> None:
    newest = f"{datetime.fromtimestamp(report.newest_seconds, UTC):%F %T} UTC" if report.newest_seconds else "none"
    console.print(
        f"{report.memos} memos of {report.series} series, for {report.lamports} lamports; the newest: {newest}. "
        f"{report.statements} statements in the files."
    )
    if report.faults_total == 0:
        console.print("Each memo has the statement of the files.")
        return
    report.show_faults(
        "transaction",
        "Next: keep the files and the database as they are, and compare with files and checkpoints that are kept "
        "elsewhere. After a restore of the database, numbers were used again: the files of before it have the others.",
        console,
    )


def document(report: MemosReport) -> dict[str, Any]:
    """Return the report for programs."""
    told = {one.name: getattr(report, one.name) for one in fields(report)}
    return {"differences": told.pop("faults_total"), "faults": told.pop("faults"), **told}


async def run(node_url: str, payer: str, roots: Iterable[Path], keys: Path | None) -> MemosReport:
    """Run the audit. Raises AuditFailed, CheckpointError."""
    pinned = None if keys is None else read_keys(keys)
    nodes = Nodes(UpstreamConfig(node_url=node_url, cache_bytes_max=0), SystemClock(), lambda *_: None)
    try:
        await nodes.probe()
        return await audit(MemoChain(nodes), payer, roots, pinned)
    except NoAnswer as error:
        raise AuditFailed(f"{error}. Check --node-url.") from error
    except (OSError, BrokenRoots) as error:
        raise AuditFailed(f"{error}; keep the file as it is, and give one that nobody has changed") from error
    finally:
        await nodes.close()


def main(
    node_url: Annotated[str, typer.Option("--node-url", help="JSON-RPC URL of a node that has the history.")],
    payer: Annotated[str, typer.Option("--payer", help="Address of the key that pays for the memos.")],
    roots: Annotated[
        list[Path], typer.Option("--roots", help="Files of signed statements, or their folder; those of all machines.")
    ],
    roots_keys: RootsKeysOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document, for programs.")] = False,
) -> None:
    """Compare the memos on the chain with the files of signed statements; exit 1 on any difference, 2 if one cannot
    be read."""
    console = report_console()
    with exit_where_unreadable(console, ""):
        if parse_pubkey(payer) is None:
            raise AuditFailed("--payer is no address of the chain")
        report = asyncio.run(run(node_url, payer, roots, roots_keys))
    console.print_json(data=document(report)) if as_json else show(report, console)
    report.exit()


if __name__ == "__main__":
    typer.run(main)
