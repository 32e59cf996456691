"""Measures the query of GET /account/usage on a ledger of ten million entries.

PostgreSQL is the embedded one; synthetic entries of one busy account and of many others are loaded by COPY and marked
like real ones. Then the rollup is made as an owner makes it, and each query is timed beside the plain sum over the
ledger, alternating. Every answer must equal the plain one.
"""

import asyncio
import io
import random
import statistics
import struct
import time
from collections.abc import Sequence
from typing import Annotated, Any

import asyncpg
import typer

from actors.accounts.ledger import EntryType
from actors.accounts.store import PostgresAccountStore
from actors.storage.connections import connect_postgres
from bench import scenario, stores, systems
from bench.scenario import console

BUSY = b"busy".ljust(32, b"-")
METHODS = ("getBalance", "getAccountInfo", "getSlot", "getTransaction", "getBlock", "sendTransaction", "signal")
_PRICES = dict(zip(METHODS, (1, 1, 1, 5, 25, 2, 1), strict=True))
_DAYS = 30
_START_MS = 1_761_955_200_000  # 2025-11-01T00:00:00Z: the ledger's entries are all in this month.
_ROWS_AT_ONCE = 200_000
_COLUMNS = (
    *("pubkey", "at_ms", "seq", "type", "outcome", "amount", "balance"),
    *("operation_id", "method", "description", "parcels", "hash"),
)
_PLAIN = (
    "SELECT method, (at_ms / 3600000)::integer AS hour, count(*) AS calls, -sum(amount)::bigint AS credits FROM ledger"
    f" WHERE pubkey = $1 AND type = {EntryType.DEBIT:d} AND at_ms >= $2 AND at_ms < $3 GROUP BY 1, 2"
)


def entries(rows: int, busy_share: float, seed: int = 7) -> Any:
    """Yield lists of rows for COPY: half of the entries are the busy account's, the rest of 1,000 others."""
    chance = random.Random(seed)
    others = [number.to_bytes(32, "big") for number in range(1_000)]
    seqs: dict[bytes, int] = {}
    step = _DAYS * 86_400_000 / rows
    made: list[tuple[Any, ...]] = []
    for number in range(rows):
        pubkey = BUSY if chance.random() < busy_share else others[int(chance.random() * 1_000)]
        seq = seqs[pubkey] = seqs.get(pubkey, 0) + 1
        method = METHODS[int(chance.random() ** 2 * len(METHODS))]
        operation = b"bench---" + number.to_bytes(8, "big")
        price = _PRICES[method]
        at_ms = _START_MS + int(number * step)
        made.append((pubkey, at_ms, seq, 2, 0, -price, 10**9, operation, method, "", f"1:-{price}", operation * 2))
        if len(made) == _ROWS_AT_ONCE:
            yield made
            made = []
    yield made


def binary(made: Sequence[tuple[Any, ...]]) -> io.BytesIO:
    """Return the rows in COPY's binary format. The driver's own encoder takes four times as long."""
    out = io.BytesIO()
    out.write(b"PGCOPY\n\xff\r\n\x00" + bytes(8))
    head, small = struct.Struct(">h").pack, struct.Struct(">ih").pack
    big, size = struct.Struct(">iq").pack, struct.Struct(">i").pack
    for pubkey, at_ms, seq, kind, outcome, amount, balance, *texts in made:
        out.write(head(12) + size(32) + pubkey + big(8, at_ms) + big(8, seq) + small(2, kind) + small(2, outcome))
        out.write(big(8, amount) + big(8, balance))
        for text in texts:
            data = text if isinstance(text, bytes) else text.encode()
            out.write(size(len(data)) + data)
    out.write(b"\xff\xff")
    out.seek(0)
    return out


async def load(connection: asyncpg.Connection, rows: int) -> None:
    began = time.perf_counter()
    await connection.execute("SELECT accounts_partition($1)", _START_MS)
    for made in entries(rows, 0.5):
        data = await asyncio.to_thread(binary, made)
        await connection.copy_to_table("ledger", source=data, columns=_COLUMNS, format="binary")
    await connection.execute("VACUUM ANALYZE ledger", timeout=300)
    console.print(f"{rows:,} entries loaded in {time.perf_counter() - began:.0f} s")


async def roll(store: PostgresAccountStore) -> float:
    """Make the rollup of the busy account in the owner's steps; return the entries per second."""
    began, rolled = time.perf_counter(), 0
    while (step := await store.usage.roll(BUSY, 5_000)).entries == 5_000:
        rolled += step.entries
    seconds = time.perf_counter() - began
    console.print(f"rolled up {rolled + step.entries:,} entries of one account in {seconds:.1f} s, in steps of 5,000")
    return rolled / seconds


async def compare(
    store: PostgresAccountStore, connection: asyncpg.Connection, days: int, turns: int
) -> tuple[list[float], list[float]]:
    """Return milliseconds of the query of the rollup and of the plain one, alternating. Their answers must be equal."""
    end = (_START_MS + _DAYS * 86_400_000) // 3_600_000
    first = end - days * 24
    rolled_ms, plain_ms = [], []
    for _ in range(turns):
        began = time.perf_counter()
        lines = await store.usage.read(BUSY, first, end, ("method", "hour"))
        middle = time.perf_counter()
        plain = await connection.fetch(_PLAIN, BUSY, first * 3_600_000, end * 3_600_000)
        rolled_ms.append((middle - began) * 1e3)
        plain_ms.append((time.perf_counter() - middle) * 1e3)
        assert sorted((ln.method, ln.hour, ln.calls, ln.credits) for ln in lines) == sorted(map(tuple, plain))
    return rolled_ms, plain_ms


async def measure(rows: int, urls: stores.Stores) -> dict[str, Any]:
    await urls.migrate()
    owner = await asyncpg.connect(urls.owner)
    await load(owner, rows)
    pool = await connect_postgres(urls.postgres, connections_max=4, application="bench usage")
    store = PostgresAccountStore(pool)
    found: dict[str, Any] = {"rolled up per second": await roll(store)}
    table = []
    for days, turns in ((1, 7), (7, 5), (_DAYS, 3)):
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
    end = (_START_MS + _DAYS * 86_400_000) // 3_600_000
    rows = await connection.fetch(
        "EXPLAIN (ANALYZE, BUFFERS, SUMMARY OFF) SELECT * FROM accounts_usage($1, $2, $3, true, 1, 10001)",
        *(BUSY, end - 24, end),
    )
    console.print("\n".join(row[0] for row in rows), soft_wrap=True)


def main(
    rows: Annotated[int, typer.Option(min=100_000, help="Entries of the ledger.")] = 10_000_000,
) -> dict[str, Any]:
    """Load, roll up, compare; takes two to six minutes."""
    with systems.temporary_folder() as folder, stores.running(folder) as urls:
        return asyncio.run(measure(rows, urls))
