"""Trades through the real door, the real owner of accounts, and a chain that executes them, in one process."""

import base64
from collections.abc import Callable
from typing import Any

import orjson
from solders.keypair import Keypair
from solders.message import to_bytes_versioned
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from actors.clock import ManualClock
from actors.config import TradesConfig
from actors.launch_programs import pdas
from actors.pricing_config import PricingConfig
from actors.trades.endpoints import TradeMethods
from actors.trades.price_feed import SolPriceFeed
from actors.upstream import replies
from actors.upstream.replies import NodeAnswer
from devnode.records.records import TransactionMeta
from tests.devnode.pad import SOL, Pad
from tests.gateway.world import Wallet, World

SOL_USD_MICRO = 150_000_000
CREDITS_PER_USDC = 100_000
Change = Callable[[Any], Any]


class PadNode:
    """The chain in the test as a node. change: what a hostile node makes of a result."""

    def __init__(self, pad: Pad) -> None:
        self.pad = pad
        self.calls: list[tuple[str, Any]] = []
        self.change: Change | None = None

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        del timeout_ms
        asked = orjson.loads(params)
        self.calls.append((method, asked))
        reply = self.pad.local.reply(method, *asked)
        if self.change is not None and "result" in reply:
            reply["result"] = self.change(reply["result"])
        return replies.judge(orjson.dumps(reply | {"id": 1}), "pad")

    def methods(self, **pricing: int) -> TradeMethods:
        feed = SolPriceFeed(self, TradesConfig(sol_usd_micro=SOL_USD_MICRO), ManualClock())
        return TradeMethods(self, feed, PricingConfig(**pricing), CREDITS_PER_USDC)


def keypair_of(wallet: Wallet) -> Keypair:
    """The key with which a customer signs its requests signs its transactions."""
    return Keypair.from_seed(bytes(wallet.key))


def signed(text: str, key: Keypair) -> VersionedTransaction:
    """The transaction of a result, signed as a client does it."""
    unsigned = VersionedTransaction.from_bytes(base64.b64decode(text))
    assert [bytes(signature) for signature in unsigned.signatures] == [bytes(64)]
    return VersionedTransaction.populate(unsigned.message, [key.sign_message(to_bytes_versioned(unsigned.message))])


class Trading:
    """A chain, a node and a gateway."""

    def __init__(self, pad: Pad, node: PadNode, world: World) -> None:
        self.pad, self.node, self.world = pad, node, world

    async def trader(self, credits: int = 10_000_000, lamports: int = 20 * SOL) -> Wallet:
        """A customer with credits, and with lamports on the chain."""
        wallet = await self.world.customer(credits)
        if lamports:
            self.pad.local.faucet.fund(keypair_of(wallet).pubkey(), lamports, 0)
            self.pad.local.finalize()
        return wallet

    async def ask(self, wallet: Wallet, method: str, **trade: Any) -> dict[str, Any]:
        """The JSON-RPC reply. A value of type Text is put into the body as it is."""
        fields = ",".join(
            f"{orjson.dumps(name).decode()}:{value if isinstance(value, Text) else orjson.dumps(value).decode()}"
            for name, value in trade.items()
        )
        body = f'{{"jsonrpc":"2.0","id":1,"method":"{method}","params":[{{{fields}}}]}}'
        found: dict[str, Any] = (await self.world.rpc(wallet, body.encode())).json()
        return found

    def land(self, wallet: Wallet, text: str) -> TransactionMeta:
        """Sign and execute; the transaction's result on the chain."""
        self.pad.local.beat()
        return self.pad.local.land(signed(text, keypair_of(wallet))).meta

    def tokens(self, wallet: Wallet, mint: Pubkey) -> int:
        owner = keypair_of(wallet).pubkey()
        return self.pad.tokens(pdas.associated_token(owner, self.pad.program_of(mint), mint))


class Text(str):
    """JSON text."""


def refused(reply: dict[str, Any]) -> tuple[int, str]:
    error = reply["error"]
    return error["code"], error["message"]
