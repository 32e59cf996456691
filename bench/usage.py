"""`python -m bench.usage`: measures GET /account/usage's question to the database on a ledger of ten million rows.

PostgreSQL is the embedded one; synthetic entries of one busy account and of many others are loaded by COPY and marked
like real ones. Then the rollup is made as an owner makes it, and each question is timed against the plain sum over the
ledger in the same run, alternating. Every answer must equal the plain one.
"""

import asyncio
import io
import random
import shutil
import statistics
import struct
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import asyncpg
import typer
from pydantic import SecretStr
from rich.console import Console
from rich.table import Table

from actors.accounts.ledger import EntryType
from actors.accounts.store import PostgresAccountStore
from actors.config import Config, StorageConfig
from actors.launch.assembly.migrations import migrate_all
from actors.local_servers.child_processes import Supervisor
from actors.local_servers.datadir import DataDir
from actors.local_servers.embedded_postgres import EmbeddedPostgres
from actors.storage.connections import connect_postgres

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
    """The rows in COPY's binary format. The driver's own encoder takes four times as long."""
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


async def load(connection: asyncpg.Connection, rows: int, console: Console) -> None:
    began = time.perf_counter()
    await connection.execute("SELECT accounts_partition($1)", _START_MS)
    for made in entries(rows, 0.5):
        data = await asyncio.to_thread(binary, made)
        await connection.copy_to_table("ledger", source=data, columns=_COLUMNS, format="binary")
    await connection.execute("VACUUM ANALYZE ledger", timeout=300)
    console.print(f"{rows:,} entries loaded in {time.perf_counter() - began:.0f} s")


async def roll(store: PostgresAccountStore, console: Console) -> float:
    """Make the rollup of the busy account in the owner's steps, but for its last entries. Gives entries per second."""
    began, rolled = time.perf_counter(), 0
    while (step := await store.usage.roll(BUSY, 5_000)).entries == 5_000:
        rolled += step.entries
    seconds = time.perf_counter() - began
    console.print(f"rolled up {rolled + step.entries:,} entries of one account in {seconds:.1f} s, in steps of 5,000")
    return rolled / seconds


async def compare(
    store: PostgresAccountStore, connection: asyncpg.Connection, days: int, turns: int
) -> tuple[list[float], list[float]]:
    """Milliseconds of the rolled-up question and of the plain one, alternating. Their answers must be equal."""
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


async def measure(rows: int, folder: Path, console: Console) -> None:
    with DataDir(folder / "data") as data, Supervisor() as supervisor:
        postgres = EmbeddedPostgres(data)
        supervisor.start(postgres.child)
        url, owner_url = SecretStr(postgres.url), SecretStr(postgres.migrations_url)
        await migrate_all(Config(storage=StorageConfig(postgres_url=url, postgres_migrations_url=owner_url)))
        owner = await asyncpg.connect(postgres.migrations_url)
        await load(owner, rows, console)
        pool = await connect_postgres(postgres.url, connections_max=4, application="bench usage")
        store = PostgresAccountStore(pool)
        per_second = await roll(store, console)
        table = Table("question, by method and hour", "rollup", "plain sum", "ratio", title=f"{rows:,} entries, ms")
        for days, turns in ((1, 7), (7, 5), (_DAYS, 3)):
            rolled, plain = (statistics.median(times) for times in await compare(store, owner, days, turns))
            table.add_row(f"last {days} days", f"{rolled:.1f}", f"{plain:.1f}", f"{plain / rolled:.0f}")
        console.print(table)
        console.print(f"the rollup takes in {per_second:,.0f} entries a second")
        await explain(owner, console)
        await owner.close()
        await store.close()
        await pool.close()


async def explain(connection: asyncpg.Connection, console: Console) -> None:
    """Show how the database answers for a day by method and hour."""
    end = (_START_MS + _DAYS * 86_400_000) // 3_600_000
    rows = await connection.fetch(
        "EXPLAIN (ANALYZE, BUFFERS, SUMMARY OFF) SELECT * FROM accounts_usage($1, $2, $3, true, 1, 10001)",
        *(BUSY, end - 24, end),
    )
    console.print("\n".join(row[0] for row in rows))


def main(rows: Annotated[int, typer.Option(min=100_000, help="Entries of the ledger.")] = 10_000_000) -> None:
    """Load, roll up, compare. Exits with an error only where an answer differs."""
    console = Console(highlight=False, soft_wrap=True)
    folder = Path(tempfile.mkdtemp(prefix="ledger-gateway-bench-"))
    folder.chmod(0o711)  # Below root, PostgreSQL runs as another user, who must be able to enter.
    try:
        asyncio.run(measure(rows, folder, console))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    typer.run(main)
