"""Measures the query of GET /account/usage on a ledger of ten million entries.

PostgreSQL is the embedded one; synthetic entries of one busy account and of many others (ledger_rows.py) are loaded by
COPY. Then the rollup is made as an owner makes it, and each query is timed beside the plain sum over the ledger,
alternating. Every answer must equal the plain one.
"""

import asyncio
import statistics
import time
from typing import Annotated, Any

import asyncpg
import typer

from actors.accounts.ledger import EntryType
from actors.accounts.store import PostgresAccountStore
from actors.storage.connections import connect_postgres
from bench import ledger_rows, scenario, stores, systems
from bench.ledger_rows import BUSY
from bench.scenario import console

END_HOUR = ledger_rows.months(1)[-1] // 3_600_000  # All entries are in the month before.
# A refund removes its call from the hour of the charge.
_PLAIN = (
    "SELECT l.method, (COALESCE(d.at_ms, l.at_ms) / 3600000)::integer AS hour,"
    f" sum(CASE l.type WHEN {EntryType.DEBIT:d} THEN 1 ELSE -1 END)::bigint AS calls, -sum(l.amount)::bigint AS credits"
    f" FROM ledger l LEFT JOIN account_debits d ON l.type = {EntryType.REFUND:d} AND d.operation = l.operation_id"
    f" WHERE l.pubkey = $1 AND l.type IN ({EntryType.DEBIT:d}, {EntryType.REFUND:d}) AND l.at_ms >= $2 AND l.at_ms < $3"
    " GROUP BY 1, 2 HAVING sum(CASE l.type WHEN 2 THEN 1 ELSE -1 END) <> 0 OR sum(l.amount) <> 0"
)


async def roll(store: PostgresAccountStore, pubkey: bytes = BUSY) -> tuple[int, float]:
    """Make the rollup of an account in the owner's steps; return its entries, and the seconds that it took."""
    began, rolled = time.perf_counter(), 0
    while (step := await store.usage.roll(pubkey, 5_000)).entries == 5_000:
        rolled += step.entries
    return rolled + step.entries, time.perf_counter() - began


async def compare(
    store: PostgresAccountStore, connection: asyncpg.Connection, days: int, turns: int
) -> tuple[list[float], list[float]]:
    """Return milliseconds of the query of the rollup and of the plain one, alternating. Their answers must be equal."""
    first = END_HOUR - days * 24
    rolled_ms, plain_ms = [], []
    for _ in range(turns):
        began = time.perf_counter()
        lines = await store.usage.read(BUSY, first, END_HOUR, ("method", "hour"))
        middle = time.perf_counter()
        plain = await connection.fetch(_PLAIN, BUSY, first * 3_600_000, END_HOUR * 3_600_000, timeout=120)
        rolled_ms.append((middle - began) * 1e3)
        plain_ms.append((time.perf_counter() - middle) * 1e3)
        assert sorted((ln.method, ln.hour, ln.calls, ln.credits) for ln in lines) == sorted(map(tuple, plain))
    return rolled_ms, plain_ms


async def measure(rows: int, urls: stores.Stores) -> dict[str, Any]:
    await urls.migrate()
    owner = await asyncpg.connect(urls.owner)
    pool = await connect_postgres(urls.postgres, connections_max=4, application="bench usage")
    store = PostgresAccountStore(pool)
    began = time.perf_counter()
    await ledger_rows.load(owner, store, rows, 1, 0.5)
    console.print(f"{rows:,} entries loaded in {time.perf_counter() - began:.0f} s")
    entries, seconds = await roll(store)
    console.print(f"rolled up {entries:,} entries of one account in {seconds:.1f} s, in steps of 5,000")
    found: dict[str, Any] = {"rolled up per second": entries / seconds}
    table = []
    for days, turns in ((1, 7), (7, 5), (30, 3)):
        rolled, plain = (statistics.median(times) for times in await compare(store, owner, days, turns))
        table.append((f"last {days} days", rolled, plain, plain / rolled))
        found[f"last {days} days"] = {"rollup_ms": rolled, "plain_sum_ms": plain}
    scenario.show(f"{rows:,} entries, ms", ("by method and hour", "rollup", "plain sum", "ratio"), table)
    await explain(owner)
    await owner.close()
    await store.close()
    await pool.close()
    return found


async def explain(connection: asyncpg.Connection) -> None:
    """Show how the database answers for a day by method and hour."""
    rows = await connection.fetch(
        "EXPLAIN (ANALYZE, BUFFERS, SUMMARY OFF) SELECT * FROM accounts_usage($1, $2, $3, true, 1, 10001)",
        *(BUSY, END_HOUR - 24, END_HOUR),
    )
    console.print("\n".join(row[0] for row in rows), soft_wrap=True)


def main(
    rows: Annotated[int, typer.Option(min=100_000, help="Entries of the ledger.")] = 10_000_000,
) -> dict[str, Any]:
    """Load, roll up, compare; takes two to six minutes."""
    with systems.temporary_folder() as folder, stores.running(folder) as urls:
        return asyncio.run(measure(rows, urls))
