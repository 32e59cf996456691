"""The operator's door beside JSON-RPC: POST /admin/fund. Fault switches join the table here.

Implements: funding over HTTP for callers on this machine. Refuses other machines, and anything that is not declared
as JSON, which a web page in a local browser cannot send without permission.
"""

import ipaddress
from collections.abc import Callable
from typing import Any

import orjson
from solders.pubkey import Pubkey

from actors.devnode.faucet import AIRDROP_LAMPORTS_MAX, USDC_BASE_UNITS_MAX, FaucetError
from actors.devnode.rpc.http import Reply, Route, Scope
from actors.devnode.rpc.node import Node

Action = Callable[[Node, dict[str, Any]], Reply]


def admin_routes(node: Node) -> dict[tuple[str, str], Route]:
    return {("POST", path): _guarded(node, action) for path, action in _ACTIONS.items()}


def _guarded(node: Node, action: Action) -> Route:
    def route(scope: Scope, body: bytes) -> Reply:
        client = scope.get("client")
        if client is None or not ipaddress.ip_address(client[0]).is_loopback:
            return _refusal(403, "admin calls are taken from this machine only")
        content_type = dict(scope["headers"]).get(b"content-type", b"")
        if content_type.split(b";")[0].strip().lower() != b"application/json":
            return _refusal(415, "send content-type: application/json")
        try:
            fields = orjson.loads(body)
        except orjson.JSONDecodeError:
            return _refusal(400, "the body is not JSON")
        if not isinstance(fields, dict):
            return _refusal(400, "the body is not a JSON object")
        return action(node, fields)

    return route


def _fund(node: Node, fields: dict[str, Any]) -> Reply:
    """{pubkey, lamports, usdc_base_units}: gives SOL and USDC by real transactions, returns their signatures."""
    try:
        wallet = Pubkey.from_string(fields.get("pubkey", ""))
    except (ValueError, TypeError):
        return _refusal(400, "pubkey: wanted a base58 public key")
    lamports, usdc = fields.get("lamports", 0), fields.get("usdc_base_units", 0)
    if not _within(lamports, AIRDROP_LAMPORTS_MAX):
        return _refusal(400, f"lamports: wanted a whole number from 0 to {AIRDROP_LAMPORTS_MAX}")
    if not _within(usdc, USDC_BASE_UNITS_MAX):
        return _refusal(400, f"usdc_base_units: wanted a whole number from 0 to {USDC_BASE_UNITS_MAX}")
    try:
        funded = node.faucet.fund(wallet, lamports, usdc)
    except FaucetError as error:
        return _refusal(500, str(error))
    signatures = [one for one in (funded.sol_signature, funded.usdc_signature) if one is not None]
    body = {
        "ok": True,
        "signatures": signatures,
        "sol_signature": funded.sol_signature,
        "usdc_signature": funded.usdc_signature,
        "token_account": funded.token_account,
    }
    return Reply(200, orjson.dumps(body))


def _within(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _refusal(status: int, text: str) -> Reply:
    return Reply(status, orjson.dumps({"ok": False, "error": text}))


_ACTIONS: dict[str, Action] = {"/admin/fund": _fund}
