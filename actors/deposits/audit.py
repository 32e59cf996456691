"""`python -m actors.deposits.audit --node-url URL`: compares every credited transfer with the chain, to the unit.

Implements: money rules 4 and 6. Reads the chain again, transaction by transaction, and compares it with the
books: every transfer on the chain must be credited once, with its amount at the rate of its day, or be listed with a
reason; and no transfer may be credited that the chain does not have. Writes nothing, so a server that is still being
restored can be audited too. May run beside a serving instance: transactions that the watcher has not read yet are left
out. Memory use does not grow.

A row of the books that the chain does not explain is named: also one with a slot that the node has not reached, and
one that the watcher has not read and the node does not know after minutes. One from before the node's history cannot be
proven at this node and is named too, unless its entry of the ledger is in the chain of a signed checkpoint
(`--against`): make checkpoints when this audit passes.
"""

import asyncio
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import asyncpg
import orjson
import typer
from rich.console import Console
from rich.table import Table

from actors.accounts.audit_database import (
    AgainstOption,
    DataDirOption,
    KeyOption,
    PostgresUrlOption,
    SettingsDirOption,
    XdgOption,
    folder_of,
    reading,
    report_console,
)
from actors.accounts.audit_report import AuditFailed, AuditReport, exit_where_unreadable
from actors.accounts.checkpoint import Checkpoint, CoveredDeposits, open_checkpoints
from actors.clock import SystemClock
from actors.config import UpstreamConfig
from actors.deposits.usdc.chain import PAGE_MAX, ChainUnavailable, DepositChain, Seen, UnknownPosition
from actors.deposits.usdc.core import FindingStatus
from actors.deposits.usdc.transfers import DepositAccount, Executed, Unreadable, failure_of, place_of, read
from actors.units import UNITS_PER_USDC, usdc_text
from actors.upstream.api import Nodes
from actors.upstream.replies import AnswerKind, Node

_READS_AT_ONCE = 32
_ROWS_AHEAD = 2_000
_INDEX_BYTES = 4
# A payment with a call is credited before it is final: its slot may be somewhat above the newest final one. 60 s.
_SLOTS_AHEAD_MAX = 150
# A signature that a node does not know when its slot or its row is so old was never on the chain.
_UNKNOWN_SLOTS_MAX, _UNKNOWN_MS_MAX = 750, 300_000
_REST = (
    "SELECT d.pubkey, d.operation, d.slot, d.base_units, d.at_ms, d.assigned,"
    " (extract(epoch FROM clock_timestamp()) * 1000)::bigint - d.at_ms AS age_ms FROM account_deposits d"
    " WHERE d.returned_ms IS NULL ORDER BY d.pubkey, d.at_ms"
)


@dataclass(slots=True)
class DepositsReport(AuditReport):
    transfers: int = 0  # Final transfers into the deposit account.
    received: int = 0  # Base units of those transfers.
    credited: int = 0  # Base units of credited transfers, assigned ones included.
    credits: int = 0  # Credits for those, without bonuses.
    waiting: int = 0  # Base units listed for the operator.
    unexplained: int = 0  # Base units that came without a transfer; the operator may have assigned some.
    older: int = 0  # Credited transfers that the node no longer has, and that a checkpoint covers.
    young: int = 0  # Payments with a call, newer than the watcher's last reading.
    unread: int = 0  # Transactions of the deposit accounts that the watcher has still to read.
    taken_back: int = 0  # Credits.


async def audit(
    connection: asyncpg.Connection, node: Node, start_slot: int = 0, earlier: Checkpoint | None = None
) -> DepositsReport:
    """Compare every account that was ever watched. earlier: of the ledger; what it covers needs no node. Raises
    AuditFailed and ChainUnavailable."""
    report = DepositsReport()
    chain = DepositChain(node)
    first_slot, read_until, accounts = await chain.first_slot(), 0, []
    with closing(_Explained()) as explained:
        for row in await connection.fetch("SELECT account, read_slot FROM deposit_cursor ORDER BY account"):
            read_until = max(read_until, row["read_slot"])
            account = await _account(node, row["account"])
            accounts.append(account)
            place = _Place(connection, chain, account, explained)
            await _audit_account(place, start_slot, row["read_slot"], report)
        covered = None if earlier is None else CoveredDeposits(connection, earlier)
        rest = _Rest(connection, chain, accounts, explained, first_slot, read_until, covered)
        await rest.audit(report)
    return report


class _Explained:
    """Operations of the books that the chain's own lists explain.

    In a file of SQLite's that nobody sees and that is gone with it: so memory does not grow, and the database that is
    audited gets not even a temporary table, which a server in recovery could not make.
    """

    def __init__(self) -> None:
        self._file = sqlite3.connect("")
        self._file.execute("CREATE TABLE explained (operation BLOB PRIMARY KEY) WITHOUT ROWID")

    def add(self, operations: Iterable[bytes]) -> None:
        self._file.executemany("INSERT OR IGNORE INTO explained VALUES (?)", ((each,) for each in operations))

    def has(self, operation: bytes) -> bool:
        found = self._file.execute("SELECT 1 FROM explained WHERE operation = ?", (operation,)).fetchone()
        return found is not None

    def close(self) -> None:
        self._file.close()


class _Place(NamedTuple):
    """Where one deposit account is audited."""

    connection: asyncpg.Connection
    chain: DepositChain
    account: DepositAccount
    explained: _Explained


async def _account(node: Node, address: str) -> DepositAccount:
    answer = await node.call("getAccountInfo", orjson.dumps([address, {"encoding": "jsonParsed"}]), 10_000)
    try:
        if answer.kind is not AnswerKind.RESULT:
            raise ChainUnavailable("getAccountInfo")
        parsed = orjson.loads(answer.value())["value"]["data"]["parsed"]["info"]
        return DepositAccount(address, parsed["owner"], parsed["mint"])
    except (TypeError, KeyError) as error:
        raise AuditFailed(f"the node has no token account {address}: is it a node of the right network?") from error


async def _audit_account(place: _Place, start_slot: int, read_slot: int, report: DepositsReport) -> None:
    before: bytes | None = None
    while True:
        page = await place.chain.page(place.account.address, before, None)
        fine = [seen for seen in page if start_slot <= seen.slot and not seen.failed]
        due = [seen for seen in fine if seen.slot <= read_slot]
        report.unread += len(fine) - len(due)
        for number in range(0, len(due), _READS_AT_ONCE):
            await _audit_some(place, due[number : number + _READS_AT_ONCE], report)
        if len(page) < PAGE_MAX or page[-1].slot < start_slot:
            return
        before = page[-1].signature


async def _audit_some(place: _Place, some: Sequence[Seen], report: DepositsReport) -> None:
    connection, chain, account, explained = place
    told = await asyncio.gather(*(chain.transaction(seen.signature) for seen in some))
    names = [seen.signature for seen in some]
    credited = {
        row["operation"]: row
        for row in await connection.fetch(
            "SELECT operation, base_units, credits, credits_per_usdc FROM account_deposits"
            " WHERE substr(operation, 1, 64) = ANY ($1)",
            names,
        )
    }
    listed = {
        (row["signature"], row["transfer_index"])
        for row in await connection.fetch(
            "SELECT signature, transfer_index FROM deposits"
            " WHERE account = $1 AND signature = ANY ($2) AND status = $3",
            account.address,
            names,
            FindingStatus.LISTED,
        )
    }
    for seen, transaction in zip(some, told, strict=True):
        executed = _read(transaction, account)
        if executed is None:
            report.add(seen.signature, "the node lists it and does not give it")
            continue
        _compare(seen.signature, executed, account, credited, listed, report)
    explained.add(credited)


def _read(transaction: dict[str, Any] | None, account: DepositAccount) -> Executed | None:
    try:
        if transaction is None or failure_of(transaction) is not None:
            return None
        return read(transaction, account)
    except Unreadable:
        return None


def _compare(
    signature: bytes,
    executed: Executed,
    account: DepositAccount,
    credited: dict[bytes, Any],
    listed: set[tuple[bytes, int]],
    report: DepositsReport,
) -> None:
    """Compare one transaction of the chain with its rows in the books."""
    brought = 0
    for each in executed.transfers:
        if each.source == account.address or each.amount == 0:
            continue
        brought += each.amount
        report.transfers += 1
        report.received += each.amount
        row = credited.get(signature + each.index.to_bytes(_INDEX_BYTES, "big"))
        where = f"transfer {place_of(each.index)} of {usdc_text(each.amount)} USDC"
        if row is not None:
            report.credited += each.amount
            report.credits += row["credits"]
            if row["base_units"] != each.amount:
                report.add(signature, f"{where} was credited as {usdc_text(row['base_units'])}")
            if row["credits"] != each.amount * row["credits_per_usdc"] // UNITS_PER_USDC:
                report.add(signature, f"{where} earned {row['credits']} credits")
        elif (signature, each.index) in listed:
            report.waiting += each.amount
        else:
            report.add(signature, f"{where} was neither credited nor listed")
    credited_units = sum(row["base_units"] for name, row in credited.items() if name.startswith(signature))
    grown = executed.delta or 0
    if credited_units > max(grown, 0):
        report.add(signature, f"{usdc_text(credited_units)} USDC were credited, the balance grew by {grown} units")
    report.unexplained += max(0, grown - brought)


@dataclass(slots=True)
class _Rest:
    """Rows of the books that no transaction explains which the watcher has read."""

    connection: asyncpg.Connection
    chain: DepositChain
    accounts: Sequence[DepositAccount]
    explained: _Explained
    first_slot: int
    read_until: int
    covered: CoveredDeposits | None
    newest: int = 0

    async def audit(self, report: DepositsReport) -> None:
        self.newest = await self.chain.slot()
        async with self.connection.transaction():
            async for row in self.connection.cursor(_REST, prefetch=_ROWS_AHEAD):
                if self.explained.has(row["operation"]):
                    continue
                fault = await self._fault(row, report)
                if fault is not None:
                    report.add(row["operation"][:-_INDEX_BYTES], f"{usdc_text(row['base_units'])} USDC {fault}")
        query = "SELECT COALESCE(sum(taken), 0)::bigint FROM account_deposits"
        report.taken_back = await self.connection.fetchval(query)

    async def _fault(self, row: Any, report: DepositsReport) -> str | None:
        slot = row["slot"]
        if slot > self.newest + _SLOTS_AHEAD_MAX:
            return f"were credited for slot {slot}, which the chain has not reached: its newest is {self.newest}"
        if self.first_slot <= slot <= self.read_until:
            return "were credited that the chain does not have"
        is_older = slot < self.first_slot
        if is_older and self.covered and await self.covered.has(row["pubkey"], row["operation"]):
            report.older += 1
            return None
        transaction = await self.chain.transaction(row["operation"][:-_INDEX_BYTES])
        if transaction is not None:
            if not self._is_transfer(transaction, row):
                return "were credited, and their transaction is another"
        elif is_older:
            return (
                f"were credited for slot {slot} and cannot be proven at this node, whose history begins at slot"
                f" {self.first_slot}"
            )
        elif not await self._may_become_final(row):
            return "were credited for a transaction that the node does not know"
        report.young += not is_older
        return None

    async def _may_become_final(self, row: Any) -> bool:
        known = await self.chain.known(row["operation"][:-_INDEX_BYTES])
        if known is not None:
            return not known.failed
        slots, age_ms = self.newest - int(row["slot"]), int(row["age_ms"])
        return slots < _UNKNOWN_SLOTS_MAX and abs(age_ms) < _UNKNOWN_MS_MAX  # A row may lie about its time.

    def _is_transfer(self, transaction: dict[str, Any], row: Any) -> bool:
        index = int.from_bytes(row["operation"][-_INDEX_BYTES:], "big")
        for account in self.accounts:
            executed = _read(transaction, account)
            if executed is None:
                continue
            if any((each.index, each.amount) == (index, row["base_units"]) for each in executed.transfers):
                return True
            if row["assigned"] and (executed.delta or 0) >= row["base_units"]:
                return True  # The entry came without a transfer.
        return False


def show(report: DepositsReport, console: Console) -> None:
    table = Table("", "USDC", "credits", title=f"{report.transfers} transfers on the chain")
    table.add_row("received by transfers", usdc_text(report.received), "")
    table.add_row("credited", usdc_text(report.credited), str(report.credits))
    table.add_row("waiting for the operator", usdc_text(report.waiting), "")
    table.add_row("came without a transfer", usdc_text(report.unexplained), "")
    if report.taken_back:
        table.add_row("taken back, never final", "", str(-report.taken_back))
    console.print(table)
    if report.older:
        console.print(f"{report.older} credited transfers are older than the node's history, and in the checkpoint.")
    if report.young:
        console.print(f"{report.young} payments with a call are younger than what the watcher has read: not compared.")
    if report.unread:
        console.print(f"{report.unread} transactions are newer than what the watcher has read: not compared.")
    if report.faults_total == 0:
        console.print("The books and the chain agree: every transfer is credited or listed, once, to the unit.")
        return
    report.show_faults(
        "transaction",
        "Next: `python serve_app.py deposits explain SIGNATURE` credits what is due; the ledger's own audit is\n"
        "`python -m actors.accounts.audit`. Never edit the books: a correction is a new entry.",
        console,
    )


def document(report: DepositsReport) -> dict[str, Any]:
    """Return the report for programs. Amounts in base units of USDC and in credits."""
    told = {field.name: getattr(report, field.name) for field in fields(report)}
    return {"differences": told.pop("faults_total"), "faults": told.pop("faults"), **told}


async def run(
    postgres_url: str | None, data_dir: Path, node_url: str, start_slot: int, earlier: Checkpoint | None
) -> DepositsReport:
    nodes = Nodes(UpstreamConfig(node_url=node_url, cache_bytes_max=0), SystemClock(), lambda *_: None)
    async with reading(postgres_url, data_dir, "deposits audit") as connection:
        try:
            await nodes.probe()
            return await audit(connection, nodes, start_slot, earlier)
        except (ChainUnavailable, UnknownPosition) as error:
            raise AuditFailed(f"The node cannot be read: {error}. Check --node-url.") from error
        finally:
            await nodes.close()


def main(
    node_url: Annotated[str, typer.Option("--node-url", help="JSON-RPC URL of a node that has the history.")],
    postgres_url: PostgresUrlOption = None,
    data_dir: DataDirOption = None,
    start_slot: Annotated[int, typer.Option("--start-slot", min=0, help="As payments.deposit_start_slot.")] = 0,
    against: AgainstOption = None,
    key: KeyOption = None,
    settings_dir: SettingsDirOption = None,
    xdg_data_home: XdgOption = "",
) -> None:
    """Compare every transfer on the chain with the books; exit 1 on any difference, 2 if one cannot be read."""
    console, folder = report_console(), folder_of(data_dir, settings_dir, xdg_data_home)
    no_tables = "This database has no deposits yet: start the product once, or name another."
    with exit_where_unreadable(console, no_tables), open_checkpoints(against, None, key) as checkpoints:
        url = None if data_dir is not None else postgres_url
        report = asyncio.run(run(url, folder, node_url, start_slot, checkpoints.earlier))
    show(report, console)
    report.exit()


if __name__ == "__main__":
    typer.run(main)
