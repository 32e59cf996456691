"""The door for bundles: credentials, headers, errors and 402 as for JSON-RPC, and the block engine's own answers.

Implements: interface, "Bundle relay"; decisions, "relay bodies" and "Monotonic reads"; the block engine's JSON-RPC
(paths where its own clients look: they append `/bundles`, `/transactions` or a method's name to a URL, maybe with
`/api/v1`).
These clients can send a key only as `?uuid=` or `x-jito-auth`, so both are taken as the API key here.
A body is one JSON-RPC call, never a batch: the engine takes none. An error of the engine keeps its HTTP status.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import parse_qs

from actors.calls import HoldItem
from actors.clock import Clock
from actors.errors import Err, Refusal
from actors.gateway.calls import answers, headers, jsonrpc
from actors.gateway.calls.admission import AdmittedCall, Plan
from actors.gateway.calls.consistency import MONOTONIC, parse_consistency
from actors.gateway.calls.cost_limits import one_within_limit
from actors.gateway.calls.disconnects import unless_disconnected
from actors.gateway.calls.headers import HeaderList
from actors.gateway.calls.idempotent import IdempotentCalls
from actors.gateway.calls.jsonrpc import BadCall
from actors.gateway.calls.limited_calls import LimitedCalls
from actors.gateway.calls.outcomes import Replies, Reply
from actors.gateway.calls.replies import ErrorReplies, Response
from actors.gateway.calls.requests import AsgiClient, Request, carries_credentials
from actors.gateway.payments.authentication import Authenticator
from actors.gateway.payments.x402 import within
from actors.methods import bundles, prices, rules
from actors.methods.prices import RelayRow
from actors.methods.values import InvalidError, shown
from actors.upstream.replies import AnswerKind, RelayedAnswer

_ROWS = {row.method: row for row in prices.RELAY}
_SENDS = ("sendBundle", "sendTransaction")
_PLANS = {
    row.method: Plan(
        row.name,
        row.credits,
        row.timeout_ms,
        (HoldItem(row.name, row.credits),),
        sends=row.method in _SENDS,
        takes_key=row.method in _SENDS,
    )
    for row in prices.RELAY
}
# In place of the call of a HEAD: it proves its credential and tells the figures, and holds, asks and charges nothing.
_HEAD = BadCall(jsonrpc.NO_ID, Refusal(Err.INVALID_REQUEST, "a HEAD asks nothing of the block engine"))
_NO_VIEW = Refusal(
    Err.INVALID_REQUEST, f"X-Consistency: {MONOTONIC} is not kept here, as the block engine names no slot; leave it out"
)
_NO_ENGINE = "this service has no block engine configured"
_UUID = b"x-jito-auth"


class _Path(NamedTuple):
    """methods: JSON-RPC methods of a POST; the one method of a GET. field: of a GET's answer."""

    verb: str
    methods: Mapping[str, RelayRow]
    field: bytes = b""


def _post(*methods: str) -> _Path:
    return _Path("POST", {method: _ROWS[method] for method in methods})


_STATUSES, _INFLIGHT = _post("getBundleStatuses"), _post("getInflightBundleStatuses")
_OF_ENGINE = {
    b"bundles": _post("sendBundle", "getBundleStatuses", "getInflightBundleStatuses", "getTipAccounts"),
    b"transactions": _post("sendTransaction"),
    b"getBundleStatuses": _STATUSES,
    b"getInflightBundleStatuses": _INFLIGHT,
}
PATHS: MappingProxyType[bytes, _Path] = MappingProxyType(
    {
        b"/relay/sendBundle": _post("sendBundle"),
        b"/relay/getTipAccounts": _Path("GET", {"getTipAccounts": _ROWS["getTipAccounts"]}, b"tip_accounts"),
        b"/relay/tipFloor": _Path("GET", {"tipFloor": _ROWS["tipFloor"]}, b"tip_floor"),
        **{b"/relay/" + name: path for name, path in _OF_ENGINE.items()},
        **{b"/relay/api/v1/" + name: path for name, path in _OF_ENGINE.items()},
    }
)


class RelayDoor:
    """offered: whether there is a block engine."""

    def __init__(
        self,
        authenticator: Authenticator,
        keyed: IdempotentCalls,
        errors: ErrorReplies,
        clock: Clock,
        limited: LimitedCalls,
        offered: bool,
    ) -> None:
        self._authenticator, self._keyed, self._errors, self._clock = authenticator, keyed, errors, clock
        self._limited, self._offered = limited, offered

    async def answer(self, request: Request) -> Response:
        """Answer a request on one of PATHS. Raises ClientLeftError."""
        client, path = request.client, PATHS[request.path]
        assert type(client) is AsgiClient
        request.headers, key_in_url = _with_key(request)
        call = self._admit(request, path)
        raw_id = None if path.field else call.id
        # A HEAD has nothing to deliver (RFC 9110, 9.3.2): a payment that comes with it is not settled.
        pays = request.pays and self._authenticator.takes_payments and request.method != "HEAD"
        public = one_within_limit(call, request.max_credits)  # A payment buys at the public prices.
        if pays and isinstance(public, AdmittedCall):  # Otherwise the request costs nothing.
            caller = await self._authenticator.authenticate_payment(request)
        else:
            caller = self._authenticator.authenticate(request)
        if isinstance(caller, Refusal):
            return self._errors.reply(caller, request, raw_id)
        proof = caller.proof
        if caller.credits_max is not None:
            (call,) = within([public], caller.credits_max)
        else:
            limited = await self._limited.one(proof, call, client, request.max_credits)
            if isinstance(limited, Replies):
                assert limited.refusal is not None
                return self._with_figures(self._errors.reply(limited.refusal, request, raw_id), limited)
            proof, call = limited.proof, limited.calls
        if request.method == "HEAD" and isinstance(call, AdmittedCall):
            call = _HEAD
        done = await unless_disconnected(client, self._keyed.single(proof, call, request.key, client))
        refusal = done.refusal or done.items[0].refusal
        if refusal is _HEAD.refusal:
            response = Response(200, b"", [headers.NO_STORE], is_free=True, is_head=True)
        elif refusal is not None:
            response = self._errors.reply(refusal, request, raw_id)
        else:
            response = _answered(done.items[0], path.field, call.id)
        self._with_figures(response, done)
        response.headers += caller.headers
        if key_in_url:
            response.headers += headers.DEPRECATED_URL_KEY
        return response

    def _with_figures(self, response: Response, done: Replies) -> Response:
        if done.figures is not None:
            headers.add_figures(response.headers, done.figures, done.credits_remaining, self._clock.now())
        if done.repeated:
            response.headers.append(headers.REPEATED)
        return response

    def _admit(self, request: Request, path: _Path) -> AdmittedCall | BadCall:
        if not self._offered:
            raw_id = jsonrpc.id_of(request.body, len(request.body)) or jsonrpc.NO_ID
            err = Err.NOT_FOUND if path.field else Err.SERVICE_PROFILE_DISABLED
            return BadCall(raw_id, Refusal(err, _NO_ENGINE))
        return _without_view(admit(request, path), request.consistency)


def admit(request: Request, path: _Path) -> AdmittedCall | BadCall:
    """Return the admitted call, or why it is refused for free."""
    if path.field:
        (method,) = path.methods
        return AdmittedCall(jsonrpc.NO_ID, _PLANS[method], b"[]")
    call = jsonrpc.parse(request.body)
    if isinstance(call, list):
        return BadCall(jsonrpc.NO_ID, Refusal(Err.INVALID_REQUEST, "a body is one call here, no batch"))
    if isinstance(call, BadCall):
        return call
    if call.method not in path.methods:
        wanted = " or ".join(path.methods)
        return BadCall(call.id, Refusal(Err.METHOD_NOT_FOUND, f"{shown(call.method)}: this path takes {wanted}"))
    try:
        arguments = rules.by_position(call.method, call.arguments)
        params = bundles.RULES[call.method](arguments, _bundle_only(request.query))
    except InvalidError as fault:
        return BadCall(call.id, Refusal(Err.INVALID_PARAMS, str(fault)), 0, _PLANS[call.method].method)
    return AdmittedCall(call.id, _PLANS[call.method], params)


def _without_view(call: AdmittedCall | BadCall, consistency: bytes | None) -> AdmittedCall | BadCall:
    """Refuse a consistency that the engine cannot keep, instead of ignoring it. consistency: as sent."""
    if consistency is None or isinstance(call, BadCall):
        return call
    wanted = parse_consistency(consistency)
    if isinstance(wanted, Refusal):
        return BadCall(call.id, wanted, method=call.plan.method)
    return BadCall(call.id, _NO_VIEW, method=call.plan.method) if wanted else call


def _answered(reply: Reply, field: bytes, raw_id: bytes) -> Response:
    answer = reply.answer
    assert answer is not None
    if not field:
        response = answers.single(reply, raw_id)
        if isinstance(answer, RelayedAnswer):
            response.status = answer.http
            if answer.bundle_id:
                response.headers.append((b"x-bundle-id", answer.bundle_id.encode("ascii", "replace")))
        return response
    assert answer.kind is AnswerKind.RESULT, answer.kind  # The racer makes this answer from what the engine told.
    charges = () if reply.charge is None else (reply.charge,)
    # A cache on the way would give it to the next caller for nothing (RFC 9111).
    stored = [headers.NO_STORE]
    return Response(200, b'{"ok":true,"%b":%b}' % (field, answer.value()), stored, charges, is_free=not charges)


def _bundle_only(query: bytes) -> bool:
    return parse_qs(query.decode("latin-1")).get("bundleOnly", [""])[-1].lower() in ("true", "1")


def _with_key(request: Request) -> tuple[HeaderList, bool]:
    """The headers, with the key as X-Api-Key where the request has no other credential than the engine's own form; and
    whether it came in the URL."""
    if carries_credentials(request):
        return request.headers, False
    in_header = [value for name, value in request.headers if name == _UUID]
    in_url = [one.encode() for one in parse_qs(request.query.decode("latin-1")).get("uuid", [])]
    keys = in_header or in_url
    return [*request.headers, *((b"x-api-key", key) for key in keys)], bool(in_url) and not in_header
