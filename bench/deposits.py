"""Measures how fast a backlog of deposits is credited, and how much memory that takes.

The embedded chain, PostgreSQL and Redis each run as a process. The watcher and one account owner share this process,
although each has its own in the product. First wallets send USDC by signed transactions. Then the watcher starts with
an empty cursor, and the time until the last credit is durable is measured.
"""

import asyncio
import base64
import resource
import time
from typing import Annotated, Any

import aiohttp
import psutil
import typer
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.token.associated import get_associated_token_address
from solders.transaction import VersionedTransaction

from actors.addresses import TOKEN_PROGRAM
from actors.clock import SystemClock
from actors.config import PaymentsConfig, UpstreamConfig
from actors.deposits.usdc.actor import DepositWatcher
from actors.deposits.usdc.chain import DepositChain
from actors.deposits.usdc.core import FindingStatus
from actors.deposits.usdc.crediting import Crediting
from actors.deposits.usdc.store import PostgresDepositStore
from actors.deposits.usdc.transfers import DepositAccount, deposit_account
from actors.storage.connections import connect_postgres
from actors.upstream.client import NodeClient
from actors.x402_types import NETWORKS
from bench import scenario, stores, systems
from bench.chain import UNCHECKED, admin, devnode, latest_blockhash, rpc
from bench.scenario import console

MINT = NETWORKS["devnet"].usdc_mint
AMOUNT = 10_000
RATE = 100_000
TARGET_PER_SECOND = 200
_SENDS_IN_FLIGHT = 32
_HEIGHTS_REUSED = 40  # A blockhash is valid for 150 blocks; it is replaced much earlier.
_COMPUTE_BUDGET = Pubkey.from_string("ComputeBudget111111111111111111111111111111")
_COMPUTE_UNITS = 50_000  # Ten times what a transfer needs.


class Payers:
    """Wallets with SOL and USDC that pay into the deposit account, each transaction its own signature."""

    def __init__(self, session: aiohttp.ClientSession, url: str, wallets: int, keeper: Pubkey) -> None:
        self._session, self._url = session, url
        self._wallets = [Keypair() for _ in range(wallets)]
        self._keeper = keeper
        self._till = get_associated_token_address(keeper, Pubkey.from_string(MINT))

    async def fund(self, each: int) -> None:
        for pubkey, usdc in [(self._keeper, 1), *((wallet.pubkey(), each) for wallet in self._wallets)]:
            await admin(self._session, self._url, "fund", pubkey=str(pubkey), lamports=10**9, usdc_base_units=usdc)

    async def pay(self, count: int) -> None:
        """Send this many transfers of AMOUNT, from each wallet in turn; returns when all are final."""
        signatures: list[str] = []
        for start in range(0, count, _SENDS_IN_FLIGHT * _HEIGHTS_REUSED):
            blockhash = Hash.from_string(await latest_blockhash(self._session, self._url))
            places = asyncio.Semaphore(_SENDS_IN_FLIGHT)
            end = min(count, start + _SENDS_IN_FLIGHT * _HEIGHTS_REUSED)

            async def send(number: int, blockhash: Hash = blockhash, places: asyncio.Semaphore = places) -> str:
                async with places:
                    raw = base64.b64encode(bytes(self.signed(number, blockhash))).decode()
                    return str(await rpc(self._session, self._url, "sendTransaction", raw, UNCHECKED))

            signatures += await asyncio.gather(*(send(number) for number in range(start, end)))
        assert len(set(signatures)) == count, "two payments are one transaction"
        # Concurrent sends land in any order, so checking the last one is not enough.
        while not await self._are_final(signatures[-_SENDS_IN_FLIGHT:]):  # noqa: ASYNC110 - another process does it.
            await asyncio.sleep(0.2)

    def signed(self, number: int, blockhash: Hash) -> VersionedTransaction:
        """Sign payment `number`, a transaction that differs from all others with the same blockhash."""
        wallet = self._wallets[number % len(self._wallets)]
        source = get_associated_token_address(wallet.pubkey(), Pubkey.from_string(MINT))
        # A node accepts equal transactions only once, so each payment has its own unit limit.
        unit_limit = Instruction(_COMPUTE_BUDGET, b"\x02" + (_COMPUTE_UNITS + number).to_bytes(4, "little"), [])
        transfer = Instruction(
            Pubkey.from_string(TOKEN_PROGRAM),
            b"\x03" + AMOUNT.to_bytes(8, "little"),
            [
                AccountMeta(source, False, True),
                AccountMeta(self._till, False, True),
                AccountMeta(wallet.pubkey(), True, False),
            ],
        )
        message = MessageV0.try_compile(wallet.pubkey(), [unit_limit, transfer], [], blockhash)
        return VersionedTransaction(message, [wallet])

    async def _are_final(self, signatures: list[str]) -> bool:
        found = await rpc(self._session, self._url, "getSignatureStatuses", signatures)
        return all(status and status["confirmationStatus"] == "finalized" for status in found["value"])


class Memory:
    """Samples the resident memory of this process."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self.samples: list[int] = []

    async def watch(self) -> None:
        while True:
            self.samples.append(self._process.memory_info().rss)
            await asyncio.sleep(0.2)

    def grown_mb(self) -> float:
        """Return the growth after a quarter of the run: by then all caches are full."""
        if len(self.samples) < 8:
            return 0.0
        return (self.samples[-1] - self.samples[len(self.samples) // 4]) / 2**20


async def catch_up(urls: stores.Stores, node_url: str, account: DepositAccount) -> dict[str, Any]:
    clock = SystemClock()
    shard = await stores.account_owner(urls.postgres, urls.redis, PaymentsConfig(credits_per_usdc=RATE))
    pool = await connect_postgres(urls.postgres, connections_max=4, application="bench deposits")
    store = PostgresDepositStore(pool, "bench")
    await store.prepare()
    node = NodeClient(UpstreamConfig(node_url=node_url), node_url)
    watcher = DepositWatcher(account, DepositChain(node), store, Crediting(shard), clock, minimum_base_units=AMOUNT)
    memory = Memory()
    watching = asyncio.create_task(memory.watch())
    began, cpu = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    await watcher.list_new()
    listed = time.perf_counter() - began
    await watcher.round()
    seconds = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_SELF)
    watching.cancel()
    totals = await store.totals(account.address)
    granted = await pool.fetchval("SELECT COALESCE(sum(amount), 0)::bigint FROM ledger WHERE type = 0")
    await shard.stop()
    await node.close()
    await pool.close()
    return {
        "credited": totals.counts[FindingStatus.CREDITED],
        "waiting": totals.waiting,
        "credits": granted,
        "seconds until listed": round(listed, 2),
        "seconds": round(seconds, 2),
        "per_second": round(totals.counts[FindingStatus.CREDITED] / seconds, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime - cpu.ru_utime - cpu.ru_stime, 2),
        "rss_mb_first": round(memory.samples[0] / 2**20, 1),
        "rss_mb_max": round(max(memory.samples) / 2**20, 1),
        "rss_mb_grown": round(memory.grown_mb(), 1),
    }


async def measure(deposits: int, wallets: int, node_url: str, urls: stores.Stores) -> dict[str, Any]:
    keeper = Keypair().pubkey()
    async with aiohttp.ClientSession() as session:
        payers = Payers(session, node_url, wallets, keeper)
        await payers.fund(AMOUNT * (deposits // wallets + 1))
        began = time.perf_counter()
        await payers.pay(deposits)
        console.print(f"{deposits} deposits are final after {time.perf_counter() - began:.0f} s")
    await urls.migrate()
    return await catch_up(urls, node_url, deposit_account(str(keeper), MINT))


def main(
    deposits: Annotated[int, typer.Option(min=1, help="Length of the backlog.")] = 10_000,
    wallets: Annotated[int, typer.Option(min=1, help="How many wallets sent it.")] = 500,
) -> dict[str, Any]:
    """Catch up with a backlog of deposits; takes about two minutes."""
    with devnode("--slot-ms", "100") as chain, systems.temporary_folder() as folder, stores.running(folder) as urls:
        figures = asyncio.run(measure(deposits, wallets, chain.url, urls))
    title = f"{deposits} deposits of {wallets} wallets; the target is {TARGET_PER_SECOND} a second"
    scenario.show_figures(title, figures)
    if (figures["credited"], figures["waiting"]) != (deposits, 0) or figures["credits"] != deposits * AMOUNT // 10:
        raise scenario.Wrong("credits are missing or too many", figures)
    return figures
