"""Monotonic reads through the product, before nodes that lag behind one real chain and swap their places.

Three nodes (lagging_views.py) show one embedded chain 0, 5 and 40 slots late, and swap these lags all the time. Clients
of several API accounts, which share them, read the balances of many accounts at confirmed, with X-Consistency and
without, in turns. Of each API account, a read that begins after the answer to another one must not be of a lower slot.
Meanwhile senders transfer a lamport with sendAndConfirm, and then read it. The cost is measured twice: with these
nodes, and with nodes without a lag, where nothing is to be mended and what is left is the price of the promise.
"""

import asyncio
import base64
import itertools
import random
import statistics
import sys
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Annotated, Any

import aiohttp
import orjson
import typer
import uvloop
from solders.keypair import Keypair

from bench import many_accounts, scenario, systems
from bench.chain import Payer, admin, devnode, latest_blockhash, rpc
from bench.figures import percentile
from bench.processes import cpu_seconds, cpu_spent
from bench.product import Product
from bench.scenario import console

ANY, MONOTONIC = "any", "monotonic"
LAGS = (0, 5, 40)
_API_ACCOUNTS = 5
_SWAP_SECONDS = 0.7
_SENDERS = 4
_CREDITS = 1_000_000_000
_CONFIRMED = {"commitment": "confirmed"}
_WARM_UP_READS = 200


@dataclass(slots=True)
class Reads:
    """Findings of one step of reads."""

    answered: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    steps_back: int = 0
    deepest: int = 0  # In slots.
    seconds: float = 0.0
    cpu_us: float = 0.0  # Of the product, for each answered read.
    node_calls: float = 0.0  # For each answered read, including probes.
    latencies_ms: list[float] = field(default_factory=list)

    def add(self, other: "Reads") -> None:
        self.answered += other.answered
        self.refused += other.refused
        self.steps_back += other.steps_back
        self.deepest = max(self.deepest, other.deepest)
        self.seconds += other.seconds
        self.latencies_ms += other.latencies_ms


class Sight:
    """The newest slot that any client of one API account has seen."""

    def __init__(self) -> None:
        self.newest = 0

    def see(self, before: int, slot: int, found: Reads) -> None:
        """Record an answer. before: the newest slot when the read began."""
        if slot < before:
            found.steps_back += 1
            found.deepest = max(found.deepest, before - slot)
        self.newest = max(self.newest, slot)


class Clients:
    """keys: of the API accounts. watched: the accounts on the chain that are read."""

    def __init__(self, session: aiohttp.ClientSession, url: str, keys: list[str], watched: list[str]) -> None:
        self._session, self._url, self._keys, self._watched = session, url, keys, watched
        self._sights = {word: [Sight() for _ in keys] for word in (ANY, MONOTONIC)}

    async def call(self, key: str, consistency: str, method: str, *params: Any) -> dict[str, Any]:
        headers = {"x-api-key": key, "content-type": "application/json"}
        if consistency != ANY:
            headers["x-consistency"] = consistency
        body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        async with self._session.post(self._url, data=body, headers=headers) as response:
            found: dict[str, Any] = orjson.loads(await response.read())
            return found

    async def read(self, reads: int, clients: int, consistency: str, seed: int) -> Reads:
        """Make so many reads by so many clients at once."""
        found, left = Reads(), itertools.count(1)
        for sight in self._sights[consistency]:
            sight.newest = 0

        async def client(number: int) -> None:
            chance, at = random.Random(seed + number), number % len(self._keys)
            sight = self._sights[consistency][at]
            while next(left) <= reads:
                before, began = sight.newest, time.perf_counter()
                answer = await self.call(
                    self._keys[at], consistency, "getBalance", chance.choice(self._watched), _CONFIRMED
                )
                found.latencies_ms.append((time.perf_counter() - began) * 1e3)
                if "result" not in answer:
                    found.refused[str(answer["error"].get("message"))[:60]] += 1
                    continue
                found.answered += 1
                sight.see(before, answer["result"]["context"]["slot"], found)

        began = time.perf_counter()
        await asyncio.gather(*(client(number) for number in range(clients)))
        found.seconds = time.perf_counter() - began
        return found


@dataclass(slots=True)
class Sends:
    """Transfers of this run, and how many of them their sender read at once."""

    confirmed: int = 0
    other: int = 0
    unseen: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)


class Sender:
    """Sends lamports to an account of its own, and reads it after each. Nobody else sends to it."""

    def __init__(self, clients: Clients, key: str, payer: Payer, chain: tuple[aiohttp.ClientSession, str]) -> None:
        self._clients, self._key, self._payer, self._chain = clients, key, payer, chain

    async def run(self, sends: Sends) -> None:
        """Send until cancelled."""
        address, sent = str(self._payer.to), 0
        opening = await rpc(*self._chain, "getBalance", address, _CONFIRMED)
        while True:
            transaction = self._payer.signed(await latest_blockhash(*self._chain), tips=False)
            text = base64.b64encode(transaction).decode()
            answer = await self._clients.call(self._key, ANY, "sendAndConfirm", text, {"encoding": "base64"})
            if answer.get("result", {}).get("status") != "confirmed":
                sends.other += 1
                opening = await rpc(*self._chain, "getBalance", address, _CONFIRMED)  # It may or may not have landed.
                sent = 0
                continue
            sent += 1
            sends.confirmed += 1
            for word in (MONOTONIC, ANY):
                read = await self._clients.call(self._key, word, "getBalance", address, _CONFIRMED)
                if "result" not in read:
                    sends.refused[word] += 1
                elif read["result"]["value"] < opening["value"] + sent:
                    sends.unseen[word] += 1


class Views:
    """The lagging nodes, as the scenario controls them."""

    def __init__(self, session: aiohttp.ClientSession, ports: list[int]) -> None:
        self._session, self._url = session, f"http://127.0.0.1:{ports[0]}"

    async def set(self, *lags: int) -> int:
        """Set the lags; return the number of calls to all nodes so far."""
        return sum(await rpc(self._session, self._url, "bench.lags", *lags))

    async def swap(self, seed: int) -> None:
        """Swap the nodes' lags until cancelled."""
        chance, lags = random.Random(seed), list(LAGS)
        while True:
            chance.shuffle(lags)
            await self.set(*lags)
            await asyncio.sleep(_SWAP_SECONDS)


async def _step(
    product: Product, views: Views, clients: Clients, lags: tuple[int, ...], work: tuple[int, int, str, int]
) -> Reads:
    """Run one step; measure its processor time and its calls to nodes. lags: empty while they are swapped."""
    before = await views.set(*lags) if lags else 0
    began = cpu_seconds((product.pid,))
    found = await clients.read(*work)
    spent = sum(cpu_spent(began, cpu_seconds((product.pid,)), {}).values())
    found.cpu_us = spent * 1e6 / max(1, found.answered)
    if lags:
        found.node_calls = (await views.set(*lags) - before) / max(1, found.answered)
    return found


async def _alternate(
    product: Product, views: Views, clients: Clients, lags: tuple[int, ...], counts: tuple[int, int, int], at_once: int
) -> tuple[dict[str, Reads], dict[str, float]]:
    """Both kinds in each round. counts: rounds, and reads of each kind in a round. The ratios are of one round."""
    rounds, *reads = counts
    totals = {ANY: Reads(), MONOTONIC: Reads()}
    ratios: dict[str, list[float]] = {"CPU": [], "reads/s": [], "p50": [], "calls to nodes": []}
    for number in range(rounds):
        steps: dict[str, Reads] = {}
        kinds = ((ANY, reads[0]), (MONOTONIC, reads[1]))
        for word, count in kinds if number % 2 else reversed(kinds):
            steps[word] = await _step(product, views, clients, lags, (count, at_once, word, number))
            totals[word].add(steps[word])
        one, other = steps[MONOTONIC], steps[ANY]
        ratios["CPU"].append(one.cpu_us / other.cpu_us)
        ratios["reads/s"].append(one.answered / one.seconds / (other.answered / other.seconds))
        ratios["p50"].append(percentile(one.latencies_ms, 50) / percentile(other.latencies_ms, 50))
        if lags:
            ratios["calls to nodes"].append(one.node_calls / other.node_calls)
    return totals, {name: statistics.median(values) for name, values in ratios.items() if values}


def _shown(title: str, totals: dict[str, Reads], ratios: dict[str, float]) -> dict[str, Any]:
    rows = []
    for word, reads in totals.items():
        ordered = reads.latencies_ms
        figures = (reads.answered, sum(reads.refused.values()), reads.steps_back, reads.deepest)
        rows.append((word, *figures, percentile(ordered, 50), percentile(ordered, 99)))
    scenario.show(title, ("reads", "answered", "refused", "steps back", "slots", "p50 ms", "p99 ms"), rows)
    text = ", ".join(f"{name} {value:.2f}" for name, value in ratios.items())
    console.print(f"{title}; monotonic by any: {text}")
    found = {
        word: {"answered": one.answered, "refused": dict(one.refused), "steps back": one.steps_back}
        for word, one in totals.items()
    }
    return {**found, "ratios": ratios}


async def measure(
    product: Product,
    ports: list[int],
    chain_url: str,
    keys: list[str],
    watched: list[str],
    payers: list[Payer],
    reads: int,
    clients: int,
    rounds: int,
) -> dict[str, Any]:
    """payers: funded. Their sessions have ended, so only their keys are used."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        asking = Clients(session, f"{product.http_url}/", keys, watched)
        views, chain = Views(session, ports), (session, chain_url)
        for word in (ANY, MONOTONIC):
            await asking.read(_WARM_UP_READS, clients, word, 0)
        figures: dict[str, Any] = {}
        few = max(200, reads // 20 // rounds)
        for at_once, count in ((1, max(100, few // 4)), (clients, few)):
            title = f"nodes without a lag, {at_once} at once"
            done = await _alternate(product, views, asking, (0, 0, 0), (rounds, count, count), at_once)
            figures[title] = _shown(title, *done)
        sends = Sends()
        senders = [
            Sender(asking, keys[number % len(keys)], Payer(session, chain_url, one.keypair, one.to), chain)
            for number, one in enumerate(payers)
        ]
        beside = [asyncio.create_task(one.run(sends)) for one in senders]
        beside.append(asyncio.create_task(views.swap(1)))
        try:
            each = (rounds, max(1, reads // rounds // 4), -(-reads // rounds))
            done = await _alternate(product, views, asking, (), each, clients)
        finally:
            for task in beside:
                task.cancel()
            ends = await asyncio.gather(*beside, return_exceptions=True)
        for end in ends:
            if not isinstance(end, asyncio.CancelledError) and isinstance(end, BaseException):
                raise end
        title = f"nodes {', '.join(map(str, LAGS))} slots late, which swap, {clients} at once"
        figures[title] = _shown(title, *done)
        own = {
            "confirmed": sends.confirmed,
            "other": sends.other,
            **{f"not seen by {word}": sends.unseen[word] for word in (MONOTONIC, ANY)},
            **{f"refused to {word}": sends.refused[word] for word in (MONOTONIC, ANY)},
        }
        scenario.show_figures("own sends", own)
        figures["own sends"] = own
    problems = [name for name, one in figures.items() if one.get(MONOTONIC, {}).get("steps back")]
    if problems or own["not seen by monotonic"]:
        raise scenario.Wrong(f"a monotonic read stepped back: {problems or 'an own send was not seen'}", figures)
    if not sends.confirmed:
        raise scenario.Wrong("no send was confirmed", figures)
    return figures


async def _funded(chain_url: str, watched: list[str]) -> None:
    async with aiohttp.ClientSession() as session:
        for number, address in enumerate(watched):
            await admin(session, chain_url, "fund", pubkey=address, lamports=10**9 + number)


async def _payers(chain_url: str, count: int) -> list[Payer]:
    async with aiohttp.ClientSession() as session:
        payers = [Payer(session, chain_url) for _ in range(count)]
        for payer in payers:
            await payer.fund()
        return payers


def main(
    reads: Annotated[int, typer.Option(min=1_000, help="Monotonic reads before nodes that lag.")] = 200_000,
    accounts: Annotated[int, typer.Option(min=1, max=90, help="Accounts on the chain that are read.")] = 50,
    clients: Annotated[int, typer.Option(min=1, help="Clients, with one read in flight each.")] = 20,
    rounds: scenario.Rounds = 8,
) -> dict[str, Any]:
    """Read through the product while its nodes lag and swap places; takes about five minutes."""
    watched = [str(Keypair().pubkey()) for _ in range(accounts)]
    with ExitStack() as stack:
        chain = stack.enter_context(devnode())
        uvloop.run(_funded(chain.url, watched))
        payers = uvloop.run(_payers(chain.url, _SENDERS))
        kept = [*watched, *(str(payer.to) for payer in payers)]
        ports = [systems.free_port() for _ in LAGS]
        command = [sys.executable, "-m", "bench.lagging_views", chain.url, "--ports", ",".join(map(str, ports))]
        command += ["--lags", ",".join(map(str, LAGS)), "--watched", ",".join(kept)]
        stack.enter_context(systems.running(command, {}, ports[0]))
        nodes = [
            {"name": f"view-{lag}", "url": f"http://127.0.0.1:{port}"} for lag, port in zip(LAGS, ports, strict=True)
        ]
        settings = {
            "LEDGER_UPSTREAM__NODES": orjson.dumps(nodes).decode(),
            "LEDGER_PAYMENTS__NETWORK": "devnet",
            "LEDGER_TELEMETRY__LOG_LEVEL": "WARNING",
        }
        product = stack.enter_context(systems.started(systems.LIMITS_AWAY | settings))
        keys = many_accounts.opened(product, _API_ACCOUNTS, _CREDITS)
        found: dict[str, Any] = uvloop.run(
            measure(product, ports, chain.url, keys, kept, payers, reads, clients, rounds)
        )
        return found
