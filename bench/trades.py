"""`python -m bench.trades`: measures how long executeSnipe and executeSell take, through the product over its chain.

Some coins are launched on the embedded chain and the demo wallet buys each by a transaction that the gateway built.
Then builds are asked for at a fixed rate, whether or not earlier ones have been answered, in turn a purchase and a sale
of the next coin: so a slow answer delays no other, and its whole wait counts. Nothing is sent. Everything runs on this
machine over loopback. The exit code is 0 unless a build failed.
"""

import asyncio
import base64
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import aiohttp
import base58
import typer
from rich.console import Console
from rich.table import Table
from solders.keypair import Keypair
from solders.message import to_bytes_versioned
from solders.transaction import VersionedTransaction

from bench import systems
from bench.generator import percentile
from bench.product import Product, ProductFailed
from ledger_gateway import Gateway, LedgerGatewayError

RESULTS = Path(__file__).with_name("results") / "trades.json"
P50_MS_MAX = 15.0
_KINDS = ("classic", "v2", "mayhem")
_BUDGET_SOL = "0.01"
_TIMEOUT_SECONDS = 30
_WARM_UP_SECONDS = 2


@dataclass(frozen=True, slots=True)
class Asked:
    """One build to ask for, and the seconds after the start at which it is sent."""

    at_seconds: float
    method: str
    params: dict[str, Any]


def plan(coins: dict[str, int], per_second: int, seconds: float) -> list[Asked]:
    """Builds at equal distances. coins: mints, and the base units of each that the wallet may sell."""
    mints = list(coins)
    made = []
    for number in range(int(per_second * seconds)):
        mint = mints[number // 2 % len(mints)]
        if number % 2:
            method, amount = "executeSell", {"token_amount": str(coins[mint])}
        else:
            method, amount = "executeSnipe", {"amount_sol": _BUDGET_SOL}
        made.append(Asked(number / per_second, method, {"mint": mint, **amount}))
    return made


class Client:
    """Calls by JSON-RPC. failed: what was answered in place of a result."""

    def __init__(self, session: aiohttp.ClientSession, url: str, api_key: str = "") -> None:
        self._session, self._url = session, url
        self._headers = {"X-Api-Key": api_key} if api_key else {}
        self.failed: list[Any] = []

    async def call(self, method: str, *params: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        async with self._session.post(self._url, json=body, headers=self._headers) as answer:
            reply = await answer.json()
        if "result" not in reply:
            self.failed.append(reply)
        return reply.get("result")

    async def timed(self, asked: Asked, began: float) -> float:
        """Milliseconds from the moment at which the build was due, to the last byte of its answer."""
        due = began + asked.at_seconds
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        await self.call(asked.method, asked.params)
        return (time.perf_counter() - due) * 1000


async def bought_coins(
    session: aiohttp.ClientSession, gateway: Gateway, node: Client, node_url: str, wallet: Keypair, count: int
) -> dict[str, int]:
    """Launch coins and buy some of each; returns half of what the wallet holds of each."""
    coins = {}
    for number in range(count):
        launch = {"kind": _KINDS[number % len(_KINDS)], "trades": 0}
        async with session.post(f"{node_url}/admin/launch", json=launch) as answer:
            mint = (await answer.json())["mint"]
        built = await gateway.call("executeSnipe", {"mint": mint, "amount_sol": _BUDGET_SOL})
        unsigned = VersionedTransaction.from_bytes(base64.b64decode(built["unsigned_tx_base64"]))
        signature = wallet.sign_message(to_bytes_versioned(unsigned.message))
        signed = base64.b64encode(bytes(VersionedTransaction.populate(unsigned.message, [signature]))).decode()
        await node.call("sendTransaction", signed, {"encoding": "base64", "preflightCommitment": "processed"})
        coins[mint] = built["tokens_out"] // 2
    return coins


async def measure(product: Product, coin_count: int, per_second: int, seconds: float) -> tuple[list[float], list[Any]]:
    node_url = str(product.ready["node_url"])
    wallet = Keypair.from_bytes(base58.b58decode(str(product.ready["secret_key"])))
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
        gateway, node = Client(session, f"{product.http_url}/", product.api_key), Client(session, node_url)
        fund = {"pubkey": str(wallet.pubkey()), "lamports": 10**11}
        async with session.post(f"{node_url}/admin/fund", json=fund) as answer:
            answer.raise_for_status()
        async with Gateway(product.http_url, product.api_key) as buyer:  # Not timed: a refusal ends the run here.
            coins = await bought_coins(session, buyer, node, node_url, wallet, coin_count)
        for length in (_WARM_UP_SECONDS, seconds):
            began = time.perf_counter()
            builds = plan(coins, per_second, length)
            took = list(await asyncio.gather(*(gateway.timed(asked, began) for asked in builds)))
        return took, gateway.failed + node.failed


def main(
    per_second: Annotated[int, typer.Option(min=1, max=1_000, help="Builds a second.")] = 50,
    seconds: Annotated[float, typer.Option(min=1, max=120, help="Length of the timed part.")] = 20.0,
    coins: Annotated[int, typer.Option(min=1, max=500, help="Coins that are asked about in turn.")] = 20,
    results: Annotated[Path, typer.Option(help="Where the figures are written as JSON.")] = RESULTS,
) -> None:
    """Measure builds of trades at a fixed rate through the product."""
    console = Console(highlight=False)
    try:
        with systems.gateway(None) as gateway:
            assert gateway.product is not None
            took, failed = asyncio.run(measure(gateway.product, coins, per_second, seconds))
    except (ProductFailed, ChildProcessError, ValueError, OSError, aiohttp.ClientError, LedgerGatewayError) as error:
        console.print(f"Broke: {error}", markup=False)
        sys.exit(1)
    figures = figures_of(took)
    table = Table("builds", "a second", "p50 ms", "p99 ms", "longest ms", f"target: p50 below {P50_MS_MAX:.0f}")
    met = "[green]met[/green]" if figures["p50_ms"] < P50_MS_MAX else "[red]missed[/red]"
    shown = (f"{figures[name]:.1f}" for name in ("p50_ms", "p99_ms", "longest_ms"))
    table.add_row(str(len(took)), str(per_second), *shown, met)
    console.print(table)
    results.parent.mkdir(exist_ok=True)
    results.write_text(
        json.dumps(figures | {"builds": len(took), "per_second": per_second}, indent=2), encoding="utf-8"
    )
    if failed:
        console.print(f"Broke: {len(failed)} builds failed, the first with {failed[0]}", markup=False)
        sys.exit(1)


def figures_of(took: list[float]) -> dict[str, float]:
    ordered = sorted(took)
    return {
        "p50_ms": percentile(ordered, 50),
        "p99_ms": percentile(ordered, 99),
        "longest_ms": ordered[-1] if ordered else 0.0,
    }


if __name__ == "__main__":
    typer.run(main)
