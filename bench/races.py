"""`python -m bench.races`: races over all three legs against races over each leg alone, under the same losses.

A devnode and PostgreSQL each run as a process. This process holds four racers of the product: one with all legs, and
one for each leg. In each round all four send a transaction of their own at the same moment. The drops come in runs of
four slots, decided by seed, leg and slot, not by transaction, so the four meet the same losses: the rounds are pairs.
The charges go nowhere: this measures landing alone.
"""

import asyncio
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import aiohttp
import orjson
import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import SecretStr
from rich.console import Console
from rich.table import Table

from actors.calls import SettleReply, SettleRequest
from actors.clock import SystemClock
from actors.config import Config, StorageConfig, UpstreamConfig
from actors.launch.assembly.migrations import migrate_all
from actors.local_servers.child_processes import Supervisor
from actors.local_servers.datadir import DataDir
from actors.local_servers.embedded_postgres import EmbeddedPostgres
from actors.sends.actor import SendRacer
from actors.sends.api import RaceResult, WantedRace
from actors.sends.chain import SendChain
from actors.sends.core import WINDOW_SLOTS, RaceState
from actors.sends.engine import BlockEngineClient
from actors.sends.legs import LEG_NAMES, JitoLeg, Leg, LocalRpcLeg
from actors.sends.store import PostgresRaceStore
from actors.sends.tpu import TpuQuicLeg
from actors.storage.connections import connect_postgres
from actors.upstream.client import NodeClient
from bench.deposits import rpc, start_devnode
from bench.payments import Payer

RESULTS = Path(__file__).with_name("results") / "races.json"
ALL_LEGS = "all three"
_RUN_SLOTS = 4
_SLOT_MS = 100  # Of the devnode that bench.deposits starts.
_WARM_SECONDS = 20


class _NoLedger:
    async def settle(self, request: SettleRequest) -> SettleReply:
        return SettleReply(True, 0)

    def delivered(self, pubkey: bytes, operation: bytes) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Round:
    """slots: from the start to the slot in which the transaction of each racer landed; WINDOW_SLOTS where it did not
    land in its window."""

    slots: dict[str, int]


class Racers:
    """Four racers over one chain and one store."""

    def __init__(self, node: NodeClient, url: str, store: PostgresRaceStore) -> None:
        clock = SystemClock()
        self._chain, self._sends = SendChain(node), 0
        self.made: dict[str, SendRacer] = {}
        self.quic: list[TpuQuicLeg] = []

        def leg(name: str, racer: str) -> Leg:
            if name == "local_rpc":
                return LocalRpcLeg(node, clock)
            if name == "jito":
                return JitoLeg(BlockEngineClient(url, clock, requests_per_second=10_000), clock)
            key = Ed25519PrivateKey.generate()
            quic = TpuQuicLeg(node, clock, lambda: self.made[racer].slot, key, private_leaders=True)
            self.quic.append(quic)
            return quic

        for racer in (ALL_LEGS, *LEG_NAMES):
            legs = [leg(name, racer) for name in (LEG_NAMES if racer == ALL_LEGS else (racer,))]
            self.made[racer] = SendRacer(self._chain, legs, store, _NoLedger(), clock, open_max=1_000_000)

    async def start(self) -> list[asyncio.Task[None]]:
        """Returns the loops that follow the chain, once every QUIC leg is connected."""
        watches = [asyncio.create_task(racer.watch()) for racer in self.made.values()]
        for quic in self.quic:
            quic.start()
        async with asyncio.timeout(_WARM_SECONDS):
            while not all(quic.warm for quic in self.quic):  # noqa: ASYNC110 - a connection tells nobody.
                await asyncio.sleep(0.05)
        return watches

    async def round(self, payments: dict[str, bytes]) -> Round:
        async def race(name: str, raw: bytes) -> tuple[str, int]:
            self._sends += 1
            operation = self._sends.to_bytes(16, "big")
            wanted = WantedRace(raw, operation, b"p" * 32, 1, "sendAndConfirm", 50, 2)
            found = await self.made[name].race(wanted)
            assert isinstance(found, RaceResult), found
            landed = found.race.state is RaceState.CONFIRMED
            return name, found.race.slot - found.race.started_slot if landed else WINDOW_SLOTS

        return Round(dict(await asyncio.gather(*(race(name, raw) for name, raw in payments.items()))))


def compare(rounds: Sequence[Round]) -> dict[str, dict[str, Any]]:
    """Return the figures of each racer in slots; sooner, later: rounds in which all three legs landed it in an earlier
    slot, or a later one, than this leg alone."""
    found = {}
    for name in (ALL_LEGS, *LEG_NAMES):
        took = sorted(one.slots[name] for one in rounds)
        found[name] = {
            "landed": sum(slots < WINDOW_SLOTS for slots in took),
            "mean": round(statistics.fmean(took), 2),
            "p50": took[len(took) // 2],
            "p90": took[len(took) * 9 // 10],
            "sooner": sum(one.slots[ALL_LEGS] < one.slots[name] for one in rounds),
            "later": sum(one.slots[ALL_LEGS] > one.slots[name] for one in rounds),
        }
    return found


async def measure(rounds: int, drop_share: float, seed: int, folder: Path) -> list[Round]:
    process, url = start_devnode(folder)
    try:
        with DataDir(folder / "data") as data, Supervisor() as supervisor:
            postgres = EmbeddedPostgres(data)
            supervisor.start(postgres.child)
            urls = SecretStr(postgres.url), SecretStr(postgres.migrations_url)
            storage = StorageConfig(postgres_url=urls[0], postgres_migrations_url=urls[1])
            await migrate_all(Config(storage=storage))
            pool = await connect_postgres(postgres.url, connections_max=16, application="bench races")
            node = NodeClient(UpstreamConfig(node_url=url), url)
            async with aiohttp.ClientSession() as session:
                payer = Payer(session, url)
                await payer.fund()
                racers = Racers(node, url, PostgresRaceStore(pool))
                watches = await racers.start()
                drops = {"drop_share": drop_share, "run_slots": _RUN_SLOTS}
                faults = {"seed": seed, "sends": {"rpc": drops, "tpu": drops, "bundle": drops}}
                body = orjson.dumps(faults)
                headers = {"Content-Type": "application/json"}
                async with session.post(f"{url}/admin/faults", data=body, headers=headers) as answer:
                    assert answer.status == 200, await answer.text()
                found = []
                for _ in range(rounds):
                    blockhash = (await rpc(session, url, "getLatestBlockhash"))["value"]["blockhash"]
                    names = (ALL_LEGS, *LEG_NAMES)
                    found.append(await racers.round({name: payer.signed(blockhash) for name in names}))
                    await asyncio.sleep(_RUN_SLOTS * _SLOT_MS / 1000)
            for watch in watches:
                watch.cancel()
            await asyncio.gather(*watches, return_exceptions=True)
            await asyncio.gather(*(racer.close() for racer in racers.made.values()))
            await node.close()
            await pool.close()
            return found
    finally:
        process.terminate()
        process.wait(timeout=10)


def main(
    rounds: Annotated[int, typer.Option(min=1, help="Paired races.")] = 100,
    drop_share: Annotated[float, typer.Option(min=0, max=1, help="Share that each leg loses.")] = 0.3,
    seed: Annotated[int, typer.Option(min=0, help="Selects the losses.")] = 7,
) -> None:
    """Race over three legs and over each leg alone, paired; exit 1 unless three legs are the soonest on average."""
    console, began = Console(highlight=False), time.perf_counter()
    folder = Path(tempfile.mkdtemp(prefix="ledger-gateway-bench-"))
    folder.chmod(0o711)  # Below root, PostgreSQL runs as another user, who must be able to enter.
    try:
        figures = compare(asyncio.run(measure(rounds, drop_share, seed, folder)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    title = f"{rounds} paired races, slots of {_SLOT_MS} ms, {drop_share:.0%} lost on each leg in runs of {_RUN_SLOTS}"
    table = Table("legs", "landed", "mean slots", "p50", "p90", "all three sooner", "later", title=title)
    for name, row in figures.items():
        table.add_row(name, *(str(value) for value in row.values()))
    console.print(table)
    console.print(f"took {time.perf_counter() - began:.0f} s")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_bytes(orjson.dumps(figures, option=orjson.OPT_INDENT_2))
    if figures[ALL_LEGS]["mean"] >= min(figures[name]["mean"] for name in LEG_NAMES):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
