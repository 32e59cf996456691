"""The HTTP interface of the block engine.

Implements: sendBundle, getBundleStatuses, getInflightBundleStatuses and getTipAccounts as JSON-RPC on /api/v1/bundles,
and all but the first also on a path of its name; sendTransaction on /api/v1/transactions (`?bundleOnly=true`); the tip
floor as a plain GET. Answers and errors have the engine's form; an error object comes with HTTP 400. A request above
the rate limit, and the fault 429 (faults/plan.py), have HTTP 429 and the engine's error for too many requests. The rate
limit is for each client: its key (x-jito-auth, or uuid in the query) or, without one, its address.
Not here: bundles after they are accepted (engine.py), the limit's setting (faults/plan.py).
"""

import datetime
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import orjson

from devnode.block_engine.bundles import Bundle, BundleRefusal, bundle_of
from devnode.block_engine.engine import BlockEngine
from devnode.encoding.addresses import TIP_ACCOUNTS
from devnode.encoding.wire import Decoded
from devnode.faults.plan import CallFate
from devnode.rpc import params as read
from devnode.rpc.asgi import Reply, Route, Scope
from devnode.rpc.dispatch import Dispatcher, Handler, Method
from devnode.rpc.errors import RpcError, invalid_params
from devnode.rpc.node import Node
from devnode.rpc.params import Params
from devnode.rpc.sending import decoded_transaction

CLIENTS_MAX = 10_000  # Clients in memory; above this number those with a full bucket are forgotten.
BUNDLE_IDS_MAX = 5
RATE_LIMITED = -32097
_ENCODINGS = ("base58", "base64")
_TRUE = ("true", "1")


@dataclass(slots=True)
class RateLimit:
    _used: dict[str, tuple[float, float]] = field(default_factory=dict)  # By client: requests used, and when.

    def allows(self, client: str, per_second: int, now_seconds: float) -> bool:
        """Whether the client may make one more request now; counts it if so."""
        used, at_seconds = self._used.get(client, (0.0, now_seconds))
        left = max(0.0, used - (now_seconds - at_seconds) * per_second)
        if left + 1 > per_second:
            return False
        if len(self._used) >= CLIENTS_MAX:
            self._forget_idle(per_second, now_seconds)
        self._used[client] = (left + 1, now_seconds)
        return True

    def _forget_idle(self, per_second: int, now_seconds: float) -> None:
        self._used = {
            client: (used, at_seconds)
            for client, (used, at_seconds) in self._used.items()
            if used > (now_seconds - at_seconds) * per_second
        }


Action = Callable[[BlockEngine, Params], Any]


def block_engine_routes(engine: BlockEngine) -> dict[tuple[str, str], Route]:
    methods = {
        name: Method(_handler(engine, name, action), least, most)
        for name, (action, least, most) in _BUNDLE_METHODS.items()
    }
    answer = Dispatcher(engine.node, methods).answer

    def bundles(scope: Scope, body: bytes) -> Reply:
        return _reply(answer(body))

    def transactions(scope: Scope, body: bytes) -> Reply:
        return _transaction_reply(engine, scope, body)

    def tip_floor(scope: Scope, body: bytes) -> Reply:
        return _tip_floor(engine)

    paths = ["/api/v1/bundles", *(f"/api/v1/{name}" for name in methods if name != "sendBundle")]
    routes: dict[tuple[str, str], Route] = {("POST", path): bundles for path in paths}
    routes["POST", "/api/v1/transactions"] = transactions
    routes["GET", "/api/v1/bundles/tip_floor"] = tip_floor
    rates = RateLimit()
    return {place: _guarded(engine, rates, route) for place, route in routes.items()}


def _guarded(engine: BlockEngine, rates: RateLimit, route: Route) -> Route:
    """The route behind the engine's outage and its rate limit, which are settings of the fault plan."""

    def guarded(scope: Scope, body: bytes) -> Reply | Awaitable[Reply]:
        faults = engine.node.faults.plan.engine
        if faults.down:
            return Reply(503, b"no healthy upstream\n", b"text/plain")
        limit = faults.requests_per_second
        if (
            limit is None
            or scope["method"] != "POST"
            or rates.allows(_client(scope), limit, engine.node.clock.monotonic())
        ):
            return route(scope, body)
        return _rate_limited(body, limit)

    return guarded


def _client(scope: Scope) -> str:
    """The client's key, from the header or the query; without one, its address."""
    in_query: list[bytes] = parse_qs(scope.get("query_string", b"")).get(b"uuid", [b""])
    key: bytes = dict(scope["headers"]).get(b"x-jito-auth", in_query[-1])
    if key:
        return key.decode("latin-1")
    client = scope.get("client")
    return "" if client is None else str(client[0])


def _rate_limited(body: bytes, limit: int) -> Reply:
    error = RpcError(RATE_LIMITED, f"Rate limit exceeded. Limit: {limit} per second for txn requests")
    try:
        asked = orjson.loads(body)
    except orjson.JSONDecodeError:
        asked = None
    identifier = asked.get("id") if isinstance(asked, dict) else None
    return Reply(429, orjson.dumps({"jsonrpc": "2.0", "error": error.body(), "id": identifier}))


def _handler(engine: BlockEngine, name: str, action: Action) -> Handler:
    def handle(node: Node, params: Params) -> Any:
        if node.faults.befall_calls and node.faults.call_fate(name) is CallFate.TOO_MANY:
            raise RpcError(RATE_LIMITED, "Rate limit exceeded. Limit: 1 per second for txn requests")
        return action(engine, params)

    return handle


def _send_bundle(engine: BlockEngine, params: Params) -> str:
    texts = read.listed(read.at(params, 0))
    config = read.config(params, 1, "SendBundleConfig")
    return _accepted(engine, [_decoded(text, config, position) for position, text in enumerate(texts)]).identifier


def _accepted(engine: BlockEngine, transactions: list[Decoded]) -> Bundle:
    bundle = bundle_of(transactions)
    fault = bundle if isinstance(bundle, BundleRefusal) else engine.accept(bundle)
    if fault is not None:
        raise RpcError(fault.code, fault.text)
    assert isinstance(bundle, Bundle)
    return bundle


def _decoded(text: Any, config: dict[str, Any], position: int) -> Decoded:
    if config.get("encoding") not in (None, *_ENCODINGS):
        raise invalid_params(f"unsupported encoding: {config['encoding']}. Supported encodings: base58, base64")
    if not isinstance(text, str):
        raise read.wrong_type(text, "a string")
    try:
        return decoded_transaction(text, config)
    except RpcError:
        raise invalid_params(f"transaction #{position} could not be decoded") from None


def _bundle_statuses(engine: BlockEngine, params: Params) -> dict[str, Any]:
    """Statuses of landed bundles; other bundles are left out."""
    levels = engine.node.chain.levels
    found = [landed for one in _identifiers(params) if (landed := engine.landed(one)) is not None]
    return _in_context(
        engine,
        [
            {
                "bundle_id": landed.identifier,
                "transactions": list(map(str, landed.signatures)),
                "slot": landed.slot,
                "confirmation_status": levels.level_of(landed.slot).value,
                "err": {"Ok": None},
            }
            for landed in found
        ],
    )


def _inflight_statuses(engine: BlockEngine, params: Params) -> dict[str, Any]:
    values = []
    for identifier in _identifiers(params):
        status, slot = engine.inflight(identifier)
        values.append({"bundle_id": identifier, "status": status.value, "landed_slot": slot})
    return _in_context(engine, values)


def _identifiers(params: Params) -> list[str]:
    identifiers = read.listed(read.at(params, 0))
    if len(identifiers) > BUNDLE_IDS_MAX:
        raise invalid_params(f"Too many bundle ids provided; max {BUNDLE_IDS_MAX}")
    return [read.text(identifiers, index) for index in range(len(identifiers))]


def _in_context(engine: BlockEngine, value: list[Any]) -> dict[str, Any]:
    return {"context": {"slot": engine.node.chain.levels.building.slot}, "value": value}


def _tip_accounts(engine: BlockEngine, params: Params) -> list[str]:
    return list(map(str, TIP_ACCOUNTS))


def _transaction_reply(engine: BlockEngine, scope: Scope, body: bytes) -> Reply:
    """Answer sendTransaction. The transaction must tip. With bundleOnly it is a bundle of one, which lands only if it
    succeeds; otherwise it is forwarded to the leader as well as any, and may fail."""
    query = parse_qs(scope.get("query_string", b"").decode("ascii", "replace"))
    bundle_only = query.get("bundleOnly", [""])[-1].lower() in _TRUE
    headers: list[tuple[bytes, bytes]] = []

    def send(engine: BlockEngine, params: Params) -> str:
        config = read.config(params, 1, "RpcSendTransactionConfig")
        decoded = _decoded(read.at(params, 0), config, 0)
        if bundle_only:
            headers.append((b"x-bundle-id", _accepted(engine, [decoded]).identifier.encode()))
        elif (fault := engine.forward(decoded)) is not None:
            raise RpcError(fault.code, fault.text)
        return str(decoded.signature)

    method = Method(_handler(engine, "sendTransaction", send), 1, 2)
    answer = Dispatcher(engine.node, {"sendTransaction": method}).answer(body)
    return _reply(answer, tuple(headers))


def _reply(answer: bytes | None, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Reply:
    body = orjson.loads(answer) if answer else None
    status = 200
    if isinstance(body, dict) and "error" in body:
        status = 429 if body["error"]["code"] == RATE_LIMITED else 400
    return Reply(status, answer or b"", headers=headers)


def _tip_floor(engine: BlockEngine) -> Reply:
    time = datetime.datetime.fromtimestamp(engine.node.chain.opened_unix_time, datetime.UTC).isoformat()
    return Reply(200, orjson.dumps([{"time": time} | engine.tips.floor()]))


_BUNDLE_METHODS: dict[str, tuple[Action, int, int]] = {  # (Action, least and most number of parameters).
    "sendBundle": (_send_bundle, 1, 2),
    "getBundleStatuses": (_bundle_statuses, 1, 1),
    "getInflightBundleStatuses": (_inflight_statuses, 1, 1),
    "getTipAccounts": (_tip_accounts, 0, 1),
}
ENGINE_METHODS = frozenset((*_BUNDLE_METHODS, "sendTransaction"))
