"""POST /admin/launch launches a sample coin; POST /admin/market performs actions of a labelled market.

Implements: the request `{kind, quote, name, symbol, uri, trades}`, and the answer with addresses and signatures; the
request `{seed, actions}`, and the answer with each transaction and the events that it must be read as. A market goes on
with the next call of the same seed.
Not here: launching (coins.py), the market (market.py).
"""

from dataclasses import asdict
from typing import Any

import orjson

from devnode.market.coins import Launched, LaunchError, Wanted, launch_coin
from devnode.market.market import Market, MarketError
from devnode.rpc.asgi import Reply
from devnode.rpc.node import Node

ACTIONS_MAX = 200  # About half a second, in which the node does nothing else.
MARKETS_MAX = 8  # In memory; the oldest is forgotten first.
SEED_MAX = 2**63 - 1
_FIELDS = {"kind": str, "quote": str, "name": str, "symbol": str, "uri": str, "trades": int}


def launch(node: Node, fields: dict[str, Any]) -> Reply:
    for name, value in fields.items():
        wanted = _FIELDS.get(name)
        if wanted is None:
            return _refusal(400, f"{name}: unknown; wanted {', '.join(_FIELDS)}")
        if not isinstance(value, wanted) or isinstance(value, bool):
            return _refusal(400, f"{name}: wanted a {'text' if wanted is str else 'whole number'}")
    asked = Wanted(**fields)
    mistake = asked.mistake()
    if mistake is not None:
        return _refusal(400, mistake)
    try:
        launched = launch_coin(node.chain, node.faucet, asked)
    except LaunchError as error:
        return _refusal(500, str(error))
    return Reply(200, orjson.dumps(_shown(launched)))


def market(node: Node, fields: dict[str, Any]) -> Reply:
    seed, actions = fields.get("seed"), fields.get("actions", 20)
    for name, value, least, most in (("seed", seed, 0, SEED_MAX), ("actions", actions, 1, ACTIONS_MAX)):
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            return _refusal(400, f"{name}: wanted a whole number from {least} to {most}")
    if unknown := fields.keys() - {"seed", "actions"}:
        return _refusal(400, f"{min(unknown)}: unknown; wanted seed, actions")
    assert isinstance(seed, int)
    found = node.markets.get(seed)
    try:
        if found is None:
            found = Market(node.chain, node.faucet, seed)
            if len(node.markets) >= MARKETS_MAX:
                del node.markets[next(iter(node.markets))]
            node.markets[seed] = found
        transactions = found.perform(actions)
    except MarketError as error:
        return _refusal(500, str(error))
    shown = [asdict(transaction) for transaction in transactions]
    return Reply(200, orjson.dumps({"ok": True, "seed": seed, "transactions": shown}))


def _shown(launched: Launched) -> dict[str, Any]:
    curve = launched.curve
    return {
        "ok": True,
        "mint": str(launched.mint),
        "bonding_curve": str(launched.bonding_curve),
        "creator": str(launched.creator),
        "token_program": str(launched.token_program),
        "curve_type": curve.curve_type,
        "quote_asset": curve.quote_asset,
        "is_mayhem": curve.is_mayhem_mode,
        "virtual_token_reserves": str(curve.virtual_token_reserves),
        "virtual_quote_reserves": str(curve.virtual_quote_reserves),
        "signatures": list(launched.signatures),
    }


def _refusal(status: int, text: str) -> Reply:
    return Reply(status, orjson.dumps({"ok": False, "error": text}))
