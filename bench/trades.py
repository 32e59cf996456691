"""Measures how long executeSnipe and executeSell take, through the product over its embedded chain.

Some coins are launched on the embedded chain and the demo wallet buys each by a transaction that the gateway built.
Then builds are asked for at a fixed rate, whether or not earlier ones have been answered, in turn a purchase and a sale
of the next coin: so a slow answer delays no other, and its whole wait counts. The built trades are not sent.
"""

import asyncio
import base64
import time
from dataclasses import dataclass
from typing import Annotated, Any

import aiohttp
import base58
import typer
from solders.keypair import Keypair
from solders.message import to_bytes_versioned
from solders.transaction import VersionedTransaction

from bench import scenario, systems
from bench.chain import admin, rpc
from bench.figures import in_ms
from bench.product import Product
from ledger_gateway import Gateway

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
    """Return builds at equal distances. coins: mints, and the base units of each that the wallet may sell."""
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


async def timed(session: aiohttp.ClientSession, url: str, asked: Asked, began: float, failed: list[str]) -> float:
    """Return the seconds from the moment at which the build was due to the last byte of its answer."""
    due = began + asked.at_seconds
    await asyncio.sleep(max(0.0, due - time.perf_counter()))
    try:
        await rpc(session, url, asked.method, asked.params)
    except RuntimeError as error:
        failed.append(str(error))
    return time.perf_counter() - due


async def bought_coins(
    session: aiohttp.ClientSession, gateway: Gateway, node_url: str, wallet: Keypair, count: int
) -> dict[str, int]:
    """Launch coins and buy some of each; returns half of what the wallet holds of each."""
    coins = {}
    for number in range(count):
        mint = (await admin(session, node_url, "launch", kind=_KINDS[number % len(_KINDS)], trades=0))["mint"]
        built = await gateway.call("executeSnipe", {"mint": mint, "amount_sol": _BUDGET_SOL})
        unsigned = VersionedTransaction.from_bytes(base64.b64decode(built["unsigned_tx_base64"]))
        signature = wallet.sign_message(to_bytes_versioned(unsigned.message))
        signed = base64.b64encode(bytes(VersionedTransaction.populate(unsigned.message, [signature]))).decode()
        config = {"encoding": "base64", "preflightCommitment": "processed"}
        await rpc(session, node_url, "sendTransaction", signed, config)
        coins[mint] = built["tokens_out"] // 2
    return coins


async def measure(product: Product, coin_count: int, per_second: int, seconds: float) -> tuple[list[float], list[str]]:
    node_url, failed = str(product.ready["node_url"]), list[str]()
    wallet = Keypair.from_bytes(base58.b58decode(str(product.ready["secret_key"])))
    async with aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS),
        connector=aiohttp.TCPConnector(limit=0),
        headers={"X-Api-Key": product.api_key},
    ) as session:
        await admin(session, node_url, "fund", pubkey=str(wallet.pubkey()), lamports=10**11)
        async with Gateway(product.http_url, product.api_key) as buyer:  # Not timed: a refusal ends the run here.
            coins = await bought_coins(session, buyer, node_url, wallet, coin_count)
        for length in (_WARM_UP_SECONDS, seconds):
            began = time.perf_counter()
            builds = plan(coins, per_second, length)
            calls = (timed(session, f"{product.http_url}/", asked, began, failed) for asked in builds)
            took = list(await asyncio.gather(*calls))
        return took, failed


def main(
    per_second: Annotated[int, typer.Option(min=1, max=1_000, help="Builds a second.")] = 50,
    seconds: Annotated[float, typer.Option(min=1, max=120, help="Length of the timed part.")] = 20.0,
    coins: Annotated[int, typer.Option(min=1, max=500, help="Coins that are asked about in turn.")] = 20,
) -> dict[str, Any]:
    """Measure builds of trades at a fixed rate through the product."""
    with systems.gateway(None) as gateway:
        assert gateway.product is not None
        took, failed = asyncio.run(measure(gateway.product, coins, per_second, seconds))
    figures: dict[str, Any] = {"builds": len(took), "per_second": per_second, **in_ms(took)}
    scenario.show_figures("builds of trades", figures)
    scenario.show_targets([scenario.at_most("p50 ms", P50_MS_MAX, figures["p50_ms"], "{:.1f}")])
    if failed:
        raise scenario.Wrong(f"{len(failed)} builds failed, the first with {failed[0]}", figures)
    return figures
