"""The WebSocket door: from a handshake to an open socket of one account, or to an ordinary refusal.

Implements: interface specification, "WebSocket /ws", "Authentication"; hostile inputs 30, 31 and 45.
The order of checks: the handshake's form, too many refusals, the credential, its account, the balance. A refused
handshake gets the status and the body that a refused call gets. Not here: messages (socket_session.py), subscriptions
(handed over by the wiring), frames (http_server/websocket.py).
"""

import base64
import binascii
import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

from websockets.utils import accept_key

from actors.accounts.api import AccountsClient, AccountStanding, OwnerUnavailable, ReadStanding
from actors.calls import Proof, ProvenProof, WalletProof
from actors.config import GatewayConfig
from actors.errors import Err, Refusal
from actors.gateway.answers import LateAnswers
from actors.gateway.authentication import Authenticator
from actors.gateway.headers import CLOSE, HeaderList
from actors.gateway.pipeline import Pipeline
from actors.gateway.replies import ErrorReplies, Response
from actors.gateway.requests import Request
from actors.gateway.socket_session import OpenStreams, SocketSession
from actors.http_server.exchange import Upgrade
from actors.http_server.unfinished_messages import UnfinishedMessages
from actors.http_server.websocket import Backlog, WebSocket

logger = logging.getLogger(__name__)

PATHS = (b"/ws", b"/", b"/rpc")
BALANCE_MIN = 10  # Interface: connections are closed below 10 credits.
BACKLOG_BYTES_MAX = 256 << 20  # Of a process; five of the largest blocks of a node.
# Of a process, and of an account in it: 256 and 32 unfinished messages of the largest size.
UNFINISHED_BYTES_MAX, UNFINISHED_ACCOUNT_BYTES_MAX = 64 << 20, 8 << 20
_SUBPROTOCOL, _KEY_PREFIX = b"solana-rpc", b"auth."
_OFFER, _VERSION, _KEY = b"sec-websocket-protocol", b"sec-websocket-version", b"sec-websocket-key"
_BAD_HANDSHAKE = Refusal(Err.INVALID_REQUEST, "a WebSocket handshake needs one Sec-WebSocket-Key of 16 bytes in base64")
_BAD_VERSION = Refusal(Err.INVALID_REQUEST, "a WebSocket handshake needs one Sec-WebSocket-Version, which is 13")
_TWO_KEYS = Refusal(Err.AUTH_FAILED, "two keys were offered as subprotocols")
_SUSPENDED = Refusal(Err.METHOD_NOT_ALLOWED, "this account is suspended")
_LOW = Refusal(Err.INSUFFICIENT_CREDITS, f"a WebSocket needs a balance of {BALANCE_MIN} credits")
_FULL = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "too many open sockets here")
_OWNER_AWAY = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the ledger cannot admit calls at the moment")


class StreamService(Protocol):
    """The subscriptions of this process."""

    def room_for(self, pubkey: bytes) -> bool:
        """Whether this account may open one more socket here."""
        ...

    def open(self, socket: WebSocket, pubkey: bytes, proof: Proof) -> OpenStreams:
        """The subscriptions of a socket that has opened. proof: for the checks while it is open, and for charges."""
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
    ) -> None:
        self._config, self._authenticator, self._accounts, self._pipeline = config, authenticator, accounts, pipeline
        self._late, self._errors, self._streams, self._next_id = late, errors, streams, next_id
        self._backlog = Backlog(BACKLOG_BYTES_MAX)
        # A message of the largest size always fits into an empty room, whatever the setting.
        most = max(UNFINISHED_ACCOUNT_BYTES_MAX, 2 * config.body_bytes_max)
        self._unfinished = UnfinishedMessages(max(UNFINISHED_BYTES_MAX, 2 * most), most)

    async def answer(self, request: Request) -> Upgrade | Response:
        """Accept a handshake or refuse it; the connection of a refused one is closed."""
        verdict = await self._judge(request)
        if isinstance(verdict, Refusal):
            response = self._errors.reply(verdict, request)
            response.headers.append(CLOSE)
            if verdict is _BAD_VERSION:
                response.headers.append((_VERSION, b"13"))
            return response
        pubkey, proof = verdict
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

        def session() -> SocketSession:
            return SocketSession(
                *(proof, self._authenticator, self._pipeline, self._late),
                *(self._errors.deposit, self._next_id, self._open(pubkey, proof)),
            )

        return Upgrade(
            answered,
            lambda connections: WebSocket(
                session(),
                config.body_bytes_max,
                config.socket_messages_per_second_max,
                connections,
                self._backlog,
                partial(self._unfinished.resize, pubkey),
            ),
        )

    def _open(self, pubkey: bytes, proof: Proof) -> Callable[[WebSocket], OpenStreams]:
        return lambda socket: self._streams.open(socket, pubkey, proof)

    async def _judge(self, request: Request) -> tuple[bytes, Proof] | Refusal:
        """The account and the proof of its sockets, or why there is no socket."""
        sent = dict(request.headers)
        names = [name for name, _ in request.headers]
        if not _is_key(sent.get(_KEY, b"")) or names.count(_KEY) > 1:
            return _BAD_HANDSHAKE
        if sent.get(_VERSION) != b"13" or names.count(_VERSION) > 1:
            return _BAD_VERSION
        keys = [offer[len(_KEY_PREFIX) :] for offer in _offered(request.headers) if offer.startswith(_KEY_PREFIX)]
        if len(keys) > 1:
            return _TWO_KEYS
        if keys and b"x-api-key" not in sent:  # The header is checked first, as before the parameter of the URL.
            request.headers = [*request.headers, (b"x-api-key", keys[0])]
        caller = self._authenticator.authenticate(request)
        if isinstance(caller, Refusal):
            return caller
        standing = await self._standing(caller.proof)
        if isinstance(standing, Refusal):
            return self._authenticator.count_refusals((standing.err,), request.client) or standing
        if not self._streams.room_for(standing.pubkey):
            return _FULL
        # A wallet's signature is good for one request, so its socket goes on under the account that it has proven.
        proof = caller.proof
        is_key = not isinstance(proof, WalletProof | ProvenProof)
        return standing.pubkey, proof if is_key else ProvenProof(standing.pubkey)

    async def _standing(self, proof: Proof) -> AccountStanding | Refusal:
        try:
            reply = await self._accounts.ask(ReadStanding(proof, uses=True))
        except OwnerUnavailable:
            return _OWNER_AWAY
        if reply.value is None:
            assert reply.refusal is not None
            return Refusal(Err[reply.refusal], reply.detail)
        standing = reply.value
        if not standing.is_active:
            return _SUSPENDED
        return standing if standing.balance >= BALANCE_MIN else _LOW


def _offered(headers: HeaderList) -> list[bytes]:
    """The subprotocols that the client offers; the header may come more than once."""
    return [offer.strip() for name, value in headers if name == _OFFER for offer in value.split(b",")]


def _is_key(value: bytes) -> bool:
    try:
        return len(base64.b64decode(value, validate=True)) == 16
    except (ValueError, binascii.Error):
        return False
