"""Measures races over all three legs beside races over each leg alone, under the same losses.

An embedded chain and PostgreSQL each run as a process. This process holds four racers of the product: one with all
legs, and one for each leg. In each round all four send a transaction of their own at the same moment. The drops come in
runs of four slots, decided by seed, leg and slot, not by transaction, so the four meet the same losses: the rounds are
pairs. Nothing is charged: this measures landing alone.
"""

import asyncio
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import aiohttp
import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from actors.calls import SettleReply, SettleRequest
from actors.clock import SystemClock
from actors.config import UpstreamConfig
from actors.ownership.held import HeldSlices
from actors.ownership.store import PostgresOwnership
from actors.sends.actor import SendRacer
from actors.sends.api import RaceResult, WantedRace
from actors.sends.chain import SendChain
from actors.sends.core import WINDOW_SLOTS, RaceState
from actors.sends.engine import BlockEngineClient
from actors.sends.legs import LEG_NAMES, JitoLeg, Leg, LocalRpcLeg
from actors.sends.slices import KIND, SLICES
from actors.sends.store import PostgresRaceStore
from actors.sends.tpu import TpuQuicLeg
from actors.storage.connections import connect_postgres
from actors.upstream.client import NodeClient
from bench import scenario, stores, systems
from bench.chain import Payer, devnode, latest_blockhash, lose

ALL_LEGS = "all three"
_RUN_SLOTS = 4
_SLOT_MS = 100
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

    def __init__(self, node: NodeClient, url: str, store: PostgresRaceStore, held: HeldSlices) -> None:
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
            self.made[racer] = SendRacer(self._chain, legs, store, _NoLedger(), clock, held, open_max=1_000_000)

    async def start(self) -> list[asyncio.Task[None]]:
        """Return the loops that follow the chain, once every QUIC leg is connected."""
        watches = [asyncio.create_task(racer.watch()) for racer in self.made.values()]
        for quic in self.quic:
            quic.start()
        async with asyncio.timeout(_WARM_SECONDS):
            while not all(quic.warm for quic in self.quic):  # noqa: ASYNC110 - a connection has no event.
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


async def race_all(rounds: int, drop_share: float, seed: int, url: str, urls: stores.Stores) -> list[Round]:
    await urls.migrate()
    pool = await connect_postgres(urls.postgres, connections_max=16, application="bench races")
    held = HeldSlices()  # All four write as one racer: each has transactions of its own.
    held.took(range(SLICES), await PostgresOwnership(pool).claim(KIND, range(SLICES), "bench"))
    node = NodeClient(UpstreamConfig(node_url=url), url)
    async with aiohttp.ClientSession() as session:
        payer = Payer(session, url)
        await payer.fund()
        racers = Racers(node, url, PostgresRaceStore(pool, held), held)
        watches = await racers.start()
        await lose(session, url, seed, drop_share, _RUN_SLOTS)
        found = []
        for _ in range(rounds):
            blockhash = await latest_blockhash(session, url)
            found.append(await racers.round({name: payer.signed(blockhash) for name in racers.made}))
            await asyncio.sleep(_RUN_SLOTS * _SLOT_MS / 1000)
    for watch in watches:
        watch.cancel()
    await asyncio.gather(*watches, return_exceptions=True)
    await asyncio.gather(*(racer.close() for racer in racers.made.values()))
    await node.close()
    await pool.close()
    return found


async def measure(rounds: int, drop_share: float, seed: int) -> list[Round]:
    """Race on a chain that is started for it."""
    flags = ("--slot-ms", str(_SLOT_MS))
    with devnode(*flags) as chain, systems.temporary_folder() as folder, stores.running(folder) as urls:
        return await race_all(rounds, drop_share, seed, chain.url, urls)


def main(
    rounds: Annotated[int, typer.Option(min=1, help="Paired races.")] = 100,
    drop_share: Annotated[float, typer.Option(min=0, max=1, help="Share that each leg loses.")] = 0.3,
    seed: Annotated[int, typer.Option(min=0, help="Selects the losses.")] = 7,
) -> dict[str, Any]:
    """Race over three legs and over each leg alone, in pairs; takes about three minutes."""
    figures = compare(asyncio.run(measure(rounds, drop_share, seed)))
    title = f"{rounds} paired races, slots of {_SLOT_MS} ms, {drop_share:.0%} lost on each leg in runs of {_RUN_SLOTS}"
    headings = ("legs", "landed", "mean slots", "p50", "p90", "all three sooner", "later")
    scenario.show(title, headings, ((name, *row.values()) for name, row in figures.items()))
    if figures[ALL_LEGS]["mean"] >= min(figures[name]["mean"] for name in LEG_NAMES):
        raise scenario.Wrong("three legs are not the soonest on average", figures)
    return figures
