"""Measures sendAndConfirm through the whole product on its embedded chain.

Three steps: 50 sends a second, beside a client that sends to the chain by itself and polls; 200 sends at once; and
2,000 sends while each leg loses 30 %, after which every answer and every charge is compared with the chain.
"""

import asyncio
import base64
import os
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import aiohttp
import base58
import typer

from bench import scenario, systems
from bench.chain import UNCHECKED, Payer, latest_blockhash, lose, rpc, statuses
from bench.figures import percentile
from bench.product import Product
from bench.systems import System

STEPS = ("overhead", "at_once", "losses")
FIRST_BROADCAST_P50_MS_MAX = 10
_SEED = 7  # Seed of the losses.
_PER_SECOND = 50
_FRESH_SECONDS = 8  # Payments are signed this long ahead; a blockhash is valid for a minute.
_POLL_SECONDS = 0.4
_TOGETHER = 50  # Calls in one request, if many are made.
_PROOF_SECONDS = 240  # 150 blocks, finality, and the looks of recovery.
_LANDING, _BASE = 50, 2
_NO_SUCH_SEND = "has sent no transaction of this signature"
_NEVER_TAKEN = "never taken"  # The racer was down when the call arrived: nothing was sent or charged.
_OUTCOMES = ("confirmed", "failed", _NEVER_TAKEN)


@dataclass(slots=True)
class Sent:
    """One send. Times are Unix milliseconds. status, charged: as the answer said, later as getSendStatus says."""

    signature: str
    sent_ms: float
    answered_ms: float = 0.0
    status: str = ""
    charged: int = 0

    def take(self, result: dict[str, Any]) -> None:
        self.status, self.charged = result["status"], result.get("charged_credits", 0)


class Sender:
    """Sends through the product, and asks the chain itself for the truth."""

    def __init__(self, session: aiohttp.ClientSession, system: System) -> None:
        assert system.product is not None and system.balance is not None
        self.session, self._url, self.balance = session, system.url, system.balance
        self.product = system.product
        self.node_url = str(self.product.ready["node_url"])
        self._headers = {"X-Api-Key": system.api_key}
        self.payer = Payer(session, self.node_url)

    async def payments(self, count: int, tips: bool = True) -> list[bytes]:
        """Make payments. tips: for the block engine, a leg of these alone."""
        blockhash = await latest_blockhash(self.session, self.node_url)
        return [self.payer.signed(blockhash, tips=tips) for _ in range(count)]

    async def race(self, raw: bytes) -> Sent:
        (sent,) = await self.race_together((raw,))
        return sent

    async def race_together(self, raws: Sequence[bytes]) -> list[Sent]:
        """Send all in one request, each as a separate call."""
        sends = [Sent(_signature(raw), time.time() * 1000) for raw in raws]
        results = await self._calls("sendAndConfirm", [base64.b64encode(raw).decode() for raw in raws])
        for sent, result in zip(sends, results, strict=True):
            sent.answered_ms = time.time() * 1000
            sent.take(result)
        return sends

    async def by_hand(self, raw: bytes) -> Sent:
        """Send as a client without the product does: to the node, and poll until it is confirmed."""
        sent = Sent(_signature(raw), time.time() * 1000)
        await rpc(self.session, self.node_url, "sendTransaction", base64.b64encode(raw).decode(), UNCHECKED)
        while sent.status != "confirmed":
            await asyncio.sleep(_POLL_SECONDS)
            (row,) = (await rpc(self.session, self.node_url, "getSignatureStatuses", [sent.signature]))["value"]
            sent.status = "" if row is None else row["confirmationStatus"]
        sent.answered_ms = time.time() * 1000
        return sent

    async def until_proven(self, sends: Sequence[Sent], seconds: float) -> None:
        """Ask for each send without an outcome until it has one, or until the racer says that it never got it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and (waiting := [sent for sent in sends if sent.status not in _OUTCOMES]):
            for start in range(0, len(waiting), _TOGETHER):
                part = waiting[start : start + _TOGETHER]
                results = await self._calls("getSendStatus", [sent.signature for sent in part])
                for sent, result in zip(part, results, strict=True):
                    if _NO_SUCH_SEND in result["status"]:
                        result["status"] = _NEVER_TAKEN
                    sent.take(result)
            await asyncio.sleep(1)

    async def first_arrivals(self) -> dict[str, int]:
        """Return, by signature, the Unix milliseconds at which the first copy reached the chain, on any leg."""
        found: dict[str, int] = {}
        after = 0
        while True:
            async with self.session.get(f"{self.node_url}/admin/arrivals?after={after}") as answer:
                rows = (await answer.json())["arrivals"]
            if not rows:
                return found
            for row in rows:
                found.setdefault(row["signature"], row["time_ms"])
            after = rows[-1]["number"]

    async def on_chain(self, signatures: Sequence[str]) -> set[str]:
        """Return those that are on the chain without an error."""
        found = await statuses(self.session, self.node_url, signatures)
        return {one for one, row in found.items() if row["err"] is None}

    async def lose(self, drop_share: float) -> None:
        await lose(self.session, self.node_url, _SEED, drop_share)

    async def _calls(self, method: str, arguments: Sequence[str]) -> list[dict[str, Any]]:
        """Make so many calls in one request. Returns their results, or a status that tells the error."""
        bodies = [
            {"jsonrpc": "2.0", "id": number, "method": method, "params": [one]} for number, one in enumerate(arguments)
        ]
        body = bodies[0] if len(bodies) == 1 else bodies
        async with self.session.post(self._url, json=body, headers=self._headers) as answer:
            found = await answer.json(content_type=None)
        replies = found if isinstance(found, list) and len(found) == len(bodies) else [found] * len(bodies)
        return [one.get("result") or {"status": f"refused: {one.get('error')}"} for one in replies]


def _signature(raw: bytes) -> str:
    return str(base58.b58encode(raw[1:65]), "ascii")  # One signature, after the count of signatures.


async def paced(sender: Sender, count: int, send: Callable[[bytes], Awaitable[Sent]]) -> list[Sent]:
    """Send `count` payments, 50 a second, without waiting for the earlier ones."""
    tasks: list[asyncio.Task[Sent]] = []
    began = time.monotonic()
    while len(tasks) < count:
        batch = await sender.payments(min(_PER_SECOND * _FRESH_SECONDS, count - len(tasks)))
        for raw in batch:
            await asyncio.sleep(max(0.0, began + len(tasks) / _PER_SECOND - time.monotonic()))
            tasks.append(asyncio.ensure_future(send(raw)))
    return list(await asyncio.gather(*tasks))


def percentiles(values: Sequence[float]) -> dict[str, float]:
    return {f"p{rank}": round(percentile(values, rank), 1) for rank in (50, 90, 99)}


def timed(sends: Sequence[Sent], arrivals: dict[str, int]) -> dict[str, Any]:
    """first_broadcast_ms: from just before the client's request to the first copy on the chain's socket."""
    return {
        "sends": len(sends),
        "statuses": dict(Counter(sent.status for sent in sends)),
        "first_broadcast_ms": percentiles([arrivals[sent.signature] - sent.sent_ms for sent in sends]),
        "answered_ms": percentiles([sent.answered_ms - sent.sent_ms for sent in sends]),
    }


def audited(sends: Sequence[Sent], landed: set[str], debited: int) -> dict[str, int]:
    """Compare answers and charges with the chain. Every figure but the first four has to be 0."""
    on_chain = [sent for sent in sends if sent.signature in landed]
    others = [sent for sent in sends if sent.signature not in landed]
    return {
        "sends": len(sends),
        "landed": len(on_chain),
        "debited": debited,
        "never_taken": sum(sent.status == _NEVER_TAKEN for sent in sends),
        "landed_not_told": sum(sent.status != "confirmed" for sent in on_chain),
        "told_failed_and_landed": sum(sent.status == "failed" for sent in on_chain),
        "told_confirmed_not_on_chain": sum(
            sent.status == "confirmed" and sent.signature not in landed for sent in sends
        ),
        "without_outcome": sum(sent.status not in _OUTCOMES for sent in sends),
        "landing_charged_not_on_chain": sum(sent.charged == _LANDING for sent in others),
        "wrong_charges": sum(sent.charged != _LANDING for sent in on_chain)
        + sum(sent.charged not in (0, _BASE) for sent in others),
        "credits_off_by": abs(debited - sum(sent.charged for sent in sends)),
    }


async def overhead(sender: Sender, seconds: int) -> dict[str, Any]:
    raced = await paced(sender, _PER_SECOND * seconds, sender.race)
    by_hand = await paced(sender, _PER_SECOND * seconds, sender.by_hand)
    arrivals = await sender.first_arrivals()
    return {"product": timed(raced, arrivals), "by_hand": timed(by_hand, arrivals)}


async def at_once(sender: Sender, count: int) -> dict[str, Any]:
    sends = await asyncio.gather(*(sender.race(raw) for raw in await sender.payments(count)))
    return timed(sends, await sender.first_arrivals())


async def kill_racer(product: Product, kills: int, seconds: float) -> None:
    """Kill the racer with SIGKILL so many times, evenly over this time."""
    for _ in range(kills):
        await asyncio.sleep(seconds / (kills + 1))
        for pid in product.running("SendRacerActor"):
            os.kill(pid, signal.SIGKILL)


async def losses(sender: Sender, count: int, drop_share: float, kills: int) -> dict[str, int]:
    """Send while each leg loses this share.

    The status of a send that was not confirmed in its window is asked for until it has an outcome, or until the racer
    says that it never got the send.
    """
    before = sender.balance()
    await sender.lose(drop_share)
    killing = asyncio.create_task(kill_racer(sender.product, kills, count / _PER_SECOND))
    sends = await paced(sender, count, sender.race)
    await killing
    await sender.lose(0.0)
    await sender.until_proven(sends, _PROOF_SECONDS)
    landed = await sender.on_chain([sent.signature for sent in sends])
    return audited(sends, landed, before - sender.balance())


async def measure(
    system: System, only: Sequence[str], seconds: int, races: int, sends: int, drop_share: float, kills: int
) -> dict[str, Any]:
    timeout = aiohttp.ClientTimeout(total=60)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        sender = Sender(session, system)
        await sender.payer.fund()
        await paced(sender, _PER_SECOND, sender.race)  # Warms up connections to leaders, query plans and caches.
        found: dict[str, Any] = {}
        if "overhead" in only:
            found["overhead"] = await overhead(sender, seconds)
        if "at_once" in only:
            found["at_once"] = await at_once(sender, races)
        if "losses" in only:
            found["losses"] = await losses(sender, sends, drop_share, kills)
        return found


def main(
    only: Annotated[str, typer.Option(help="Steps, separated by commas.")] = ",".join(STEPS),
    seconds: Annotated[int, typer.Option(min=1, help="Of 50 sends a second each, for the overhead.")] = 20,
    races: Annotated[int, typer.Option(min=1, help="Sends at once.")] = 200,
    sends: Annotated[int, typer.Option(min=1, help="Sends under losses.")] = 2_000,
    drop_share: Annotated[float, typer.Option(min=0, max=1, help="Lost by each leg; above 0.3 some never land.")] = 0.3,
    kills: Annotated[int, typer.Option(min=0, help="Times that the racer is killed meanwhile.")] = 0,
) -> dict[str, Any]:
    """Measure sendAndConfirm; takes about three minutes."""
    wanted = scenario.chosen(only, STEPS)
    with systems.gateway(None) as system:
        found = asyncio.run(measure(system, wanted, seconds, races, sends, drop_share, kills))
    rows = ((f"{step}: {name}", value) for step, figures in found.items() for name, value in figures.items())
    title = f"wanted: first broadcast p50 at 50 sends/s within {FIRST_BROADCAST_P50_MS_MAX} ms"
    scenario.show(title, ("figure", "value"), rows)
    losses = found.get("losses", {})
    wrong = [name for name, value in list(losses.items())[4:] if value]
    if losses and drop_share <= 0.3 and not kills and losses["sends"] > losses["landed"]:
        wrong.append("not all landed")
    if wrong:
        raise scenario.Wrong(f"not as the chain has it: {', '.join(wrong)}", found)
    return found
