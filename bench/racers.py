"""Measures several racers: many sends in flight at once, then sends while racers come, go, die and are cut off.

Racers are the product's own Ray actors, each in a process of its own, over PostgreSQL: in the first step with a node
that lands nothing until it is told to (sends_node.py), in the second one with an embedded chain. This
process calls them as a replica does. In place of the owners of accounts stands a table with every charge, which is
compared with the chain and with the races afterwards: each send must have one outcome and one charge.
"""

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import aiohttp
import asyncpg
import psutil
import typer
from pydantic import SecretStr

from actors import hosting
from actors.calls import SettleReply, SettleRequest
from actors.clock import SystemClock
from actors.config import Config, SendsConfig, StorageConfig, TelemetryConfig, UpstreamConfig
from actors.launch.assembly.sending import open_nodes
from actors.methods.transactions import whole_transaction
from actors.ownership.spreading import spread_slices
from actors.ownership.store import PostgresOwnership
from actors.sends.api import RaceResult, RacerUnreachable, WantedRace
from actors.sends.client import SendsClient
from actors.sends.core import RaceState
from actors.sends.host import place_racers
from actors.sends.slices import KIND, RACERS, racer_names
from actors.storage.connections import connect_postgres
from actors.units import base58_text
from bench import scenario, stores, systems
from bench.chain import Payer, devnode, latest_blockhash, rpc, statuses

STEPS = ("flood", "moves")
_LANDING, _BASE = 50, 2
_ACCOUNTS = 100
_BLOCKHASH = "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG"  # The node of the flood accepts any blockhash.
_SETTLED_SECONDS = 1_200.0
_CUT_OFF_SECONDS = 3.0
_AT_ONCE = 20
_SENDS = SendsConfig(open_sends_max=100_000, tpu=False, block_engine_requests_per_second=100)
_CHARGES = (
    "CREATE TABLE bench_charges (operation bytea PRIMARY KEY, charged bigint NOT NULL, times integer NOT NULL,"
    " differs boolean NOT NULL); GRANT ALL ON bench_charges TO PUBLIC"
)
_CHARGE = (
    "INSERT INTO bench_charges VALUES ($1, $2, 1, false) ON CONFLICT (operation) DO UPDATE SET"
    " times = bench_charges.times + 1, differs = bench_charges.differs OR bench_charges.charged <> EXCLUDED.charged"
)
_TICKETS = (
    "SELECT t.signature, t.charged, r.state, c.charged AS posted, c.differs FROM send_tickets t"
    " JOIN send_races r USING (signature) LEFT JOIN bench_charges c USING (operation)"
)


class TableOfCharges:
    """Stands in for the owners of accounts: only ends holds."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def settle(self, request: SettleRequest) -> SettleReply:
        await self._pool.execute(_CHARGE, request.operation, request.charged)
        return SettleReply(True, 0)

    def delivered(self, pubkey: bytes, operation: bytes) -> None:
        pass


async def open_charges(config: Config) -> TableOfCharges:
    assert config.storage.postgres_url is not None
    url = config.storage.postgres_url.get_secret_value()
    return TableOfCharges(await connect_postgres(url, connections_max=2, application="bench charges"))


@dataclass(slots=True)
class Heard:
    """Replies to the callers. signatures: of all sends."""

    signatures: list[bytes] = field(default_factory=list)
    words: Counter[str] = field(default_factory=Counter)
    most_under_way: int = 0


class Cluster:
    """Racers on a Ray of their own, and a client of them."""

    def __init__(self, config: Config, url: str, session: aiohttp.ClientSession, pool: asyncpg.Pool) -> None:
        self.config, self.url, self.session, self.pool = config, url, session, pool
        self.ownership, self.payer = PostgresOwnership(pool), Payer(session, url)
        self.client = SendsClient(partial(self.ownership.holders, KIND), SystemClock())
        self._operations = 0

    async def scale(self, count: int) -> float:
        """Scale as an operator's command does; return the seconds that it took."""
        began = time.monotonic()
        await self.ownership.set_wanted(KIND, count, self.config.sends.racers)
        await place_racers(self.config, open_charges, open_nodes)
        return time.monotonic() - began

    async def send(self, raw: bytes, heard: Heard) -> None:
        self._operations += 1
        number = self._operations
        pubkey = (number % _ACCOUNTS).to_bytes(32, "big")
        operation = number.to_bytes(16, "big")
        heard.signatures.append(bytes(whole_transaction(raw).signatures[0]))
        try:
            found = await self.client.race(WantedRace(raw, operation, pubkey, 1, "sendAndConfirm", _LANDING, _BASE))
        except RacerUnreachable:
            heard.words["unreachable"] += 1
            return
        if isinstance(found, RaceResult):
            heard.words["unknown" if found.race.state.open else found.race.state.name.lower()] += 1
        else:
            heard.words[f"refused: {found.reason}"] += 1

    async def signed(self, count: int) -> list[bytes]:
        blockhash = await latest_blockhash(self.session, self.url)
        return [self.payer.signed(blockhash) for _ in range(count)]

    async def under_way(self) -> int:
        names = racer_names(3)
        found = await hosting.ask_each(map(hosting.Reference, names), "health", 5.0)
        return sum(one["under_way"] for one in found if one)

    async def settled(self) -> float:
        """Wait until every race and every charge has ended; returns the seconds that it took."""
        began = time.monotonic()
        async with asyncio.timeout(_SETTLED_SECONDS):
            while await self.pool.fetchval("SELECT count(*), pg_sleep(0.2) FROM send_races WHERE NOT settled"):
                pass
        return time.monotonic() - began


@asynccontextmanager
async def running(url: str, ws_url: str | None, urls: stores.Stores, folder: str) -> AsyncIterator[Cluster]:
    import ray

    await urls.migrate()
    owner = await asyncpg.connect(urls.owner)
    await owner.execute(_CHARGES)
    await owner.close()
    # Of this measurement alone, whatever else runs on the machine.
    ray.init("local", num_cpus=2, namespace=hosting.NAMESPACE, include_dashboard=False, log_to_driver=False)
    config = Config(
        storage=StorageConfig(postgres_url=SecretStr(urls.postgres)),
        upstream=UpstreamConfig(node_url=url, node_ws_url=ws_url),
        sends=_SENDS if ws_url is None else _SENDS.model_copy(update={"tpu": True, "block_engine_url": url}),
        telemetry=TelemetryConfig(metrics_port=0, log_dir=folder),
    )
    pool = await connect_postgres(urls.postgres, connections_max=4, application="bench racers")
    await asyncio.gather(*(pool.fetchval("SELECT pg_sleep(0.1)") for _ in range(4)))  # All are open from here on.
    try:
        async with aiohttp.ClientSession() as session:
            cluster = Cluster(config, url, session, pool)
            yield cluster
            await cluster.client.stop()
    finally:
        await pool.close()
        ray.shutdown()


async def flood(cluster: Cluster, count: int) -> dict[str, Any]:
    """Have so many sends without an outcome at the same time over three racers, then let all of them land."""
    await cluster.scale(3)
    await cluster.client.start()
    pids = await asyncio.to_thread(hosting.process_ids)
    before = {name: _megabytes(pid) for name, pid in pids.items()}
    raws = [cluster.payer.signed(_BLOCKHASH) for _ in range(count)]
    heard, began = Heard(), time.monotonic()
    sending = list[asyncio.Task[None]]()
    for raw in raws:
        sending.append(asyncio.create_task(cluster.send(raw, heard)))
        if len(sending) % _AT_ONCE == 0:  # Otherwise this process would receive nothing while it calls.
            await asyncio.sleep(0.001)
    open_races = 0
    while open_races < count and not all(task.done() for task in sending):
        open_races = await cluster.pool.fetchval("SELECT count(*), pg_sleep(0.1) FROM send_races WHERE state = 0")
        heard.most_under_way = max(heard.most_under_way, await cluster.under_way())
    stored = time.monotonic() - began
    most_mb = {name: _megabytes(pid) for name, pid in pids.items()}
    taken = await rpc(cluster.session, cluster.url, "bench.land")
    landing = time.monotonic()
    await asyncio.gather(*sending)
    await cluster.settled()
    settled = time.monotonic() - landing
    return {
        "sends": count,
        "without an outcome at once": open_races,
        "of those with an open window": heard.most_under_way,
        "stored after s": round(stored, 1),
        "stored/s": round(open_races / stored),
        "had left when they landed": taken,
        "all proven and charged after s more": round(settled, 1),
        "heard": dict(heard.words),
        "MB of each racer before": [round(before[name]) for name in sorted(before)],
        "MB of each racer then": [round(most_mb[name]) for name in sorted(most_mb)],
        **await audited(cluster, heard.signatures),
    }


async def moves(cluster: Cluster, per_second: int) -> dict[str, Any]:
    """Send steadily while racers are 1, 3 and 2, one is killed, and one is cut off for a while."""
    heard, tasks = Heard(), list[asyncio.Task[None]]()
    stopping = asyncio.Event()

    async def load() -> None:
        began = time.monotonic()
        while not stopping.is_set():
            for raw in await cluster.signed(per_second):
                await asyncio.sleep(max(0.0, began + len(tasks) / per_second - time.monotonic()))
                tasks.append(asyncio.create_task(cluster.send(raw, heard)))

    await cluster.scale(1)
    await cluster.client.start()
    loading = asyncio.create_task(load())
    await asyncio.sleep(5)
    took = {"1 to 3 racers, s": round(await cluster.scale(3), 1)}
    await asyncio.sleep(5)
    pids = await asyncio.to_thread(hosting.process_ids)
    os.kill(pids["send-racer-1"], signal.SIGKILL)
    await asyncio.sleep(15)
    os.kill(pids["send-racer-2"], signal.SIGSTOP)
    began = time.monotonic()
    await spread_slices(cluster.ownership, RACERS, racer_names(2))
    took["slices of a racer that was cut off, s"] = round(time.monotonic() - began, 1)
    await asyncio.sleep(_CUT_OFF_SECONDS)
    os.kill(pids["send-racer-2"], signal.SIGCONT)
    await asyncio.sleep(8)  # Time for it to notice its losses.
    took["2 to 3 racers, s"] = round(await cluster.scale(3), 1)
    await asyncio.sleep(3)
    took["3 to 2 racers, s"] = round(await cluster.scale(2), 1)
    await asyncio.sleep(5)
    stopping.set()
    await loading
    await asyncio.gather(*tasks)
    settled = await cluster.settled()
    return {
        "sends": len(tasks),
        "sends/s": per_second,
        **took,
        "settled after the last answer, s": round(settled, 1),
        "heard": dict(heard.words),
        **await audited(cluster, heard.signatures),
    }


async def audited(cluster: Cluster, signatures: Sequence[bytes]) -> dict[str, int]:
    """Compare races and charges with the chain. Figures after `charged` have to be 0."""
    wanted = set(signatures)
    rows = [row for row in await cluster.pool.fetch(_TICKETS) if row["signature"] in wanted]
    texts = {row["signature"]: base58_text(row["signature"]) for row in rows}
    chain = await statuses(cluster.session, cluster.url, list(texts.values()))
    landed = {raw for raw, text in texts.items() if text in chain and chain[text]["err"] is None}
    confirmed = {row["signature"] for row in rows if row["state"] == RaceState.CONFIRMED}
    return {
        "never taken": len(wanted) - len({row["signature"] for row in rows}),
        "landed": len(landed),
        "charged": sum(row["posted"] or 0 for row in rows),
        "calls with two tickets": len(rows) - len({row["signature"] for row in rows}),
        "without outcome": sum(row["state"] < RaceState.CONFIRMED for row in rows),
        "landed and not told so": len(landed - confirmed),
        "told landed and not on chain": len(confirmed - landed),
        "without one charge": sum(row["posted"] is None or row["posted"] != row["charged"] for row in rows),
        "charged differently when asked again": sum(bool(row["differs"]) for row in rows),
        "wrong charge": sum(_is_wrong(row, landed) for row in rows),
    }


def _is_wrong(row: Any, landed: set[bytes]) -> bool:
    return row["charged"] != _LANDING if row["signature"] in landed else row["charged"] not in (0, _BASE)


def _megabytes(pid: int) -> float:
    try:
        return float(psutil.Process(pid).memory_info().rss) / 1e6
    except psutil.NoSuchProcess:
        return 0.0


async def measure(only: Sequence[str], sends: int, per_second: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "flood" in only:
        port = systems.free_port()
        command = [sys.executable, "-m", "bench.sends_node", "--port", str(port)]
        with systems.running(command, {}, port), systems.temporary_folder() as folder, stores.running(folder) as urls:
            async with running(f"http://127.0.0.1:{port}", None, urls, str(folder)) as cluster:
                found["flood"] = await flood(cluster, sends)
    if "moves" in only:
        with devnode() as chain, systems.temporary_folder() as folder, stores.running(folder) as urls:
            async with running(chain.url, chain.ws_url, urls, str(folder)) as cluster:
                await cluster.payer.fund()
                found["moves"] = await moves(cluster, per_second)
    return found


def main(
    only: Annotated[str, typer.Option(help="Steps, separated by commas.")] = ",".join(STEPS),
    sends: Annotated[int, typer.Option(min=1, help="Sends in flight at once, over three racers.")] = 10_000,
    per_second: Annotated[int, typer.Option(min=1, help="Sends a second while racers move.")] = 50,
) -> dict[str, Any]:
    """Measure several racers; takes about three minutes."""
    found = asyncio.run(measure(scenario.chosen(only, STEPS), sends, per_second))
    rows = ((f"{step}: {name}", value) for step, figures in found.items() for name, value in figures.items())
    scenario.show("several racers", ("figure", "value"), rows)
    wrong = wrong_figures(found)
    if wrong:
        raise scenario.Wrong(f"not as the chain has it: {', '.join(wrong)}", found)
    return found


def wrong_figures(found: dict[str, Any]) -> list[str]:
    """Return the names of figures after `charged` that are not 0."""
    wrong = []
    for figures in found.values():
        names = list(figures)
        wrong += [name for name in names[names.index("charged") + 1 :] if figures[name]]
    return wrong
