"""The whole product in one process, as an agent meets it: the real door, accounts and methods over an embedded chain
with launch programs and a block engine, on a clock that the test moves."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from actors.clock import ManualClock
from actors.config import Config, TradesConfig
from actors.launch.assembly.replica import with_own_methods
from actors.pricing_config import PricingConfig
from actors.sends.actor import SendRacer
from actors.sends.chain import SendChain
from actors.sends.endpoints import SendMethods
from actors.sends.engine import EngineAnswer, EngineCall
from actors.sends.legs import LocalRpcLeg
from actors.sends.relay import RelayMethods
from actors.trades.endpoints import TradeMethods
from actors.trades.price_feed import SolPriceFeed
from actors.upstream.replies import NodeAnswer
from devnode.block_engine.endpoints import block_engine_routes
from devnode.block_engine.engine import BlockEngine
from devnode.encoding.addresses import TIP_ACCOUNTS
from tests.devnode.local_node import give
from tests.devnode.pad import SOL, Pad
from tests.gateway.world import Wallet, World, a_world
from tests.idempotency.memory_store import MemoryIdempotencyStore
from tests.sends.conftest import Here
from tests.sends.memory_store import MemoryRaceStore
from tests.sends.test_once import MemoryMarks
from tests.sends.world import turns

CREDITS_PER_USDC = 100_000
_ROUNDS_MAX = 200
_THREAD_SECONDS = 0.005  # In a round, for what is done in a thread, such as the hash of an answer.


class _Engine:
    """The block engine, without HTTP between."""

    def __init__(self, pad: Pad) -> None:
        self.engine = BlockEngine(pad.local.node, pad.local.clock)
        self._routes = block_engine_routes(self.engine)
        self.tip_accounts = tuple(str(key) for key in TIP_ACCOUNTS)

    async def ask_engine(self, call: EngineCall) -> EngineAnswer:
        path = "/api/v1/bundles"
        body = b'{"jsonrpc":"2.0","id":1,"method":"%b","params":%b}' % (call.method.encode(), call.params)
        scope: Any = {"method": "POST", "path": path, "query_string": b"", "headers": []}
        reply = self._routes["POST", path](scope, body)
        return EngineAnswer(reply.status, reply.body)


class _Late:
    """Handlers that are known once the accounts are."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}

    def of(self, *names: str) -> dict[str, Any]:
        def one(name: str) -> Any:
            async def ask(*arguments: Any) -> NodeAnswer:
                return cast(NodeAnswer, await self.found[name](*arguments))

            return ask

        return {name: one(name) for name in names}

    def handlers(self) -> dict[str, Any]:
        return self.of("sendTransaction", "sendSmartTransaction")


class Whole:
    """node: what the gateway asks of the chain. keypair: of a funded wallet, whose transactions can land."""

    def __init__(self, pad: Pad, node: Here, world: World, racer: SendRacer, engine: _Engine) -> None:
        self.pad, self.node, self.world, self._racer, self._engine = pad, node, world, racer, engine

    async def customer(self, credits: int = 10_000_000, lamports: int = 50 * SOL) -> Wallet:
        wallet = await self.world.customer(credits)
        self.pad.local.faucet.fund(self.keypair(wallet).pubkey(), lamports, 5_000_000)
        self.pad.local.finalize()
        return wallet

    @staticmethod
    def keypair(wallet: Wallet) -> Keypair:
        return Keypair.from_seed(bytes(wallet.key))

    def transfer(self, wallet: Wallet, lamports: int, to: str | Pubkey | None = None) -> VersionedTransaction:
        target = Pubkey.from_string(to) if isinstance(to, str) else to or Pubkey.new_unique()
        payer = self.keypair(wallet)
        return self.pad.local.signed(payer, give(payer, target, lamports))

    def tip(self, wallet: Wallet, lamports: int = 10_001) -> VersionedTransaction:
        return self.transfer(wallet, lamports, str(TIP_ACCOUNTS[0]))

    async def finished(self, work: Any) -> Any:
        """The outcome of a request, while the chain goes on."""
        task = asyncio.ensure_future(work)
        for _ in range(_ROUNDS_MAX):
            await turns()
            if (await asyncio.wait((task,), timeout=_THREAD_SECONDS))[0]:
                break
            await self.slots()
        return task.result()

    async def slots(self, count: int = 1) -> None:
        for _ in range(count):
            self._engine.engine.auction()
            self.pad.local.beat()
            self.world.clock.advance(0.4)
            await self._racer.look()
            await turns()


def text(transaction: VersionedTransaction) -> str:
    return base64.b64encode(bytes(transaction)).decode()


@contextlib.asynccontextmanager
async def a_whole(folder: Path, **settings: Any) -> AsyncIterator[Whole]:
    """settings: of the world."""
    pad = Pad(folder)
    node, engine, late = Here(pad.local), _Engine(pad), _Late()
    feed = SolPriceFeed(node, TradesConfig(sol_usd_micro=150_000_000), ManualClock())
    given = {
        "callers": late.of("sendAndConfirm", "getSendStatus"),
        "quotes": TradeMethods(node, feed, PricingConfig(), CREDITS_PER_USDC).handlers(),
        "idempotency": MemoryIdempotencyStore(),
        "relay": True,
    }
    asked = with_own_methods(node, Config(), cast(Any, late), RelayMethods(engine))
    try:
        async with a_world(asked, **(given | settings)) as world:
            store, chain = MemoryRaceStore(), SendChain(node)
            racer = SendRacer(chain, [LocalRpcLeg(node, world.clock)], store, world.accounts, world.clock, store.held)
            sends = SendMethods(cast(Any, racer), chain, 2, world.clock, MemoryMarks())
            late.found |= sends.handlers() | sends.caller_handlers()
            yield Whole(pad, node, world, racer, engine)
            await racer.close()
    finally:
        pad.local.close()
