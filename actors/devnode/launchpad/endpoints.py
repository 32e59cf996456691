"""POST /admin/launch: launches a sample coin.

Implements: the request `{kind, quote, name, symbol, uri, trades}`, and the answer with addresses and signatures.
Not here: launching (coins.py).
"""

from typing import Any

import orjson

from actors.devnode.launchpad.coins import Launched, LaunchError, Wanted, launch_coin
from actors.devnode.rpc.asgi import Reply
from actors.devnode.rpc.node import Node

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
