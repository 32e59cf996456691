"""Measures how soon a transaction lands with the fees of suggestPriorityFee.

An embedded chain runs with a crowd whose transactions fill blocks to 90 % on average. In each round the product's own
code suggests the fees, and one transaction with each of them goes to the node at the same moment. The table is written
into actors/fees/README.md, between two marks.
"""

import asyncio
import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import aiohttp
import orjson
import typer

from actors.config import UpstreamConfig
from actors.fees.core import URGENCIES, WINDOW_SLOTS
from actors.fees.endpoints import FeeMethods
from actors.methods.entries import encoded
from actors.methods.fees import FeeQuestion
from actors.upstream.client import NodeClient
from bench import scenario
from bench.chain import UNCHECKED, Payer, devnode, latest_blockhash, rpc, statuses
from bench.product import ROOT

README = ROOT / "actors" / "fees" / "README.md"
BEGIN, END = "<!-- landing by fee: made by python -m bench landing-fees -->", "<!-- end of landing by fee -->"
HEAD = "| urgency | fee (median) | landed | in the next slot | within 5 slots | slots (median) | slots (p90) |"
RULE = "|---|---|---|---|---|---|---|"
SOON_SLOTS = 5
_LOAD = 0.9
_SLOT_MS = 200
_ROUND_SLOTS = 2
_WAIT_SLOTS = 60  # Slots after the last round; later landings count as none.


@dataclass(frozen=True, slots=True)
class Fate:
    """One transaction. slots: from the one in which it was sent to the one in which it landed; None: it did not."""

    fee: int
    slots: int | None


@dataclass(frozen=True, slots=True)
class Row:
    urgency: str
    fee: int
    sends: int
    landed: int
    next_slot: int
    soon: int
    slots_p50: int
    slots_p90: int


def row(urgency: str, fates: Sequence[Fate]) -> Row:
    """Summarise the fates of one urgency. A transaction that did not land counts as _WAIT_SLOTS."""
    slots = sorted(_WAIT_SLOTS if fate.slots is None else fate.slots for fate in fates)
    fees = sorted(fate.fee for fate in fates)
    return Row(
        urgency,
        fees[len(fees) // 2],
        len(fates),
        sum(fate.slots is not None for fate in fates),
        sum(each <= 1 for each in slots),
        sum(each <= SOON_SLOTS for each in slots),
        slots[len(slots) // 2],
        slots[len(slots) * 9 // 10],
    )


def table(rows: Sequence[Row]) -> str:
    lines = [
        f"| `{each.urgency}` | {each.fee:,} | {each.landed} of {each.sends} | {each.next_slot} | {each.soon} "
        f"| {each.slots_p50} | {each.slots_p90} |"
        for each in rows
    ]
    return "\n".join([HEAD, RULE, *lines])


def with_table(text: str, made: str) -> str:
    """Put a table between the marks."""
    begin = text.index(BEGIN) + len(BEGIN)
    return f"{text[:begin]}\n{made}\n{text[text.index(END) :]}"


class Crowded:
    """An embedded chain with a crowd, and the product's own suggestions for it."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url
        self._payer, self._node = Payer(session, url), NodeClient(UpstreamConfig(node_url=url), url)
        self._suggest = FeeMethods(self._node).handlers()["suggestPriorityFee"]

    async def measure(self, rounds: int) -> list[Row]:
        await self._payer.fund()
        await self._pass_slots(WINDOW_SLOTS)
        sent = []
        for _ in range(rounds):
            sent.append(await self._send_round())
            await self._pass_slots(_ROUND_SLOTS)
        await self._pass_slots(_WAIT_SLOTS)
        signatures = [signature for each in sent for _, signature, _ in each.values()]
        landed = await statuses(self._session, self._url, signatures)
        await self._node.close()
        fates: dict[str, list[Fate]] = {urgency: [] for urgency in URGENCIES}
        for each in sent:
            for urgency, (fee, signature, slot) in each.items():
                status = landed.get(signature)
                fates[urgency].append(Fate(fee, None if status is None else int(status["slot"]) - slot))
        return [row(urgency, each) for urgency, each in fates.items()]

    async def _send_round(self) -> dict[str, tuple[int, str, int]]:
        """Send one transaction for each urgency; returns its fee, signature and slot."""
        fees = {}
        for urgency in URGENCIES:
            answer = await self._suggest(encoded(FeeQuestion(urgency, ())), 5_000)
            fees[urgency] = int(orjson.loads(answer.value())["suggested_fee_microlamports"])
        blockhash = await latest_blockhash(self._session, self._url)
        payments = {urgency: self._payer.signed(blockhash, fee) for urgency, fee in fees.items()}
        slot = await self._slot()
        sends = (
            rpc(self._session, self._url, "sendTransaction", base64.b64encode(raw).decode(), UNCHECKED)
            for raw in payments.values()
        )
        signatures = await asyncio.gather(*sends)
        return {urgency: (fees[urgency], str(one), slot) for urgency, one in zip(fees, signatures, strict=True)}

    async def _slot(self) -> int:
        return int(await rpc(self._session, self._url, "getSlot", {"commitment": "processed"}))

    async def _pass_slots(self, count: int) -> None:
        until = await self._slot() + count
        while await self._slot() < until:  # noqa: ASYNC110 - another process does it.
            await asyncio.sleep(_SLOT_MS / 4_000)


async def measure(rounds: int, url: str) -> list[Row]:
    async with aiohttp.ClientSession() as session:
        return await Crowded(session, url).measure(rounds)


def main(
    rounds: Annotated[int, typer.Option(min=10, help="Transactions of each urgency.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Of the crowd.")] = 7,
    write: Annotated[bool, typer.Option(help="Write the table into actors/fees/README.md.")] = True,
) -> list[Row]:
    """Make the table of landing by fee; takes about a minute and a half."""
    with devnode("--slot-ms", str(_SLOT_MS), "--crowd", str(_LOAD), "--seed", str(seed)) as chain:
        rows = asyncio.run(measure(rounds, chain.url))
    scenario.console.print(table(rows), markup=False)
    if write:
        README.write_text(with_table(README.read_text(encoding="utf-8"), table(rows)), encoding="utf-8")
    return rows
