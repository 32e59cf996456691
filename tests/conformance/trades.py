"""What the trade builders must say, computed here from the node's accounts in other code; and a coin to ask about."""

import base64
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import orjson
from solders.keypair import Keypair
from solders.message import to_bytes_versioned
from solders.transaction import VersionedTransaction

from actors.pricing_config import PricingConfig

from .both import Both, Said

_LANDED_SECONDS_MAX = 60
_SOL_USD = 150  # Of the embedded chain.
_CREDITS_PER_USD = 100_000
_BUDGET = 10**9
_PRICING = PricingConfig()
PRICE_TEXT = f"{_PRICING.build_credits} and {_PRICING.trade_bps} bps of the SOL"
TradeAsk = Callable[[], tuple[Said, Any]]


@dataclass(frozen=True, slots=True)
class Coin:
    """A coin that nobody else trades, and the base units of it that the customer's wallet holds."""

    mint: str
    bonding_curve: str
    held: int


def settle(both: Both, node_url: str, key: Keypair) -> Coin:
    """Launch a coin, fund the customer's wallet, and buy half a SOL's worth by a transaction that the gateway built."""
    launched = httpx.post(f"{node_url}/admin/launch", json={"kind": "mayhem", "trades": 0}, timeout=30).json()
    fund = {"pubkey": str(key.pubkey()), "lamports": 10**10}
    httpx.post(f"{node_url}/admin/fund", json=fund, timeout=30).raise_for_status()
    said = both.gateway("executeSnipe", [{"mint": launched["mint"], "amount_sol": "0.5"}])
    assert said.error is None, said.body
    built = said.value["result"]
    unsigned = VersionedTransaction.from_bytes(base64.b64decode(built["unsigned_tx_base64"]))
    signature = key.sign_message(to_bytes_versioned(unsigned.message))
    raw = base64.b64encode(bytes(VersionedTransaction.populate(unsigned.message, [signature]))).decode()
    both.node_result("sendTransaction", raw, {"encoding": "base64", "preflightCommitment": "processed"})
    deadline = time.monotonic() + _LANDED_SECONDS_MAX
    while both.node_result("getSignatureStatuses", [str(signature)])["value"][0] is None:
        assert time.monotonic() < deadline, "the purchase did not land"
        time.sleep(0.1)
    return Coin(launched["mint"], launched["bonding_curve"], built["tokens_out"])


def asks(both: Both, coin: Coin) -> dict[str, TradeAsk]:
    """By method: the gateway's amounts and price beside the wanted ones."""
    sold = coin.held // 2
    return {
        "executeSnipe": lambda: _shown(
            both.gateway("executeSnipe", [{"mint": coin.mint, "amount_sol": 1, "slippage_bps": 100}]),
            ("tokens_out", "max_sol_cost_lamports", "fee_credits", "mint", "bonding_curve"),
            [*_bought(both, coin), coin.mint, coin.bonding_curve],
        ),
        "executeSell": lambda: _shown(
            both.gateway("executeSell", [{"mint": coin.mint, "token_amount": str(sold)}]),
            ("sol_out_lamports", "min_sol_output_lamports", "fee_credits", "mint", "bonding_curve"),
            [*_proceeds(both, coin, sold), coin.mint, coin.bonding_curve],
        ),
    }


def refused(both: Both, method: str, coin: Coin) -> Said:
    """An amount that the wallet does not hold, or a mint without a curve."""
    if method == "executeSell":
        return both.gateway(method, [{"mint": coin.mint, "token_amount": coin.held + 1}])
    return both.gateway(method, [{"mint": coin.bonding_curve, "amount_sol": 1}])


def _shown(said: Said, names: tuple[str, ...], wanted: list[Any]) -> tuple[Said, Any]:
    assert said.error is None, said.body
    amounts = [said.value["result"][name] for name in names]
    return Said(said.status, orjson.dumps({"jsonrpc": "2.0", "result": amounts}), said.charged), wanted


def _reserves(both: Both, coin: Coin) -> tuple[int, int]:
    """Virtual tokens and virtual lamports."""
    account = both.node_result("getAccountInfo", coin.bonding_curve, {"encoding": "base64", "commitment": "processed"})
    data = base64.b64decode(account["value"]["data"][0])
    return int.from_bytes(data[8:16], "little"), int.from_bytes(data[16:24], "little")


def _bought(both: Both, coin: Coin) -> list[int]:
    tokens, lamports = _reserves(both, coin)
    net = (_BUDGET - 1) * 10_000 // (10_000 + 95 + 30)
    return [net * tokens // (lamports + net), _BUDGET + _BUDGET // 100, _fee(_BUDGET)]


def _proceeds(both: Both, coin: Coin, sold: int) -> list[int]:
    tokens, lamports = _reserves(both, coin)
    gross = sold * lamports // (tokens + sold)
    net = gross - -(-gross * 95 // 10_000) - -(-gross * 30 // 10_000)
    return [net, net - net * 500 // 10_000, _fee(net)]


def _fee(lamports: int) -> int:
    part = -(-lamports * _PRICING.trade_bps * _SOL_USD * _CREDITS_PER_USD // (10**9 * 10_000))
    return _PRICING.build_credits + part
