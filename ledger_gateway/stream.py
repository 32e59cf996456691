"""Subscriptions over one WebSocket, which connects again by itself.

Implements: interface, "WebSocket /ws"; actors/streams/README.md, "Close codes" and "What a client hears when something
is lost". After a break every subscription is made anew (and paid anew). Signals go on behind the last one; for the
others a Gap tells that events may be missing.
Bounded: 1,000 events wait for a subscription whose reader is slow. Then nothing more is read of the socket, the gateway
closes it with 1013, and the break is told as any other.
"""

import asyncio
import contextlib
import itertools
import json
from types import TracebackType
from typing import Any, TypeVar

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from ledger_gateway.answers import Answer, decode, document_of, item_of, plain, refusal_of
from ledger_gateway.credentials import Session
from ledger_gateway.errors import BadAnswer, Denied, GatewayError, LedgerGatewayError, PaymentNeeded, Unreachable
from ledger_gateway.retries import Repeatable
from ledger_gateway.signals import SignalPage
from ledger_gateway.subscriptions import LOST, NativeSubscription, SignalSubscription, Subscription
from ledger_gateway.transport import Transport

MESSAGE_BYTES_MAX = 64 << 20  # Size of a whole block.
_ANSWER_SECONDS = 30.0
_OPEN_SECONDS = 15.0
_WAIT_SECONDS, _WAIT_SECONDS_MAX = 0.5, 30.0
_IN_VAIN_MAX = 10  # Short-lived connections in a row without an event; each costs the price of its subscriptions.
_SOON_SECONDS = 60.0
_NO_CREDITS, _POLICY_CODES = 4002, frozenset((1008, 4001))
Made = TypeVar("Made", bound=Subscription[Any])


class Stream:
    """Use it as `async with gateway.stream() as stream`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._subscriptions: list[Subscription[Any]] = []
        self._by_id: dict[int | str, Subscription[Any]] = {}
        self._pending: dict[int, tuple[asyncio.Future[Any], Subscription[Any] | None]] = {}
        self._given_up: set[int] = set()  # Requests of this connection whose answers may still come.
        self._socket: ClientConnection | None = None
        self._reader: asyncio.Task[None] | None = None
        self._refused: LedgerGatewayError | None = None  # Why the connection is not made again, or None.
        self._first: asyncio.Future[None] | None = None
        self._numbers = 0
        self._fruitless = 0  # Connections and attempts in a row without an event.
        self._in_vain = 0  # Those of them that were made and ended soon.
        self.connections = 0  # Connections made so far.

    async def __aenter__(self) -> "Stream":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End all subscriptions and the connection."""
        if self._reader is not None:
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader
        self._finish(None)

    async def subscribe(self, method: str, *params: Any) -> NativeSubscription:
        """Begin a native subscription, such as ("accountSubscribe", pubkey, {"commitment": "confirmed"})."""
        return await self._begin(NativeSubscription(self, method, list(params)))

    async def signals(self, since: str | None = None, **filters: Any) -> SignalSubscription:
        """Begin a subscription to signals. filters: kinds, mint, programs, wallets, min_lamports."""
        given = {name: value for name, value in filters.items() if value is not None}
        subscription = SignalSubscription(self, given, since)
        if since is None:  # The log's end, so that a break before the first signal loses nothing.
            subscription.continuity.cursor = await self._end_of_log()
        return await self._begin(subscription)

    def drop(self, subscription: Subscription[Any]) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
        if subscription.id is not None:
            self._by_id.pop(subscription.id, None)

    async def forget(self, subscription: Subscription[Any]) -> None:
        number, is_known = subscription.id, subscription in self._subscriptions
        self.drop(subscription)
        if is_known and number is not None and self._socket is not None:
            name = subscription.method.replace("Subscribe", "Unsubscribe").replace(
                "subscribeSignal", "signalUnsubscribe"
            )
            with contextlib.suppress(LedgerGatewayError, ConnectionClosed):
                await self._ask(self._socket, name, [number], None)

    # --- the steps

    async def _begin(self, subscription: Made) -> Made:
        if self._reader is None or self._reader.done():
            self._first = asyncio.get_running_loop().create_future()
            self._reader = asyncio.create_task(self._run())
            await asyncio.shield(self._first)
        if self._socket is None:
            raise self._refused or Unreachable("the connection is lost at the moment", was_sent=False)
        await self._make(self._socket, subscription)
        self._subscriptions.append(subscription)
        return subscription

    async def _make(self, socket: ClientConnection, subscription: Subscription[Any]) -> None:
        """Make a subscription. Retries temporary refusals: a refused subscription is free."""
        for attempts in itertools.count(1):
            try:
                await self._ask(socket, subscription.method, subscription.params, subscription)
                return
            except GatewayError as error:
                jitter = self._transport.jitter()
                wait = self._transport.retry.wait_seconds(error, attempts, Repeatable.CHARGED, jitter)
                if wait is None:
                    raise
            await self._transport.sleep(wait)
            if self._socket is not socket:
                raise self._refused or Unreachable(LOST, was_sent=False)

    async def _ask(
        self, socket: ClientConnection, method: str, params: list[Any], subscription: Subscription[Any] | None
    ) -> Any:
        self._numbers += 1
        number, answered = self._numbers, asyncio.get_running_loop().create_future()
        self._pending[number] = (answered, subscription)
        try:
            await socket.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await answered
        except ConnectionClosed:  # The reader learns why, and tells everything that is pending.
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await answered
        except TimeoutError:
            raise Unreachable("the WebSocket gave no answer", was_sent=True) from None
        finally:
            self._pending.pop(number, None)
            if not answered.done() or answered.cancelled():
                self._given_up.add(number)

    async def _run(self) -> None:
        """Connect, and reconnect, until the caller may no longer connect."""
        error: LedgerGatewayError | None = None
        try:
            while True:
                asked = await self._connected()
                await self._transport.sleep(max(self._wait(), asked))
        except LedgerGatewayError as failed:
            error = failed
        finally:
            self._finish(error)

    async def _connected(self) -> float:
        """Open one connection, make the subscriptions, and read until it ends. Raises for what no repetition mends.

        Returns how many seconds the gateway asked to wait before the next one."""
        try:
            socket = await self._open()
        except LedgerGatewayError as error:
            attempts = 1 if self.connections else self._fruitless + 1  # Once it was there, it is waited for.
            wait = self._transport.retry.wait_seconds(error, attempts, Repeatable.HARMLESS, self._transport.jitter())
            if wait is None:
                raise
            self._fruitless += 1
            return getattr(error, "retry_after", None) or 0.0
        self.connections += 1
        self._socket, began = socket, asyncio.get_running_loop().time()
        reading, making = asyncio.create_task(self._read(socket)), asyncio.create_task(self._make_again(socket))
        reason: LedgerGatewayError = Unreachable(LOST, was_sent=True)
        try:
            await asyncio.wait((reading, making), return_when=asyncio.FIRST_COMPLETED)
            if making.done() and self._first is not None and not self._first.done():
                self._first.set_result(None)
            await asyncio.shield(reading)
        except ConnectionClosed as closed:
            try:
                self._judge(closed, asyncio.get_running_loop().time() - began)
            except LedgerGatewayError as error:
                reason = self._refused = error
                raise
        except BadAnswer as error:
            reason = error
            raise
        finally:
            self._socket = None
            for task in (making, reading):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, ConnectionClosed, LedgerGatewayError):
                    await task
            await socket.close()
            self._lose(reason)
        for subscription in list(self._subscriptions):
            await subscription.broke()
        return 0.0

    async def _make_again(self, socket: ClientConnection) -> None:
        for subscription in list(self._subscriptions):
            try:
                await self._make(socket, subscription)
            except Unreachable:
                return  # The connection has ended; reading it tells why.
            except LedgerGatewayError as error:
                self.drop(subscription)
                subscription.end(error)

    async def _open(self) -> ClientConnection:
        headers = await self._transport.credential_headers("GET", "/ws", b"")
        url = self._transport.url.replace("http", "ws", 1) + "/ws"
        try:
            return await connect(
                url,
                additional_headers=headers,
                compression=None,
                max_size=MESSAGE_BYTES_MAX,
                open_timeout=_OPEN_SECONDS,
                close_timeout=2,
                process_exception=lambda error: error,
            )
        except InvalidStatus as error:
            reply = error.response
            answer = Answer(
                reply.status_code, {k.lower(): v for k, v in reply.headers.raw_items()}, bytes(reply.body or b"")
            )
            failed = refusal_of(answer)
            if isinstance(failed, Denied) and isinstance(self._transport.credential, Session):
                self._transport.credential.token = None
            raise failed from None
        except (OSError, TimeoutError, InvalidHandshake, ConnectionClosed) as error:
            raise Unreachable(f"no WebSocket at {url}: {plain(str(error))[:200]}", was_sent=False) from None

    async def _read(self, socket: ClientConnection) -> None:
        while True:
            try:
                said = msgspec.json.decode(await socket.recv())
            except (msgspec.DecodeError, RecursionError, ValueError):
                raise BadAnswer("a WebSocket message is not JSON", 200) from None
            if not isinstance(said, dict):
                raise BadAnswer("a WebSocket message is no JSON-RPC", 200)
            if "method" in said:
                await self._hand_over(said)
                continue
            number = said.get("id")
            if type(number) is int and number in self._pending:
                self._answered(*self._pending[number], said)
            elif type(number) is int and number in self._given_up:
                self._given_up.remove(number)  # Its caller no longer waits.
            else:
                raise BadAnswer(f"a WebSocket answer has an id that no request had: {plain(repr(number)[:40])}", 200)

    async def _hand_over(self, said: dict[str, Any]) -> None:
        params = said.get("params")
        fields = params if isinstance(params, dict) else {}
        number = fields.get("subscription")
        subscription = self._by_id.get(number) if isinstance(number, int | str) else None
        if subscription is not None:
            self._fruitless = self._in_vain = 0
            await subscription.take(str(said["method"]), fields.get("result"))

    def _answered(
        self, answered: "asyncio.Future[Any]", subscription: Subscription[Any] | None, said: dict[str, Any]
    ) -> None:
        """Bind the subscription here, before its first notification is read."""
        end = item_of(said, Answer(200, {}, b""))
        if end.error is None and subscription is not None:
            if not isinstance(end.value, int | str):
                end = type(end)(error=BadAnswer("the id of a subscription is neither a number nor a text", 200))
            else:
                subscription.id = end.value
                self._by_id[end.value] = subscription
        if answered.done():
            return
        if end.error is not None:
            answered.set_exception(end.error)
        else:
            answered.set_result(end.value)

    def _judge(self, closed: ConnectionClosed, lived_seconds: float) -> None:
        """Raise if a new connection would end in the same way."""
        code, reason = (closed.rcvd.code, plain(closed.rcvd.reason)) if closed.rcvd is not None else (1006, "")
        session = self._transport.credential if isinstance(self._transport.credential, Session) else None
        self._fruitless += 1
        self._in_vain = 0 if lived_seconds > _SOON_SECONDS else self._in_vain + 1
        if self._in_vain >= _IN_VAIN_MAX:
            raise Unreachable(f"{self._in_vain} connections in a row ended without an event ({code})", was_sent=True)
        if code == _NO_CREDITS:
            raise PaymentNeeded("INSUFFICIENT_CREDITS", 402, reason or "the balance is below 10 credits")
        if code in _POLICY_CODES:
            if session is None or self._fruitless > 1:
                raise Denied("AUTH_FAILED", 401, reason or f"the gateway closed the WebSocket ({code})")
            session.token = None

    def _wait(self) -> float:
        growing: float = _WAIT_SECONDS * 2.0 ** min(max(self._fruitless - 1, 0), 10)
        return min(growing, _WAIT_SECONDS_MAX) * (1 + self._transport.jitter() / 2)

    def _lose(self, reason: LedgerGatewayError) -> None:
        self._by_id.clear()
        self._given_up.clear()
        for subscription in self._subscriptions:
            subscription.id = None
        for answered, _ in list(self._pending.values()):
            if not answered.done():
                answered.set_exception(reason)

    def _finish(self, error: LedgerGatewayError | None) -> None:
        if self._first is not None and not self._first.done():
            self._first.set_exception(error or Unreachable("the stream was closed", was_sent=False))
        for subscription in self._subscriptions:
            subscription.end(error)
        self._subscriptions.clear()

    async def _end_of_log(self) -> str | None:
        query = {"limit": 1}
        try:
            found = await self._transport.ask("GET", "/signals/recent", _page, query=query, with_credential=False)
        except LedgerGatewayError:
            return None  # A break before the first signal is then told as a gap.
        return found.next_cursor


def _page(answer: Answer) -> SignalPage:
    found: SignalPage = decode(document_of(answer), SignalPage, answer)
    return found
