"""Subscriptions as iterators, and how each kind continues after a break.

Implements: actors/streams/README.md, "What a client hears when something is lost"; decisions, "cursors and gaps". Not
here: the connection (stream.py).
"""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from ledger_gateway.answers import plain
from ledger_gateway.continuity import Continuity
from ledger_gateway.errors import BadAnswer, LedgerGatewayError
from ledger_gateway.signals import Signal, SignalGap

QUEUE_MAX = 1_000
LOST = "the connection was lost"
Event = TypeVar("Event")


class Owner(Protocol):
    """The stream of a subscription."""

    def drop(self, subscription: "Subscription[Any]") -> None: ...

    async def forget(self, subscription: "Subscription[Any]") -> None: ...


@dataclass(frozen=True, slots=True)
class Notification:
    """A notification of a native subscription. slot: if the result names one."""

    result: Any
    slot: int | None


@dataclass(frozen=True, slots=True)
class Gap:
    """Events of the subscription between these slots may be missing; None: not known."""

    from_slot: int | None
    to_slot: int | None
    reason: str


class Subscription(ABC, Generic[Event]):
    """An asynchronous iterator of events. Made by Stream."""

    def __init__(self, stream: Owner, method: str, params: list[Any]) -> None:
        self._stream, self.method, self._params = stream, method, params
        self.id: int | str | None = None  # At the gateway; None while there is no connection.
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue(QUEUE_MAX)
        self._is_over = False
        self._error: LedgerGatewayError | None = None

    def __aiter__(self) -> AsyncGenerator[Event, None]:
        return self._events()

    async def _events(self) -> AsyncGenerator[Event, None]:
        while not (self._is_over and self._queue.empty()):
            found = await self._queue.get()
            if found is None:
                break
            yield found
        if self._error is not None:
            raise self._error

    async def close(self) -> None:
        """End the subscription; free."""
        self.end(None)
        await self._stream.forget(self)

    def end(self, error: LedgerGatewayError | None) -> None:
        self._is_over, self._error = True, error
        with contextlib.suppress(asyncio.QueueFull):  # The reader of a full queue comes to its end by itself.
            self._queue.put_nowait(None)

    @property
    def params(self) -> list[Any]:
        return self._params

    @abstractmethod
    async def take(self, kind: str, result: Any) -> None:
        """Take the result of a notification. Raises BadAnswer."""

    @abstractmethod
    async def broke(self) -> None:
        """Record that the connection was lost after the subscription was made."""


class NativeSubscription(Subscription[Notification | Gap]):
    """One of the node's own subscriptions."""

    _slot: int | None = None

    async def take(self, kind: str, result: Any) -> None:
        if kind == "gapNotification":
            fields = result if isinstance(result, dict) else {}
            await self._queue.put(Gap(_int(fields.get("from_slot")), _int(fields.get("to_slot")), _said(fields)))
            return
        self._slot = slot_of(result) or self._slot
        await self._queue.put(Notification(result, slot_of(result)))
        if self.method == "signatureSubscribe" and _value(result) != "receivedSignature":
            self._stream.drop(self)  # The gateway has ended it with this notification.
            self.end(None)

    async def broke(self) -> None:
        await self._queue.put(Gap(self._slot, None, LOST))


class SignalSubscription(Subscription[Signal | SignalGap]):
    """subscribeSignal, gone on with after a break behind the last signal; duplicates are left out."""

    def __init__(self, stream: Owner, filters: dict[str, Any], since: str | None) -> None:
        super().__init__(stream, "subscribeSignal", [])
        self._filters, self._begun = filters, since is not None
        self.continuity = Continuity(since)

    @property
    def params(self) -> list[Any]:
        since = self.continuity.cursor if self._begun else None
        self._begun = True
        return [self._filters if since is None else {**self._filters, "since": since}]

    async def take(self, kind: str, result: Any) -> None:
        fields = result if isinstance(result, dict) else {}
        gap = fields.get("gap")
        try:
            event: Signal | SignalGap = (
                msgspec.convert(result, Signal) if gap is None else msgspec.convert(gap, SignalGap)
            )
        except (msgspec.ValidationError, OverflowError) as error:
            raise BadAnswer(f"a signal is not as documented: {plain(str(error))[:200]}", 200) from None
        if self.continuity.take(event):
            await self._queue.put(event)

    async def broke(self) -> None:
        if self.continuity.cursor is None:
            await self._queue.put(SignalGap(f"{LOST} before the first signal"))


def slot_of(result: Any) -> int | None:
    """Return the slot that a notification names, in any of the node's forms."""
    if isinstance(result, dict):
        context = result.get("context")
        return _int(context.get("slot") if isinstance(context, dict) else result.get("slot"))
    return _int(result)


def _value(result: Any) -> Any:
    return result.get("value") if isinstance(result, dict) else None


def _int(value: Any) -> int | None:
    return value if type(value) is int else None


def _said(fields: dict[str, Any]) -> str:
    reason = fields.get("reason")
    return plain(reason) if isinstance(reason, str) else "events were lost"
