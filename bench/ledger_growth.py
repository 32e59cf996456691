"""Measures what a ledger of ten million entries costs its readers, its audit and its disk.

One account has four fifths of the entries, which fill twelve monthly partitions (ledger_rows.py: with true hashes, so
the audit has nothing to name). Each question is what an owner asks the store for one page, shaped to the JSON of the
answer. Beside it stands the same page by the plain condition on the ledger, which reads all that stands between the
entries of a rare kind; both must have the same entries. HTTP and the way to the owner come on top.
"""

import asyncio
import contextlib
import gc
import inspect
import shutil
import statistics
import time
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import asyncpg
import typer

from actors.accounts.audit import LedgerReport, audit
from actors.accounts.ledger import Entry, EntryType
from actors.accounts.listings import NO_FILTER, LedgerFilter, line_of
from actors.accounts.store import PostgresAccountStore
from actors.calls import HoldItem, HoldRequest, Outcome, ProvenProof, SettleRequest
from actors.config import AccountsConfig, PaymentsConfig
from actors.gateway.pages.ledger import LedgerPage, ledger_body
from actors.gateway.pages.usage import JSON
from actors.storage.connections import connect_postgres
from bench import ledger_rows, scenario, stores, systems, usage
from bench.figures import percentile
from bench.ledger_rows import BUSY, METHODS, RARE
from bench.scenario import Wrong, console

PAGE_MS_MAX = 50.0
_LIMIT = 50
_TURNS = 20
_PLAIN_SECONDS_MAX = 60.0
_BYTES_PER_ROW = 640  # On the disk: 470 of tables, the write-ahead log, and what the audit sorts beside them.
_CHARGES, _CHARGED_AT_ONCE = 10_000, 64
_COLUMNS = "seq, at_ms, type, amount, balance, operation_id, method, outcome, description, parcels"
_DISK = """
SELECT CASE WHEN t.relname LIKE 'ledger%' THEN 'ledger' ELSE t.relname END AS table,
       CASE WHEN i.indexrelid IS NULL THEN 'rows' WHEN i.indisprimary THEN 'primary key'
            ELSE 'index by type' END AS part,
       sum(pg_relation_size(COALESCE(i.indexrelid, t.oid)))::bigint AS bytes
FROM pg_class t LEFT JOIN LATERAL (SELECT NULL::oid AS indexrelid, false AS indisprimary UNION ALL
    SELECT x.indexrelid, x.indisprimary FROM pg_index x WHERE x.indrelid = t.oid) AS i ON true
WHERE t.relkind = 'r' AND t.relnamespace = 'public'::regnamespace
  AND (t.relname LIKE 'ledger_2%' OR t.relname IN ('account_debits', 'account_operations', 'account_usage'))
GROUP BY 1, 2 ORDER BY 3 DESC
"""


class PageQuestion(NamedTuple):
    """One page of the busy account. plain_too: also by the plain condition, which may take very long."""

    name: str
    filter: LedgerFilter = NO_FILTER
    limit: int = _LIMIT
    plain_too: bool = False


def questions(begins: list[int]) -> list[PageQuestion]:
    """Return the measured pages. begins: starts of the months, and the end of the last one."""
    early, middle = (begins[0] + 86_400_000, 1), (begins[len(begins) // 2], 1)
    of_last_month = LedgerFilter(from_ms=begins[-2], to_ms=begins[-1], method=RARE)
    rare_kind, none = int(EntryType.REFUND), int(EntryType.DEPOSIT)
    return [
        PageQuestion("first page"),
        PageQuestion("first page of 500", limit=500),
        PageQuestion("by cursor, half-way", LedgerFilter(middle)),
        PageQuestion("by cursor, at the far end", LedgerFilter(early)),
        PageQuestion("by type: charges", LedgerFilter(kind=int(EntryType.DEBIT))),
        PageQuestion("by type: one in 2,000", LedgerFilter(kind=rare_kind), plain_too=True),
        PageQuestion("by type: one, the oldest", LedgerFilter(kind=int(EntryType.ADJUSTMENT)), plain_too=True),
        PageQuestion("by type: none", LedgerFilter(kind=none), plain_too=True),
        PageQuestion("by method: a common one", LedgerFilter(method=METHODS[0])),
        PageQuestion("by method: a common one, half-way", LedgerFilter(middle, method=METHODS[0])),
        PageQuestion("by method: 50 in all", LedgerFilter(method=RARE), plain_too=True),
        PageQuestion("by method: 50 in all, of the last month", of_last_month, plain_too=True),
        PageQuestion("by method: never called", LedgerFilter(method="getBlockTime"), plain_too=True),
    ]


async def pages(store: PostgresAccountStore, question: PageQuestion) -> tuple[list[Entry], list[float]]:
    """Ask for a page some times; return its entries and the milliseconds of each time, the first one first."""
    times = []
    for _ in range(_TURNS + 1):
        began = time.perf_counter()
        entries = await store.entries(BUSY, 0, question.limit, False, question.filter)
        lines = [line_of(entry, detailed=True) for entry in entries]
        ledger_body(LedgerPage(0, question.limit, question.filter, JSON, True), lines)
        times.append((time.perf_counter() - began) * 1e3)
    return entries, times


async def plain_page(connection: asyncpg.Connection, question: PageQuestion) -> tuple[list[Entry], float]:
    """The same page by the condition alone, once, without the indexes by type and method; and its milliseconds."""
    condition, values = question.filter.condition(3)
    async with connection.transaction():
        # The partial index cannot serve a condition in which the type is no constant.
        sql = condition.replace(" AND type = ", " AND type + 0 = ")
        began = time.perf_counter()
        rows = await connection.fetch(
            f"SELECT {_COLUMNS} FROM ledger WHERE pubkey = $1{sql} ORDER BY at_ms DESC, seq DESC LIMIT $2",
            *(BUSY, question.limit, *values),
            timeout=_PLAIN_SECONDS_MAX,
        )
    return [Entry(*row) for row in rows], (time.perf_counter() - began) * 1e3


async def ask_all(
    store: PostgresAccountStore, owner: asyncpg.Connection, begins: list[int]
) -> dict[str, dict[str, float | None]]:
    found: dict[str, dict[str, float | None]] = {}
    for question in questions(begins):
        entries, (first, *times) = await pages(store, question)
        plain_ms = None
        if question.plain_too:
            with contextlib.suppress(TimeoutError):
                plain, plain_ms = await plain_page(owner, question)
                if plain != entries:
                    raise Wrong(f"{question.name}: {len(entries)} entries, by the plain condition {len(plain)}")
        found[question.name] = {
            "entries": len(entries),
            "first_ms": first,
            "p50_ms": statistics.median(times),
            "p99_ms": percentile(times, 99),
            "plain_ms": plain_ms,
        }
    for name, first_ms, by in (
        ("usage of the last month by method and hour", begins[-2], ("method", "hour")),
        ("usage of the first month by method and day", begins[0], ("method", "day")),
    ):
        hours = first_ms // 3_600_000, (begins[-1] if first_ms == begins[-2] else begins[1]) // 3_600_000
        times, lines = [], []
        for _ in range(_TURNS + 1):
            began = time.perf_counter()
            lines = await store.usage.read(BUSY, *hours, by)
            times.append((time.perf_counter() - began) * 1e3)
        found[name] = {
            "entries": len(lines),
            "first_ms": times[0],
            "p50_ms": statistics.median(times[1:]),
            "p99_ms": percentile(times[1:], 99),
            "plain_ms": None,
        }
    return found


async def charges_per_second(urls: stores.Stores) -> float:
    """Charge calls of the busy account by an owner in this process, _CHARGED_AT_ONCE at a time, each durable before the
    next of its caller. The audit sees them too."""
    limits = AccountsConfig(requests_per_second=1_000_000, concurrency=10_000)
    shard = await stores.account_owner(urls.postgres, urls.redis, PaymentsConfig(), limits)
    proof, numbers = ProvenProof(BUSY), iter(range(_CHARGES))

    async def caller() -> None:
        for number in numbers:
            operation = b"charging" + number.to_bytes(8, "big")
            held = await _reply(shard.hold_now(HoldRequest(operation, proof, (HoldItem(METHODS[0], 1),))))
            if held.refusal is not None or held.verdicts != (None,):
                raise Wrong(f"a call of the busy account is refused: {held.refusal or held.verdicts}")
            end = (operation, BUSY, held.epoch, METHODS[0], 1, 1, int(Outcome.ANSWERED), int(time.time()))
            settled = await _reply(shard.settle_now(SettleRequest(*end)))
            if not settled.ok:
                raise Wrong("a call of the busy account could not be charged")

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(_CHARGED_AT_ONCE)))
    seconds = time.perf_counter() - began
    await shard.stop()
    return _CHARGES / seconds


async def _reply(found: Any) -> Any:
    """Return an owner's reply, once it is durable."""
    if inspect.isawaitable(found):
        found = await found
    if isinstance(found, tuple) and not hasattr(found, "refusal"):
        reply, durable = found
        if durable is not None:
            await durable
        return reply
    return found


async def audited(connection: asyncpg.Connection) -> tuple[LedgerReport, float]:
    """Run the whole audit of the ledger, which must find nothing; return it and its seconds."""
    await connection.execute("SET statement_timeout = 0")
    began = time.perf_counter()
    report = await audit(connection)
    if report.faults_total:
        raise Wrong(f"the audit names {report.faults_total} differences: {str(report.faults)[:500]}")
    return report, time.perf_counter() - began


async def measure(
    rows: int, months: int, load_seconds_max: float, with_audit: bool, urls: stores.Stores
) -> dict[str, Any]:
    await urls.migrate()
    pool = await connect_postgres(urls.postgres, connections_max=4, application="bench ledger")
    owner = await asyncpg.connect(urls.owner)
    store = PostgresAccountStore(pool)
    began = time.perf_counter()
    written = await ledger_rows.load(owner, store, rows, months, 0.8, load_seconds_max)
    load_seconds = time.perf_counter() - began
    console.print(f"{written:,} entries with true hashes in {months} months, loaded in {load_seconds:.0f} s")
    rolled, roll_seconds = await usage.roll(store)
    console.print(f"usage of {rolled:,} entries of the busy account rolled up in {roll_seconds:.0f} s")
    for (pubkey,) in await owner.fetch("SELECT pubkey FROM accounts WHERE pubkey <> $1", BUSY):
        await usage.roll(store, pubkey)
    await owner.execute("VACUUM ANALYZE account_usage")
    gc.collect()
    gc.freeze()  # An owner does not have the memory that the load left.
    found = await ask_all(store, owner, ledger_rows.months(months))
    scenario.show(
        f"{written:,} entries, {rolled:,} of one account: milliseconds of a page",
        ("question", "entries", "first", "p50", "p99", "plain condition"),
        [
            (name, *(v if v is None or k == "entries" else float(v) for k, v in row.items()))
            for name, row in found.items()
        ],
    )
    disk = {(row["table"], row["part"]): int(row["bytes"]) for row in await owner.fetch(_DISK)}
    scenario.show(
        "disk",
        ("table", "part", "MB", "bytes an entry"),
        [(*key, size / 1e6, size / written) for key, size in disk.items()],
    )
    charged = await charges_per_second(urls)
    console.print(f"charges by one owner, {_CHARGED_AT_ONCE} at once: {charged:,.0f}/s")
    targets = [scenario.at_most(name, PAGE_MS_MAX, row["p99_ms"], "{:,.1f}") for name, row in found.items()]
    figures: dict[str, Any] = {
        "entries": written,
        "load_seconds": load_seconds,
        "rolled_per_second": rolled / roll_seconds,
        "charges_per_second": charged,
        "pages": found,
        "disk": {" ".join(key): size for key, size in disk.items()},
        "disk_bytes_per_entry": sum(disk.values()) / written,
    }
    console.print(f"disk: {figures['disk_bytes_per_entry']:.0f} bytes an entry")
    scenario.show_targets(targets)
    if with_audit:
        report, seconds = await audited(owner)
        figures |= {"audit_seconds": seconds, "audited_per_second": report.entries.total() / seconds}
        console.print(
            f"audit: {report.entries.total():,} entries in {seconds:.0f} s, {report.entries.total() / seconds:,.0f}/s"
        )
    await owner.close()
    await store.close()
    await pool.close()
    return figures


def main(
    rows: Annotated[int, typer.Option("--entries", "--rows", min=100_000, help="Entries of the ledger.")] = 10_000_000,
    months: Annotated[int, typer.Option(min=1, max=60, help="Partitions that they fill.")] = 12,
    load_seconds: Annotated[float, typer.Option(help="Stop loading after so long, with what there is.")] = 7_200.0,
    audit: Annotated[bool, typer.Option("--audit/--no-audit", help="Run the audit too.")] = True,
) -> dict[str, Any]:
    """Load, roll up, ask, audit; ten million entries take about ten minutes and 7 GB."""
    with systems.temporary_folder() as folder:
        _require_disk(folder, rows)
        with stores.running(folder) as urls:
            return asyncio.run(measure(rows, months, load_seconds, audit, urls))


def _require_disk(folder: Path, rows: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < rows * _BYTES_PER_ROW:
        raise typer.BadParameter(
            f"{rows:,} entries need {rows * _BYTES_PER_ROW / 1e9:.0f} GB, {free / 1e9:.0f} are free"
        )
