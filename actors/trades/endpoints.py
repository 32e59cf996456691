"""executeSnipe and executeSell: from checked parameters to an unsigned transaction and its price.

Implements: interface, "executeSnipe", "executeSell" and "Trade builder results".
A shell: quotes.py decides, builders.py builds, sol_price.py prices. Parameters were checked before
(methods/trades.py). Nothing is held while these handlers run, so every failure here is free.
"""

import asyncio
import base64
import logging

import msgspec
import orjson
from solders.hash import Hash, ParseHashError
from solders.pubkey import Pubkey

from actors.errors import Err, Refusal
from actors.launch_programs import pdas
from actors.methods.price_lists import PUBLIC, PriceList
from actors.methods.trades import SellQuestion, SnipeQuestion
from actors.pricing_config import PricingConfig
from actors.trades import builders, quotes
from actors.trades.builders import Recent
from actors.trades.mint_reads import MintReads, ReadCoin
from actors.trades.price_feed import SolPriceFeed
from actors.trades.quotes import Disposal, Purchase
from actors.trades.snapshot import UnreadableAccountsError
from actors.trades.sol_price import CREDITS_MAX, SolPrice, fee_credits
from actors.upstream import replies
from actors.upstream.replies import AnswerKind, Node, NodeAnswer, QuotedAnswer, QuoteHandler

logger = logging.getLogger(__name__)

SNIPE, SELL = "executeSnipe", "executeSell"
_BLOCKHASH_TIMEOUT_MS = 5_000
_CONFIRMED = b'[{"commitment":"confirmed"}]'  # Known to every node; a processed blockhash may belong to a fork.
Built = QuotedAnswer | NodeAnswer | Refusal


class _Latest(msgspec.Struct):
    blockhash: str


class _Blockhash(msgspec.Struct):
    value: _Latest


_BLOCKHASH_DECODER = msgspec.json.Decoder(_Blockhash)


class TradeMethods:
    """node: asked once for a coin's accounts and once for a blockhash, at the same time."""

    def __init__(self, node: Node, price: SolPriceFeed, pricing: PricingConfig, credits_per_usdc: int) -> None:
        self._node, self._price = node, price
        self._pricing, self._credits_per_usdc = pricing, credits_per_usdc
        self._reads = MintReads(node)

    def handlers(self) -> dict[str, QuoteHandler]:
        """Return handlers by method name. Each takes a question of methods/trades.py as JSON."""
        return {SNIPE: self._snipe, SELL: self._sell}

    async def _snipe(self, params: bytes, pubkey: bytes, timeout_ms: int, prices: PriceList = PUBLIC) -> Built:
        return await self._build(msgspec.json.decode(params, type=SnipeQuestion), pubkey, timeout_ms, prices)

    async def _sell(self, params: bytes, pubkey: bytes, timeout_ms: int, prices: PriceList = PUBLIC) -> Built:
        return await self._build(msgspec.json.decode(params, type=SellQuestion), pubkey, timeout_ms, prices)

    async def _build(
        self, asked: SnipeQuestion | SellQuestion, pubkey: bytes, timeout_ms: int, prices: PriceList
    ) -> Built:
        price = self._price.usable()
        if isinstance(price, Refusal):
            return price
        reading = self._reads.read(Pubkey.from_string(asked.mint), Pubkey.from_bytes(pubkey))
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                seen, blockhash = await asyncio.gather(reading, self._blockhash())
        except TimeoutError:
            return replies.TIMED_OUT
        if not isinstance(seen, ReadCoin):
            return seen
        if not isinstance(blockhash, Hash):
            return blockhash
        try:
            return self._made(asked, seen, Recent(blockhash, asked.priority_fee_micro_lamports), price, prices)
        except UnreadableAccountsError as fault:
            logger.warning("the state of a coin cannot be used: %s", fault)
            return replies.GARBAGE

    def _made(
        self,
        asked: SnipeQuestion | SellQuestion,
        seen: ReadCoin,
        recent: Recent,
        price: SolPrice,
        prices: PriceList,
    ) -> Built:
        wanted: Purchase | Disposal | Refusal
        if isinstance(asked, SnipeQuestion):
            wanted = quotes.quote_snipe(seen.coin, asked)
        else:
            wanted = quotes.quote_sell(seen.coin, seen.wallet, asked)
        if isinstance(wanted, Refusal):
            return wanted
        fixed = self._pricing.build_credits
        public = fee_credits(
            fixed,
            self._pricing.trade_bps,
            wanted.notional,
            price.micro_usd,
            self._credits_per_usdc,
        )
        credits = prices.built(SNIPE if isinstance(asked, SnipeQuestion) else SELL, fixed, public)
        if credits > CREDITS_MAX:
            return Refusal(Err.INVALID_PARAMS, f"the fee of this trade is more than {CREDITS_MAX} credits")
        if isinstance(wanted, Purchase):
            raw = builders.buy_transaction(seen.coin, seen.wallet, wanted, recent)
            amounts = {"tokens_out": wanted.tokens, "max_sol_cost_lamports": wanted.cost_max}
        else:
            raw = builders.sell_transaction(seen.coin, seen.wallet, wanted, recent)
            amounts = {"sol_out_lamports": wanted.proceeds, "min_sol_output_lamports": wanted.proceeds_min}
        body = {
            "unsigned_tx_base64": base64.b64encode(raw).decode(),
            **amounts,
            "fee_credits": credits,
            "mint": asked.mint,
            "bonding_curve": str(pdas.bonding_curve(seen.coin.mint)),
        }
        return replies.made_quoted(orjson.dumps(body), credits, seen.node)

    async def _blockhash(self) -> Hash | NodeAnswer:
        answer = await self._node.call("getLatestBlockhash", _CONFIRMED, _BLOCKHASH_TIMEOUT_MS)
        if answer.kind is not AnswerKind.RESULT:
            return answer
        try:
            return Hash.from_string(_BLOCKHASH_DECODER.decode(answer.value()).value.blockhash)
        except (msgspec.DecodeError, ParseHashError):
            return replies.GARBAGE
