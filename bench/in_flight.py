"""Measures very many sends in flight at one moment, through the whole product with several racers.

The embedded chain holds every transaction back for so many slots, as a crowded one does, so that sends gather. Each
is a transaction of its own. Afterwards every answer and every charge is compared with the chain, and the product audits
its own ledger.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

import aiohttp
import asyncpg
import typer

from actors.accounts.audit_database import database
from bench import scenario, systems
from bench.chain import admin, rpc
from bench.loop_figures import held_loops
from bench.processes import cpu_seconds, cpu_spent_by_kind, kinds_of
from bench.product import Product
from bench.sends import Sender, Sent, audited, percentiles
from bench.systems import System

_WARM = 200
_LOOK_SECONDS = 0.2
_PROOF_SECONDS = 300
_TIMEOUT_SECONDS = 90
_CALLS_OF_A_BATCH = 50
_AGAIN_SECONDS = 1.0
_WORD = 40  # Characters of a refusal by which refusals are counted.
# One client has all sends of this measurement; two replicas with their default of 4,096 calls in flight would refuse
# some of them.
_ROOM = {"LEDGER_GATEWAY__CALLS_IN_FLIGHT_MAX": "20000"}
_KINDS = {
    "racers": "SendRacer",
    "account owners": "AccountShard",
    "replicas": "ServeReplica",
    "front": "haproxy",
    "chain": "devnode",
    "PostgreSQL": "postgres",
    "Redis": "redis",
}
_ADMITTED = (
    "SELECT count(*) AS stored, count(*) FILTER (WHERE state = 0) AS in_flight,"
    " count(*) FILTER (WHERE state = 0 AND window_slot + 30 > $2) AS in_their_window"
    " FROM send_races WHERE started_at_ms >= $1"
)
_TICKETS = (
    "SELECT count(*) AS tickets, count(DISTINCT signature) AS races, coalesce(sum(charged), 0) AS charged,"
    " count(*) FILTER (WHERE charged IS NULL) AS uncharged FROM send_tickets WHERE opened_at_ms >= $1"
)


@dataclass(slots=True)
class Watched:
    """The most that was seen at one moment. stored: with the seconds since the first send, look by look."""

    in_flight: int = 0
    in_their_window: int = 0
    stored: list[tuple[float, int]] = field(default_factory=list)

    def seconds_until(self, count: int) -> float:
        return next((seconds for seconds, stored in self.stored if stored >= count), 0.0)


@asynccontextmanager
async def connected(product: Product) -> AsyncIterator[asyncpg.Connection]:
    async with database(None, product.data_dir) as url, contextlib.AsyncExitStack() as stack:
        connection = await asyncpg.connect(url)
        stack.push_async_callback(connection.close)
        yield connection


async def watch(connection: asyncpg.Connection, sender: Sender, since_ms: int, watched: Watched) -> None:
    """Look at all races several times a second, until cancelled."""
    began = time.monotonic()
    while True:
        slot = await rpc(sender.session, sender.node_url, "getSlot", {"commitment": "processed"})
        found = await connection.fetchrow(_ADMITTED, since_ms, slot)
        assert found is not None
        watched.in_flight = max(watched.in_flight, found["in_flight"])
        watched.in_their_window = max(watched.in_their_window, found["in_their_window"])
        watched.stored.append((round(time.monotonic() - began, 2), found["stored"]))
        await asyncio.sleep(_LOOK_SECONDS)


async def until_taken(sender: Sender, raws: Sequence[bytes], refusals: Counter[str]) -> list[Sent]:
    """Send so many transactions in one request, and those that are refused again, as the refusal asks for."""
    taken, left = list[Sent](), list(raws)
    while left:
        sends = await sender.race_together(left)
        refused = [is_refused(sent.status) for sent in sends]
        refusals.update(sent.status[:_WORD] for sent, again in zip(sends, refused, strict=True) if again)
        taken += [sent for sent, again in zip(sends, refused, strict=True) if not again]
        left = [raw for raw, again in zip(left, refused, strict=True) if again]
        if left:
            await asyncio.sleep(_AGAIN_SECONDS)
    return taken


def is_refused(status: str) -> bool:
    """Return whether the product said that it did not take the send at this moment."""
    return "SERVICE_TEMPORARILY_UNAVAILABLE" in status or "BACKEND_UNAVAILABLE" in status


async def flood(sender: Sender, count: int, delay_slots: int) -> dict[str, Any]:
    product, node_url = sender.product, sender.node_url
    before, loops = sender.balance(), await asyncio.to_thread(held_loops, product, "send-racer")
    held_back = {"delay_share": 1.0, "delay_slots": delay_slots}
    await admin(sender.session, node_url, "faults", seed=1, sends=dict.fromkeys(("rpc", "tpu", "bundle"), held_back))
    raws = await sender.payments(count, tips=False)
    cpu_before, began, since_ms = cpu_seconds((product.pid,)), time.monotonic(), int(time.time() * 1000)
    watched = Watched()
    async with connected(product) as connection:
        watching = asyncio.create_task(watch(connection, sender, since_ms, watched))
        parts = [raws[start : start + _CALLS_OF_A_BATCH] for start in range(0, count, _CALLS_OF_A_BATCH)]
        refusals: Counter[str] = Counter()
        sent_parts = await asyncio.gather(*(until_taken(sender, part, refusals) for part in parts))
        sends = [sent for part in sent_parts for sent in part]
        answered = time.monotonic() - began
        heard = Counter(sent.status for sent in sends)
        await sender.until_proven(sends, _PROOF_SECONDS)
        proven = time.monotonic() - began
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        tickets = await connection.fetchrow(_TICKETS, since_ms)
        assert tickets is not None
    spent = cpu_spent_by_kind(cpu_before, cpu_seconds((product.pid,)), kinds_of(product.pid, _KINDS))
    after = await asyncio.to_thread(held_loops, product, "send-racer")
    await admin(sender.session, node_url, "faults", seed=1)
    landed = await sender.on_chain([sent.signature for sent in sends])
    debited = before - sender.balance()
    audit = await asyncio.to_thread(product.audit)
    stored_seconds = watched.seconds_until(tickets["races"])
    return {
        "sends": count,
        "without an outcome at one moment": watched.in_flight,
        "of those with an open window": watched.in_their_window,
        "all stored after s": stored_seconds,
        "stored/s": round(tickets["races"] / stored_seconds) if stored_seconds else None,
        "all answered after s": round(answered, 1),
        "all proven and charged after s": round(proven, 1),
        "refused, and sent again": sum(refusals.values()),
        "heard": dict(heard),
        "answered_ms": percentiles([sent.answered_ms - sent.sent_ms for sent in sends if sent.answered_ms]),
        "loop of a racer held at most, s": after.longest_since(loops),
        "processor seconds": {kind: round(seconds, 1) for kind, seconds in sorted(spent.items())},
        **audited(sends, landed, debited),
        "calls_without_one_ticket": abs(count - tickets["tickets"]) + abs(count - tickets["races"]),
        "tickets_without_charge": tickets["uncharged"],
        "tickets_off_by": abs(debited - tickets["charged"]),
        "audit_exit_code": audit.returncode,
    }


async def measure(system: System, count: int, delay_slots: int) -> dict[str, Any]:
    timeout, connector = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS), aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        sender = Sender(session, system)
        await sender.payer.fund()
        await asyncio.gather(*(sender.race(raw) for raw in await sender.payments(_WARM)))
        return await flood(sender, count, delay_slots)


def main(
    sends: Annotated[int, typer.Option(min=1, help="Sends in flight at one moment.")] = 10_000,
    racers: Annotated[int, typer.Option(min=1, max=16, help="Racers that share them.")] = 3,
    delay_slots: Annotated[int, typer.Option(min=1, help="So long the chain holds each transaction back.")] = 60,
    tpu: Annotated[
        bool, typer.Option(help="Also straight to the leaders, by QUIC, which takes more of the cores.")
    ] = False,
) -> dict[str, Any]:
    """Measure very many sends in flight at once; takes about two minutes."""
    settings = _ROOM | {"LEDGER_SENDS__RACERS": str(racers), "LEDGER_SENDS__TPU": str(tpu).lower()}
    settings["LEDGER_SERVE__SMALL_ACTORS"] = "apart"  # Measures the event loop of each racer separately.
    with systems.gateway(None, settings) as system:
        found = asyncio.run(measure(system, sends, delay_slots))
    scenario.show("sends in flight at one moment", ("figure", "value"), found.items())
    wrong = wrong_figures(found)
    if wrong:
        raise scenario.Wrong(f"not as the chain has it: {', '.join(wrong)}", found)
    return found


def wrong_figures(found: dict[str, Any]) -> list[str]:
    """Return the names of figures after `never_taken` that are not 0, and of sends that were not taken."""
    names = list(found)
    return [name for name in names[names.index("never_taken") :] if found[name]]
