"""The admin door: money, coins and markets for tests, and the control of faults.

Implements, for callers on this machine:
- POST /admin/fund: funds a wallet with SOL and USDC;
- POST /admin/launch `{kind, quote, name, symbol, uri, trades}`: launches a sample coin; the answer has its addresses
  and signatures;
- POST /admin/market `{seed, actions}`: performs actions of a labelled market; the answer has each transaction and the
  events that it must be read as. A market goes on with the next call of the same seed;
- GET /admin/faults: shows the plan in force; POST changes it by a JSON merge patch; DELETE resets it;
- POST /admin/faults/once: faults that happen a single time, at once or with the next seal;
- POST /admin/warp `{slot, unix_time}`: jumps to a later slot, a later time, or both;
- POST /admin/snapshot `{name}`: takes a snapshot of all accounts; GET lists them; DELETE `?id=` forgets one;
- POST /admin/snapshot/restore `{id}`: returns to a snapshot;
- GET /admin/crowd: shows the settings of the crowd; POST changes those in its body (null resets one);
- GET /admin/subscriptions: the open connections and subscriptions of each kind of stream;
- GET /admin/arrivals: the broadcasts that reached the node, oldest first; `?after=NUMBER` continues a listing.
Refuses other machines, and bodies without the content type JSON. A web page in a local browser cannot send this
content type without a CORS permission, and verbs other than GET and POST need the permission as well.
Not here: launching (market/coins.py), the market (market/market.py), what a jump and a return to a snapshot are
(chain/pacemaker.py, chain/snapshots.py).
"""

import ipaddress
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any
from urllib.parse import parse_qs

import orjson
from solders.pubkey import Pubkey

from devnode.block_engine.endpoints import ENGINE_METHODS
from devnode.chain.crowd import CrowdError, with_changes
from devnode.chain.faucet import AIRDROP_LAMPORTS_MAX, USDC_BASE_UNITS_MAX, FaucetError
from devnode.chain.operations import return_to
from devnode.chain.pacemaker import WarpError
from devnode.chain.snapshots import NAME_CHARACTERS_MAX, Snapshot, SnapshotError
from devnode.faults.plan import FaultPlan, PlanError, changed, read_once
from devnode.market.coins import LaunchError, Wanted, launch_coin
from devnode.market.market import Market, MarketError
from devnode.rpc.asgi import Reply, Route, Scope
from devnode.rpc.node import Node
from devnode.rpc.table import METHODS

ACTIONS_MAX = 200  # About half a second, during which the node does nothing else.
MARKETS_MAX = 8  # Markets in memory; the oldest is forgotten first.
SEED_MAX = 2**63 - 1
_FIELDS = {"kind": str, "quote": str, "name": str, "symbol": str, "uri": str, "trades": int}


Action = Callable[[Node, dict[str, Any]], Reply | Awaitable[Reply]]
ARRIVALS_SHOWN_MAX = 10_000
_ID_DIGITS_MAX = 18


def admin_routes(node: Node) -> dict[tuple[str, str], Route]:
    return {place: _guarded(node, action) for place, action in _ACTIONS.items()}


def refuse_unknown_methods(plan: FaultPlan) -> FaultPlan:
    """Return the plan. Raises PlanError if it names a method that does not exist."""
    unknown = set(plan.calls) - {"*"} - METHODS.keys() - ENGINE_METHODS
    if unknown:
        raise PlanError(f"calls: no such method: {', '.join(sorted(unknown))}")
    return plan


def _guarded(node: Node, action: Action) -> Route:
    def route(scope: Scope, body: bytes) -> Reply | Awaitable[Reply]:
        client = scope.get("client")
        if client is None or not ipaddress.ip_address(client[0]).is_loopback:
            return _refusal(403, "admin calls are accepted from this machine only")
        fields = _fields(scope, body)
        if isinstance(fields, Reply):
            return fields
        try:
            return action(node, fields)
        except (PlanError, CrowdError, _BadFields) as error:
            return _refusal(400, str(error))
        except SnapshotError as error:
            return _refusal(409, str(error))
        except (FaucetError, LaunchError, MarketError) as error:
            return _refusal(500, str(error))

    return route


def _fields(scope: Scope, body: bytes) -> dict[str, Any] | Reply:
    """The fields of a JSON body or, of a request without one, of its query; or the refusal."""
    if scope["method"] != "POST":
        query = parse_qs(scope.get("query_string", b"").decode("ascii", "replace"))
        return {name: values[-1] for name, values in query.items()}
    content_type = dict(scope["headers"]).get(b"content-type", b"")
    if content_type.split(b";")[0].strip().lower() != b"application/json":
        return _refusal(415, "send content-type: application/json")
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError:
        return _refusal(400, "the body is not JSON")
    return fields if isinstance(fields, dict) else _refusal(400, "the body is not a JSON object")


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
    funded = node.faucet.fund(wallet, lamports, usdc)
    return _answer(
        signatures=[one for one in (funded.sol_signature, funded.usdc_signature) if one is not None],
        sol_signature=funded.sol_signature,
        usdc_signature=funded.usdc_signature,
        token_account=funded.token_account,
    )


def _launch(node: Node, fields: dict[str, Any]) -> Reply:
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
    launched = launch_coin(node.chain, node.faucet, asked)
    curve = launched.curve
    return _answer(
        mint=str(launched.mint),
        bonding_curve=str(launched.bonding_curve),
        creator=str(launched.creator),
        token_program=str(launched.token_program),
        curve_type=curve.curve_type,
        quote_asset=curve.quote_asset,
        is_mayhem=curve.is_mayhem_mode,
        virtual_token_reserves=str(curve.virtual_token_reserves),
        virtual_quote_reserves=str(curve.virtual_quote_reserves),
        signatures=list(launched.signatures),
    )


def _market(node: Node, fields: dict[str, Any]) -> Reply:
    seed, actions = fields.get("seed"), fields.get("actions", 20)
    for name, value, least, most in (("seed", seed, 0, SEED_MAX), ("actions", actions, 1, ACTIONS_MAX)):
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            return _refusal(400, f"{name}: wanted a whole number from {least} to {most}")
    if unknown := fields.keys() - {"seed", "actions"}:
        return _refusal(400, f"{min(unknown)}: unknown; wanted seed, actions")
    assert isinstance(seed, int)
    found = node.markets.get(seed)
    if found is None:
        found = Market(node.chain, node.faucet, seed)
        if len(node.markets) >= MARKETS_MAX:
            del node.markets[next(iter(node.markets))]
        node.markets[seed] = found
    return _answer(seed=seed, transactions=[asdict(transaction) for transaction in found.perform(actions)])


def _show_faults(node: Node, fields: dict[str, Any]) -> Reply:
    return _answer(faults=node.faults.plan.as_json())


def _change_faults(node: Node, fields: dict[str, Any]) -> Reply:
    """Change the plan by a merge patch and return the whole plan. Restarts the count of calls."""
    node.faults.set(refuse_unknown_methods(changed(node.faults.plan, fields)))
    return _show_faults(node, fields)


def _clear_faults(node: Node, fields: dict[str, Any]) -> Reply:
    node.faults.set(FaultPlan())
    return _show_faults(node, fields)


def _fault_once(node: Node, fields: dict[str, Any]) -> Reply:
    node.faults.do_once(read_once(fields))
    return _answer(slot=node.faults.slot)


def _show_crowd(node: Node, fields: dict[str, Any]) -> Reply:
    return _answer(crowd=node.crowd.settings.as_json())


def _change_crowd(node: Node, fields: dict[str, Any]) -> Reply:
    node.crowd.settings = with_changes(node.crowd.settings, fields)
    return _show_crowd(node, fields)


class _BadFields(Exception):
    """A field that an action does not take; the text names it."""


def _warp(node: Node, fields: dict[str, Any]) -> Awaitable[Reply]:
    slot, unix_time = _whole(fields, "slot"), _whole(fields, "unix_time")
    _only(fields, "slot", "unix_time")
    return _warped(node, slot, unix_time)


async def _warped(node: Node, slot: int | None, unix_time: int | None) -> Reply:
    assert node.pacemaker is not None, "a node that answers HTTP has a pacemaker"
    try:
        await node.pacemaker.warp(slot, unix_time)
    except WarpError as error:
        return _refusal(400, str(error))
    chain = node.chain
    building = chain.levels.building
    return _answer(slot=building.slot, block_height=building.height, unix_time=chain.opened_unix_time)


def _take_snapshot(node: Node, fields: dict[str, Any]) -> Reply:
    _only(fields, "name")
    name = fields.get("name")
    if name is not None and not (isinstance(name, str) and 0 < len(name) <= NAME_CHARACTERS_MAX):
        raise _BadFields(f"name: wanted a text of 1 to {NAME_CHARACTERS_MAX} characters")
    chain = node.chain
    taken = chain.snapshots.take(chain.levels.building.slot, chain.opened_unix_time, name)
    return _answer(snapshot=taken.as_json())


def _list_snapshots(node: Node, fields: dict[str, Any]) -> Reply:
    kept = node.chain.snapshots
    return _answer(snapshots=[one.as_json() for one in kept.listed()], kept_bytes=kept.kept_bytes)


def _delete_snapshot(node: Node, fields: dict[str, Any]) -> Reply:
    gone = _snapshot_of(node, fields)
    node.chain.snapshots.delete(gone.number)
    return _answer(snapshot=gone.as_json())


def _restore_snapshot(node: Node, fields: dict[str, Any]) -> Reply:
    """Return to a snapshot. A market remembers coins that may be gone now, so no market goes on."""
    snapshot = _snapshot_of(node, fields)
    written = return_to(node.chain, snapshot.number)
    node.markets.clear()
    return _answer(snapshot=snapshot.as_json(), slot=node.faults.slot, accounts_written=written)


def _snapshot_of(node: Node, fields: dict[str, Any]) -> Snapshot:
    """The snapshot that the field `id` names; in a query it is text."""
    _only(fields, "id")
    wanted = fields.get("id")
    if isinstance(wanted, str) and wanted.isdecimal() and len(wanted) <= _ID_DIGITS_MAX:
        wanted = int(wanted)
    if isinstance(wanted, bool) or not isinstance(wanted, int):
        raise _BadFields("id: wanted the number of a snapshot")
    return node.chain.snapshots.get(wanted)


def _whole(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise _BadFields(f"{name}: wanted a whole number")
    return value


def _only(fields: dict[str, Any], *names: str) -> None:
    if unknown := fields.keys() - set(names):
        raise _BadFields(f"{min(unknown)}: unknown; wanted {', '.join(names)}")


def _subscriptions(node: Node, fields: dict[str, Any]) -> Reply:
    open_streams = {stream.value: connections.counts() for stream, connections in node.faults.streams.items()}
    return _answer(slot=node.faults.slot, **open_streams)


def _arrivals(node: Node, fields: dict[str, Any]) -> Reply:
    """List arrivals with a number above `after`."""
    after = fields.get("after", "0")
    if not after.isdecimal():
        return _refusal(400, "after: wanted the number of an arrival")
    found = [arrival.as_json() for arrival in node.intake.arrivals(int(after), ARRIVALS_SHOWN_MAX)]
    return _answer(slot=node.faults.slot, arrivals=found)


def _answer(**fields: Any) -> Reply:
    return Reply(200, orjson.dumps({"ok": True, **fields}))


def _within(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _refusal(status: int, text: str) -> Reply:
    return Reply(status, orjson.dumps({"ok": False, "error": text}))


_ACTIONS: dict[tuple[str, str], Action] = {
    ("POST", "/admin/fund"): _fund,
    ("POST", "/admin/launch"): _launch,
    ("POST", "/admin/market"): _market,
    ("GET", "/admin/faults"): _show_faults,
    ("POST", "/admin/faults"): _change_faults,
    ("DELETE", "/admin/faults"): _clear_faults,
    ("POST", "/admin/faults/once"): _fault_once,
    ("POST", "/admin/warp"): _warp,
    ("POST", "/admin/snapshot"): _take_snapshot,
    ("GET", "/admin/snapshot"): _list_snapshots,
    ("DELETE", "/admin/snapshot"): _delete_snapshot,
    ("POST", "/admin/snapshot/restore"): _restore_snapshot,
    ("GET", "/admin/crowd"): _show_crowd,
    ("POST", "/admin/crowd"): _change_crowd,
    ("GET", "/admin/subscriptions"): _subscriptions,
    ("GET", "/admin/arrivals"): _arrivals,
}
