"""The admin door: POST /admin/fund, /admin/launch and /admin/market, and the control of faults.

Implements, for callers on this machine:
- GET /admin/faults: shows the plan in force; POST changes it by a JSON merge patch; DELETE resets it;
- POST /admin/faults/once: faults that happen a single time, at once or with the next seal;
- GET /admin/crowd: shows the settings of the crowd; POST changes those in its body (null resets one);
- GET /admin/subscriptions: the open connections and subscriptions of each kind of stream;
- GET /admin/arrivals: the broadcasts that reached the node, oldest first; `?after=NUMBER` continues a listing.
Refuses other machines, and bodies without the content type JSON. A web page in a local browser cannot send this
content type without a CORS permission, and verbs other than GET and POST need the permission as well.
"""

import ipaddress
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import orjson
from solders.pubkey import Pubkey

from devnode.block_engine.endpoints import ENGINE_METHODS
from devnode.chain.crowd import CrowdError, with_changes
from devnode.chain.faucet import AIRDROP_LAMPORTS_MAX, USDC_BASE_UNITS_MAX, FaucetError
from devnode.faults.plan import FaultPlan, PlanError, changed, read_once
from devnode.launch_endpoints import launch, market
from devnode.rpc.asgi import Reply, Route, Scope
from devnode.rpc.node import Node
from devnode.rpc.table import METHODS

Action = Callable[[Node, dict[str, Any]], Reply]
ARRIVALS_SHOWN_MAX = 10_000


def admin_routes(node: Node) -> dict[tuple[str, str], Route]:
    return {place: _guarded(node, action) for place, action in _ACTIONS.items()}


def refuse_unknown_methods(plan: FaultPlan) -> FaultPlan:
    """Return the plan. Raises PlanError if it names a method that does not exist."""
    unknown = set(plan.calls) - {"*"} - METHODS.keys() - ENGINE_METHODS
    if unknown:
        raise PlanError(f"calls: no such method: {', '.join(sorted(unknown))}")
    return plan


def _guarded(node: Node, action: Action) -> Route:
    def route(scope: Scope, body: bytes) -> Reply:
        client = scope.get("client")
        if client is None or not ipaddress.ip_address(client[0]).is_loopback:
            return _refusal(403, "admin calls are accepted from this machine only")
        if scope["method"] != "POST":
            query = parse_qs(scope.get("query_string", b"").decode("ascii", "replace"))
            return action(node, {name: values[-1] for name, values in query.items()})
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
    """Fund a wallet with SOL and USDC by real transactions. fields: {pubkey, lamports, usdc_base_units}."""
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


def _show_faults(node: Node, fields: dict[str, Any]) -> Reply:
    return _shown(node.faults.plan)


def _change_faults(node: Node, fields: dict[str, Any]) -> Reply:
    """Change the plan by a merge patch and return the whole plan. Restarts the count of calls."""
    try:
        plan = refuse_unknown_methods(changed(node.faults.plan, fields))
    except PlanError as error:
        return _refusal(400, str(error))
    node.faults.set(plan)
    return _shown(plan)


def _clear_faults(node: Node, fields: dict[str, Any]) -> Reply:
    node.faults.set(FaultPlan())
    return _shown(node.faults.plan)


def _fault_once(node: Node, fields: dict[str, Any]) -> Reply:
    try:
        once = read_once(fields)
    except PlanError as error:
        return _refusal(400, str(error))
    node.faults.do_once(once)
    return Reply(200, orjson.dumps({"ok": True, "slot": node.faults.slot}))


def _show_crowd(node: Node, fields: dict[str, Any]) -> Reply:
    return Reply(200, orjson.dumps({"ok": True, "crowd": node.crowd.settings.as_json()}))


def _change_crowd(node: Node, fields: dict[str, Any]) -> Reply:
    try:
        node.crowd.settings = with_changes(node.crowd.settings, fields)
    except CrowdError as error:
        return _refusal(400, str(error))
    return _show_crowd(node, {})


def _subscriptions(node: Node, fields: dict[str, Any]) -> Reply:
    open_streams = {stream.value: connections.counts() for stream, connections in node.faults.streams.items()}
    return Reply(200, orjson.dumps({"ok": True, "slot": node.faults.slot, **open_streams}))


def _arrivals(node: Node, fields: dict[str, Any]) -> Reply:
    """List arrivals with a number above `after`."""
    after = fields.get("after", "0")
    if not after.isdecimal():
        return _refusal(400, "after: wanted the number of an arrival")
    found = [arrival.as_json() for arrival in node.intake.arrivals(int(after), ARRIVALS_SHOWN_MAX)]
    return Reply(200, orjson.dumps({"ok": True, "slot": node.faults.slot, "arrivals": found}))


def _shown(plan: FaultPlan) -> Reply:
    return Reply(200, orjson.dumps({"ok": True, "faults": plan.as_json()}))


def _within(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _refusal(status: int, text: str) -> Reply:
    return Reply(status, orjson.dumps({"ok": False, "error": text}))


_ACTIONS: dict[tuple[str, str], Action] = {
    ("POST", "/admin/fund"): _fund,
    ("POST", "/admin/launch"): launch,
    ("POST", "/admin/market"): market,
    ("GET", "/admin/faults"): _show_faults,
    ("POST", "/admin/faults"): _change_faults,
    ("DELETE", "/admin/faults"): _clear_faults,
    ("POST", "/admin/faults/once"): _fault_once,
    ("GET", "/admin/crowd"): _show_crowd,
    ("POST", "/admin/crowd"): _change_crowd,
    ("GET", "/admin/subscriptions"): _subscriptions,
    ("GET", "/admin/arrivals"): _arrivals,
}
