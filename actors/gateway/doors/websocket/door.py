"""The WebSocket door: from a handshake to an open socket of one account, or to a refusal.

Implements: interface, "WebSocket /ws", "Authentication"; decisions, "WebSocket refusals"; threats 30, 31, 45 and
59. The order of checks: the handshake's form, the handshakes of the address, its turn, too many refusals, the
credential, its account, the account's handshakes, the balance, the room. A handshake that is refused for its credential
or its account is accepted and closed with the reason (doors/websocket/refusals.py); others get the status and the body
of a refused call. Not here: messages (doors/websocket/session.py), subscriptions (handed over by the wiring), frames
(http_server/websocket.py).
"""

import base64
import binascii
import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

from websockets.utils import accept_key

from actors.accounts.api import AccountsClient, AccountStanding, OwnerUnavailable, ReadStanding
from actors.accounts.key_requests import payer_of
from actors.calls import KeyProof, Proof, ProvenProof, WalletProof
from actors.clock import Clock
from actors.config import GatewayConfig
from actors.errors import Err, Refusal
from actors.gateway.calls.address_limits import AddressLimits
from actors.gateway.calls.answers import LateAnswers
from actors.gateway.calls.consistency import MALFORMED, parse_consistency
from actors.gateway.calls.headers import CLOSE, HeaderList
from actors.gateway.calls.jsonrpc import NO_ID, BadCall
from actors.gateway.calls.pipeline import Pipeline
from actors.gateway.calls.replies import ErrorReplies, Response
from actors.gateway.calls.requests import CONSISTENCY, RefusedCaller, Request, carries_credentials
from actors.gateway.doors.websocket.handshakes import HandshakeLimits
from actors.gateway.doors.websocket.refusals import RefusedSocket, close_of
from actors.gateway.doors.websocket.session import OpenStreams, SocketSession
from actors.gateway.payments.authentication import Authenticator
from actors.http_server.backlog import Backlog
from actors.http_server.exchange import Upgrade
from actors.http_server.unfinished_messages import UnfinishedMessages
from actors.http_server.websocket import SocketHandler, WebSocket
from actors.identity.credentials import url_keys
from actors.start_line import StartLine

logger = logging.getLogger(__name__)

PATHS = (b"/ws", b"/", b"/rpc")
BALANCE_MIN = 10  # The interface closes connections below 10 credits.
BACKLOG_BYTES_MAX = 256 << 20  # Bytes of one process; five of the largest blocks of a node.
# Of a process, and of an account in it: 256 and 32 unfinished messages of the largest size.
UNFINISHED_BYTES_MAX, UNFINISHED_ACCOUNT_BYTES_MAX = 64 << 20, 8 << 20
HANDSHAKE_COST = 25  # In units of a refused call: a refused handshake takes about half a millisecond of the event loop.
_SUBPROTOCOL, _KEY_PREFIX = b"solana-rpc", b"auth."
_OFFER, _VERSION, _KEY = b"sec-websocket-protocol", b"sec-websocket-version", b"sec-websocket-key"
_PER_ROUND = 2  # Handshakes begun in one round of the event loop: asking the account's owner takes 0.5 to 1 ms.
_NOBODY = b""  # Owner of refused sockets, whose messages are not read.
_BAD_HANDSHAKE = Refusal(Err.INVALID_REQUEST, "a WebSocket handshake needs one Sec-WebSocket-Key of 16 bytes in base64")
_BAD_VERSION = Refusal(Err.INVALID_REQUEST, "a WebSocket handshake needs one Sec-WebSocket-Version, which is 13")
_TWO_KEYS = Refusal(Err.AUTH_FAILED, "two keys were offered as subprotocols")
_SUSPENDED = Refusal(Err.METHOD_NOT_ALLOWED, "this account is suspended")
_LOW = Refusal(Err.INSUFFICIENT_CREDITS, f"a WebSocket needs a balance of {BALANCE_MIN} credits")
_KEY_LOW = Refusal(Err.KEY_BUDGET_EXCEEDED, f"a WebSocket needs {BALANCE_MIN} credits of its key's budget")
_TOO_MANY = RefusedCaller(
    Err.RATE_LIMITED,
    "too many WebSocket handshakes in one second; connect again after Retry-After",
    told_to_wait=True,
)
_FULL = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "no room for another socket here; connect again")
_OWNER_AWAY = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the ledger cannot admit calls at the moment")


class StreamService(Protocol):
    """The subscriptions of this process."""

    def room_for(self, pubkey: bytes, address: str) -> bool:
        """Return whether this account may open one more socket here, from this client address."""
        ...

    def open(self, socket: WebSocket, payer: ProvenProof, proof: Proof, address: str) -> OpenStreams:
        """Open a socket's subscriptions. proof: for charges, and for checks while the socket is open."""
        ...


class WebSocketDoor:
    def __init__(
        self,
        config: GatewayConfig,
        authenticator: Authenticator,
        accounts: AccountsClient,
        pipeline: Pipeline,
        late: LateAnswers,
        errors: ErrorReplies,
        streams: StreamService,
        next_id: Callable[[], str],
        addresses: AddressLimits,
        clock: Clock,
    ) -> None:
        self._config, self._authenticator, self._accounts, self._pipeline = config, authenticator, accounts, pipeline
        self._late, self._errors, self._streams, self._next_id = late, errors, streams, next_id
        self._addresses, self._clock = addresses, clock
        self._handshakes = HandshakeLimits(config.account_handshakes_per_second, config.address_handshakes_per_second)
        self._starts = StartLine(_PER_ROUND)
        self._backlog = Backlog(BACKLOG_BYTES_MAX)
        # A message of the largest size always fits into an empty room, whatever the setting.
        most = max(UNFINISHED_ACCOUNT_BYTES_MAX, 2 * config.body_bytes_max)
        self._unfinished = UnfinishedMessages(max(UNFINISHED_BYTES_MAX, 2 * most), most)

    async def answer(self, request: Request) -> Upgrade | Response:
        """Accept a handshake or refuse it. After a Response the connection is closed."""
        address = self._addresses.name_of(request.client)
        verdict = await self._judge(request, address)
        if isinstance(verdict, Refusal):
            return self._refused(verdict, request)
        payer, proof = verdict
        monotonic = _wants_monotonic(request.headers) is True

        def session() -> SocketSession:
            return SocketSession(
                *(proof, self._authenticator, self._pipeline, self._late),
                *(self._errors.deposit, self._next_id),
                lambda socket: self._streams.open(socket, payer, proof, address),
                monotonic,
            )

        return self._upgrade(request, session, payer.pubkey)

    def _upgrade(self, request: Request, handler: Callable[[], SocketHandler], owner: bytes) -> Upgrade:
        sent = dict(request.headers)
        answered: HeaderList = [
            (b"upgrade", b"websocket"),
            (b"connection", b"Upgrade"),
            (b"sec-websocket-accept", accept_key(sent[_KEY].decode()).encode()),
            (b"x-request-id", request.id.encode()),
        ]
        if _SUBPROTOCOL in _offered(request.headers):
            answered.append((_OFFER, _SUBPROTOCOL))
        config = self._config
        return Upgrade(
            answered,
            lambda connections: WebSocket(
                handler(),
                config.body_bytes_max,
                config.socket_messages_per_second_max,
                connections,
                self._backlog,
                partial(self._unfinished.resize, owner),
            ),
        )

    def _refused(self, refusal: Refusal, request: Request) -> Upgrade | Response:
        is_token, has_credential = _is_token(request), carries_credentials(request)
        end = close_of(refusal, is_token, has_credential)
        if end is not None:
            upgrade = self._upgrade(request, lambda: RefusedSocket(*end), _NOBODY)
            upgrade.refused = (refusal.err.name,)
            return upgrade
        response = self._errors.reply(refusal, request)
        response.headers.append(CLOSE)
        if refusal is _BAD_VERSION:
            response.headers.append((_VERSION, b"13"))
        return response

    async def _judge(self, request: Request, address: str) -> tuple[ProvenProof, Proof] | Refusal:
        """Return the socket's payer and the proof of its calls, or a refusal, which is counted."""
        sent = dict(request.headers)
        names = [name for name, _ in request.headers]
        if not _is_key(sent.get(_KEY, b"")) or names.count(_KEY) > 1:
            return _BAD_HANDSHAKE
        if sent.get(_VERSION) != b"13" or names.count(_VERSION) > 1:
            return _BAD_VERSION
        if isinstance(wanted := _wants_monotonic(request.headers), Refusal):
            return self._counted(wanted, request)
        if not self._handshakes.admits_address(address, self._clock.now()):
            return self._counted(_TOO_MANY, request)
        if not await self._starts.enter(address):
            return self._counted(_FULL, request)
        keys = [offer[len(_KEY_PREFIX) :] for offer in _offered(request.headers) if offer.startswith(_KEY_PREFIX)]
        if len(keys) > 1:
            return self._counted(_TWO_KEYS, request)
        if keys and b"x-api-key" not in sent:  # The header is checked first, as before the parameter of the URL.
            request.headers = [*request.headers, (b"x-api-key", keys[0])]
        caller = self._authenticator.authenticate(request)
        if isinstance(caller, Refusal):  # A caller that must wait is counted already.
            return caller if caller.err is Err.RATE_LIMITED else self._counted(caller, request)
        standing = await self._standing(caller.proof)
        if isinstance(standing, Refusal):
            return self._counted(standing, request)
        payer = payer_of(standing)
        proof = _proof_of_socket(caller.proof, payer)
        refusal = self._refusal_of(standing, address)
        if refusal is None:
            return payer, proof
        await self._pipeline.refuse(proof, BadCall(NO_ID, refusal), request.client, HANDSHAKE_COST)
        return refusal

    def _counted(self, refusal: Refusal, request: Request) -> Refusal:
        """Count a refusal that proves nothing about the client. A refusal in its place when there were too many."""
        return self._authenticator.count_refusals((refusal.err,), request.client, HANDSHAKE_COST) or refusal

    def _refusal_of(self, standing: AccountStanding, address: str) -> Refusal | None:
        if not self._handshakes.admits_account(standing.pubkey, self._clock.now()):
            return _TOO_MANY
        if not standing.is_active:
            return _SUSPENDED
        if standing.balance < BALANCE_MIN:
            return _KEY_LOW if standing.key else _LOW
        return None if self._streams.room_for(standing.pubkey, address) else _FULL

    async def _standing(self, proof: Proof) -> AccountStanding | Refusal:
        try:
            reply = await self._accounts.ask(ReadStanding(proof, uses=True))
        except OwnerUnavailable:
            return _OWNER_AWAY
        if reply.value is None:
            assert reply.refusal is not None
            return Refusal(Err[reply.refusal], reply.detail)
        return reply.value


def _proof_of_socket(proof: Proof, payer: ProvenProof) -> Proof:
    """The proof of the calls that a socket will make. A wallet's signature is good for one request, so its socket goes
    on under the account that it has proven. A key's owner knows it by now, so a child's text is not kept; and only a
    named key's calls are judged by address and origin."""
    if isinstance(proof, WalletProof | ProvenProof):
        return payer
    if not isinstance(proof, KeyProof):
        return proof
    place = (proof.address, proof.origin) if payer.key else ()
    return KeyProof(proof.key_hash, proof.routing, *place)


def _is_token(request: Request) -> bool:
    """Return whether the deciding credential is a session token, the last in the interface's priority."""
    names = {name for name, _ in request.headers}
    has_other = b"x-api-key" in names or b"x-pubkey" in names or bool(url_keys(request.query))
    return b"authorization" in names and not has_other


def _offered(headers: HeaderList) -> list[bytes]:
    """Return the subprotocols that the client offers; the header may occur more than once."""
    return [offer.strip() for name, value in headers if name == _OFFER for offer in value.split(b",")]


def _wants_monotonic(headers: HeaderList) -> bool | Refusal:
    """Return whether all reads of the socket must be monotonic."""
    words = [value for name, value in headers if name == CONSISTENCY]
    if not words:
        return False
    return parse_consistency(words[0]) if len(words) == 1 else MALFORMED


def _is_key(value: bytes) -> bool:
    try:
        return len(base64.b64decode(value, validate=True)) == 16
    except (ValueError, binascii.Error):
        return False
