"""Measures GET /signals/history on a day of ten million signals: rows a second, memory, and a victim beside.

The whole product runs on an embedded PostgreSQL, into whose history the signals are made by SQL: no classifier could
make so many here. One client reads the day as Parquet into a file, whose rows are counted, or several do at once; the
memory of all replicas is watched meanwhile, and another account's calls are timed before and during it. The charge must
be exact.
"""

import asyncio
import time
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import asyncpg
import psutil
import typer

from actors.signals.history import DAY_MS
from actors.signals.history_export import price
from bench import scenario, stores, systems
from bench.figures import in_ms
from bench.loop_figures import held_loops
from bench.product import Product
from bench.scenario import Wrong, console
from bench.victim import Seen, Victim
from tests.customers import Customer
from tests.product import StaffedProduct

TARGET_ROWS, TARGET_GROWTH_MB = 100_000, 100
_ROWS_AT_ONCE = (
    500_000  # So many are made; the others are copies of them at other times, which is several times faster.
)
_MINTS = 50_000
_READ_BYTES = 1 << 20
_QUIET_SECONDS = 10.0
# Texts as long as real ones and as hard to compress: 88 characters of a signature, 44 of an address.
_ADDRESS = "substr(translate(encode(sha256(({0})::text::bytea), 'base64'), E'/+=\\n', 'abc'), 1, 44)"
_SIGNATURE = "translate(encode(sha512(i::text::bytea), 'base64'), E'/+=\\n', 'abc')"
_MINT = _ADDRESS.format(f"'mint' || (hashint8(i) & 2147483647) % {_MINTS}")
_MAKE = f"""
INSERT INTO first SELECT $3 + i * $4 / $5, i, 'event', kind, program, signature, i / 100, mint,
    convert_to(format('["%s","%s","%s",%s,"%s",["%s","%s","%s"],"SOL",null,null,%s,[],%s]', kind, program, signature,
                      i / 100, mint, {_ADDRESS.format("'curve' || mint")}, mint, {_ADDRESS.format("'trader' || i")},
                      10000000000 + i, 1795276800 + i / 100), 'UTF8')
FROM (SELECT i, CASE WHEN i % 20 = 0 THEN 'newPair' ELSE 'largeSwap' END AS kind,
      '6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P' AS program, {_SIGNATURE} AS signature, {_MINT} AS mint
      FROM generate_series($1::bigint, $2::bigint) AS i OFFSET 0) AS numbers
"""  # Texts made in this file.


_COPY = """
INSERT INTO made SELECT $3::bigint + (cursor_seq + $1) * $4::bigint / $5::bigint, cursor_seq + $1, change, kind,
                        program, signature, slot, mint, body
FROM first WHERE cursor_seq <= $2::bigint - $1::bigint
"""


async def load(owner_url: str, rows: int, day: int) -> None:
    """Fill one day. The table becomes a partition when it is full: its indexes are then made once."""
    began = time.perf_counter()
    owner = await asyncpg.connect(owner_url)
    try:
        for name in ("first", "made"):
            await owner.execute(f"CREATE TABLE {name} (LIKE signals INCLUDING DEFAULTS)")
        await owner.execute(_MAKE, 0, min(rows, _ROWS_AT_ONCE) - 1, day * DAY_MS, DAY_MS, rows, timeout=600)
        for start in range(0, rows, _ROWS_AT_ONCE):
            last = min(rows, start + _ROWS_AT_ONCE) - 1
            await owner.execute(_COPY, start, last, day * DAY_MS, DAY_MS, rows, timeout=600)
        await owner.execute("DROP TABLE first")
        await owner.execute(f"ALTER TABLE made RENAME TO signals_day_{day}")
        bounds = f"FROM ({day * DAY_MS}) TO ({(day + 1) * DAY_MS})"
        await owner.execute(
            f"ALTER TABLE signals ATTACH PARTITION signals_day_{day} FOR VALUES {bounds}", timeout=1_800
        )
        await owner.execute(f"ANALYZE signals_day_{day}", timeout=1_800)
        await owner.execute("UPDATE signals_archived SET cursor_ms = $1, cursor_seq = $2", (day + 1) * DAY_MS - 1, rows)
        size = await owner.fetchval(f"SELECT pg_total_relation_size('signals_day_{day}')")
    finally:
        await owner.close()
    console.print(f"{rows:,} signals made in {time.perf_counter() - began:.0f} s, {size / 1e9:.1f} GB with indexes")


def download(url: str, key: str, path: Path) -> int:
    """Read an answer into a file; return its bytes."""
    request = urllib.request.Request(url, headers={"X-Api-Key": key})
    with urllib.request.urlopen(request, timeout=120) as answer, path.open("wb") as file:
        while data := answer.read(_READ_BYTES):
            file.write(data)
    return path.stat().st_size


def replicas_mb(product: Product) -> float:
    """Return the unshared memory of all replicas."""
    pids = product.running("ray::ServeReplica")
    return sum(psutil.Process(pid).memory_full_info().uss for pid in pids) / 1e6


def watched(product: Product, works: Sequence[Callable[[], int]]) -> tuple[int, float, list[float]]:
    """Run each work in a thread; return the sum of their values, the seconds, and the replicas' memory meanwhile."""
    seen, began = list[float](), time.monotonic()
    with ThreadPoolExecutor(len(works)) as threads:
        running = [threads.submit(work) for work in works]
        while not all(work.done() for work in running):
            seen.append(replicas_mb(product))
            time.sleep(1.0)  # Each look stops a replica for a moment.
        return sum(work.result() for work in running), time.monotonic() - began, seen


def measure(product: Product, rows: int, day: int, folder: Path, exports: int) -> dict[str, Any]:
    import pyarrow.parquet as parquet

    reader, victim_account = Customer(product), Customer(product)
    reader.grant(exports * price(rows) + 1_000)
    victim_account.grant(1_000_000)
    victim_account.limits(10_000, 1_000)
    victim = Victim(product.http_url, victim_account.api_key)
    address = f"{product.http_url}/signals/history?from={day * 86_400}&to={(day + 1) * 86_400}&format=parquet"
    download(f"{address}&mint={'1' * 32}", reader.api_key, folder / "none.parquet")  # Its first answer, an empty one.
    before = replicas_mb(product)
    balance, paths = reader.balance, [folder / f"day{number}.parquet" for number in range(exports)]
    alone = victim.measure(_QUIET_SECONDS)
    loops = held_loops(product)
    victim.begin(max(_QUIET_SECONDS, exports * rows / TARGET_ROWS))
    size, seconds, memory = watched(product, [partial(download, address, reader.api_key, path) for path in paths])
    beside = Seen(tuple(call for call in victim.end().calls if call.due < seconds))
    victim.close()
    found = sum(parquet.read_metadata(path).num_rows for path in paths)
    half = len(memory) // 2
    figures = {
        "rows": found,
        "seconds": seconds,
        "rows_per_second": found / seconds,
        "megabytes": size / 1e6,
        "replicas_mb_before": before,
        "replicas_mb_most": max(memory),
        "growth_mb_second_half": max(memory[half:]) - max(memory[: half + 1]),
        "credits": balance - reader.balance,
        "longest_hold_ms_at_most": 1_000 * held_loops(product).longest_since(loops),
        **_latencies("victim_alone_", alone),
        **_latencies("victim_beside_", beside),
    }
    scenario.show_figures("a day as Parquet", figures)
    if (found, figures["credits"]) != (exports * rows, exports * price(rows)):
        wanted = f"{exports * rows} for {exports * price(rows)}"
        raise Wrong(f"{found} rows for {figures['credits']} credits; wanted {wanted}", figures)
    return figures


def _latencies(prefix: str, seen: Seen) -> dict[str, float]:
    return in_ms([call.seconds for call in seen.calls], prefix) | {f"{prefix}failures": sum(seen.failures.values())}


def main(
    rows: Annotated[int, typer.Option(min=1_000, help="Signals of the day.")] = 10_000_000,
    exports: Annotated[int, typer.Option(min=1, max=2, help="How many clients read the day at once.")] = 1,
) -> dict[str, Any]:
    """Make a day of signals, read it, measure; takes about ten minutes and 15 GB of disk, which it gives back."""
    day = int(time.time()) // 86_400 - 1
    with systems.temporary_folder() as folder, stores.running(folder) as urls:
        asyncio.run(urls.migrate())
        asyncio.run(load(urls.owner, rows, day))
        settings = {"DATABASE_URL": urls.postgres} | systems.LIMITS_AWAY
        with systems.started(settings, StaffedProduct) as product:
            figures = measure(product, rows, day, folder, exports)
    scenario.show_targets(
        [
            scenario.at_least("rows a second as Parquet", TARGET_ROWS, figures["rows_per_second"]),
            scenario.at_most("MB that memory grows after half", TARGET_GROWTH_MB, figures["growth_mb_second_half"]),
        ]
    )
    return figures
