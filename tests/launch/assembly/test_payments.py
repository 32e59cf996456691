"""Guards that the parts fit: the real door, PostgreSQL and a devnode of its own, joined as a replica joins them."""

import asyncio
from typing import Any

import aiohttp
from pydantic import SecretStr
from solders.hash import Hash
from solders.keypair import Keypair

from actors.clock import SystemClock
from actors.config import Config, PaymentsConfig, StorageConfig, UpstreamConfig
from actors.deposits.x402.sponsor_key import key_text
from actors.launch.assembly.migrations import migrate_all
from actors.launch.assembly.payments import Payments, assemble_payments
from actors.launch.local_run import sponsor_setup
from actors.upstream.replies import NodeAnswer, judge
from actors.x402_types import Settled
from devnode.encoding.addresses import USDC_MINT
from tests.deposits.x402_making import half_signed, memo, message_of, standard, transfer_checked
from tests.deposits.x402_world import Accounts
from tests.devnode.conftest import StartDevnode, start_devnode  # noqa: F401 - a fixture.
from tests.gateway.world import a_world

SPONSOR, DEPOSIT = Keypair.from_seed(b"s" * 32), Keypair.from_seed(b"d" * 32)


class HttpNode:
    """As a replica's nodes answer, over a session of this test's own."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url, self._session = url, session

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        body = b'{"jsonrpc":"2.0","id":1,"method":"%b","params":%b}' % (method.encode(), params)
        headers = {"content-type": "application/json"}
        async with self._session.post(self._url, data=body, headers=headers) as response:
            return judge(await response.read())


def settings(postgres_url: str, node_url: str) -> Config:
    return Config(
        storage=StorageConfig(postgres_url=SecretStr(postgres_url)),
        upstream=UpstreamConfig(node_url=node_url),
        payments=PaymentsConfig(
            network="devnet",
            deposit_wallet=str(DEPOSIT.pubkey()),
            sponsor_key=SecretStr(key_text(b"s" * 32)),
            sponsor_pubkey=str(SPONSOR.pubkey()),
        ),
    )


async def a_payment(chain: sponsor_setup.Chain, payer: Keypair) -> bytes:
    latest = (await chain.ask("getLatestBlockhash", {"commitment": "confirmed"}))["value"]["blockhash"]
    account = sponsor_setup.deposit_account(settings("x", "http://x"))
    pay = transfer_checked(100_000, payer.pubkey(), account, USDC_MINT)
    instructions = [*standard()[:2], pay, memo()]
    return half_signed(message_of(instructions, SPONSOR.pubkey(), Hash.from_string(latest)), payer)


async def a_payer(url: str, session: aiohttp.ClientSession) -> Keypair:
    payer = Keypair()
    fund = {"pubkey": str(payer.pubkey()), "lamports": 0, "usdc_base_units": 1_000_000}
    async with session.post(f"{url}/admin/fund", json=fund) as response:
        assert response.status == 200
    return payer


async def ended(parts: Payments, wanted: int) -> None:
    for _ in range(300):
        if await parts.pool.fetchval("SELECT count(*) FROM x402_payments WHERE state = $1", wanted):
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the payment did not come to its end")


async def test_without_a_key_there_is_no_desk() -> None:
    """Rule: settlement is off, and the doors say so."""
    config = Config(payments=PaymentsConfig(deposit_wallet=str(DEPOSIT.pubkey())))
    nothing: Any = None
    assert await assemble_payments(config, nothing, nothing, SystemClock()) is None


async def test_a_payment_outlives_the_replica_that_took_it(
    postgres_url: str,
    start_devnode: StartDevnode,  # noqa: F811
) -> None:
    """Rule (decisions, "Two ways to pay by x402"): settled while its caller waits, on a real chain; the next replica
    sees it become final."""
    url = start_devnode().url
    config = settings(postgres_url, url)
    await migrate_all(config)
    await sponsor_setup.prepare_embedded(config)
    clock = SystemClock()
    async with a_world() as world, aiohttp.ClientSession() as session:
        accounts: Any = Accounts(world.shard)
        node, chain = HttpNode(url, session), sponsor_setup.Chain(url, session)
        parts = await assemble_payments(config, node, accounts, clock)
        assert parts is not None
        payer = await a_payer(url, session)
        raw = await a_payment(chain, payer)
        found = await parts.settler.pay(raw, 100_000, "")
        assert isinstance(found, Settled), found
        assert (found.payer, found.credits_added) == (str(payer.pubkey()), 10_000)
        await parts.close()

        again = await assemble_payments(config, node, accounts, clock)
        assert again is not None
        await again.pool.execute("UPDATE x402_payments SET look_at_ms = 0 WHERE state < 10")
        await ended(again, 10)
        repeat = await again.settler.pay(raw, 100_000, "")
        assert not isinstance(repeat, Settled) and repeat.reason == "duplicate_settlement"
        assert repeat.signature == found.signature
        await again.recovery.look_at_balance()
        assert again.recovery.sponsor_lamports and not again.recovery.sponsor_low
        await again.close()
