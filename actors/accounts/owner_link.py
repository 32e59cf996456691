"""A replica's link to one owner, and the charges whose answers have not left yet.

Implements: money rule 2; threats 57 and 66. Part of client.py, which routes, and takes a new replica id when an owner
has given this replica up.

After a reconnect, perhaps to a restarted owner, it reports which charges are undelivered, so that the owner counts all
others as delivered; and it asks for each of these charges again (replicas.py).
"""

import asyncio
import functools
import logging
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from actors import hosting
from actors.accounts.api import CHARGE, DELIVERED, HOLD, LINK_KINDS, SETTLE, UNDELIVERED, VOID
from actors.accounts.gathered_asks import GatheredAsks
from actors.accounts.undelivered import UNDELIVERED_MAX
from actors.background import Background
from actors.calls import REPLICA_ID_BYTES, DeliveredNotice, SettleReply, SettleRequest, UndeliveredNotice
from actors.clock import Clock
from actors.hotlink.frames import MessageKind
from actors.hotlink.replica import Link, LinkGivenUp, LinkTimeout

logger = logging.getLogger(__name__)

_NOTICE_WAIT_MS = 30_000
_NOTICE_SECONDS = 0.005  # Deliveries of this time go in one notice.
# So many go earlier, with the next call, as a write and the waking of the owner are most of a notice's cost. One with
# each call would delay the calls of a lone client: both ends would have a message more to carry before its own.
_NOTICE_OPERATIONS = 4
_ASK_PAUSE_SECONDS = 1.0


class StartsOver(Protocol):
    """The replica's client, as its links call it."""

    replica: bytes

    def start_over(self) -> None:
        """Called when an owner has given this replica up."""
        ...

    def given_up(self, operation: bytes) -> None:
        """Called when an owner has given up the replica of this operation, which may be an earlier id of this
        process."""
        ...


class OwnerLink:
    """Link to one owner. handle: of the owner's actor. settle_wait_ms: how long a settle may take."""

    def __init__(
        self, client: StartsOver, handle: Any, secret: bytes, settle_wait_ms: int, clock: Clock | None = None
    ) -> None:
        self._client, self.handle, self._settle_wait_ms = client, handle, settle_wait_ms
        self.host = ""  # The address of its machine, as it was told last.
        self.link = Link(secret, LINK_KINDS, self._resolve, client.replica, clock)
        self.link.on_given_up = client.start_over
        self.link.on_standing = self.ask_for_undelivered
        self.standings = GatheredAsks(functools.partial(hosting.ask, handle, "ask_many"))
        # By operation; beyond UNDELIVERED_MAX the oldest count as delivered, as at the owner.
        self.undelivered: dict[bytes, SettleRequest] = {}
        # Charges asked for again and not answered yet; True: the answer of the charge has left since.
        self._asked_again: dict[bytes, bool] = {}
        self._delivered: list[bytes] = []
        self._notice: asyncio.TimerHandle | None = None  # Runs while deliveries wait for a notice.
        self._background = Background(logger, "background work for an owner failed")

    def start(self) -> None:
        self.link.start()

    async def stop(self) -> None:
        await self._background.stop()
        await self.link.stop()

    def last_words(self) -> list["asyncio.Future[Any]"]:
        """Report what was delivered and what was not, before the process ends. Each future is done when the owner knows
        it."""
        # An owner answers in order: when it answers a last notice, even an empty one, it has the earlier ones.
        notices = [self._send_notice()] if self._delivered or self.link.unanswered else []
        # Answered when it is durable: then owners that end right after this replica have none of its charges in doubt.
        return [*notices, self._tell_undelivered()] if self.link.connected else notices

    def sent(self, kind: MessageKind, request: Any, wait_ms: int) -> "asyncio.Future[Any]":
        """Send a request; the future gives its reply. Both raise LinkFull, LinkGivenUp or LinkTimeout."""
        if len(self._delivered) >= _NOTICE_OPERATIONS:
            self._send_notice()
        is_ahead = kind is CHARGE
        is_last = is_ahead and request.coming == 0  # Calls that were asked ahead with it are on their way already.
        return self.link.call(kind, request, wait_ms, new_work=kind is HOLD or is_ahead, is_last=is_last)

    def charged(self, request: SettleRequest) -> None:
        """Remember a posted charge until its answer has left."""
        undelivered = self.undelivered
        undelivered[request.operation] = request
        if len(undelivered) > UNDELIVERED_MAX:
            del undelivered[next(iter(undelivered))]

    def delivered(self, operation: bytes) -> None:
        self.undelivered.pop(operation, None)
        if operation in self._asked_again:
            self._asked_again[operation] = True
        self._delivered.append(operation)
        if self._notice is None:
            self._notice = asyncio.get_running_loop().call_later(_NOTICE_SECONDS, self.send_gathered)

    def send_gathered(self) -> None:
        self._notice = None
        if self._delivered:
            self._send_notice()

    def _send_notice(self) -> "asyncio.Future[Any]":
        if self._notice is not None:
            self._notice.cancel()
            self._notice = None
        operations, self._delivered = tuple(self._delivered), []
        noted = self.link.call(DELIVERED, DeliveredNotice(operations), _NOTICE_WAIT_MS)

        def done(future: "asyncio.Future[Any]") -> None:
            if not future.cancelled() and isinstance(future.exception(), LinkGivenUp) and operations:
                self._client.given_up(operations[-1])

        noted.add_done_callback(done)
        return noted

    def ask_for_undelivered(self) -> None:
        """Ask for each undelivered charge, after a reconnect or a move of accounts: a new owner may not know of it."""
        self._tell_undelivered()
        for operation, charge in self.undelivered.items():
            if operation not in self._asked_again:  # Otherwise the link itself resends the question.
                self._asked_again[operation] = False
                self._background.start(self._ask_again(charge))

    def _tell_undelivered(self) -> "asyncio.Future[Any]":
        operations = set(self.undelivered)
        # The owner must not count the answers of these requests as delivered either.
        for kind in (SETTLE, VOID, CHARGE):
            operations |= {request.operation for request in self.link.unanswered_of(kind)}
        replica = self._client.replica
        mine = tuple(operation for operation in operations if operation[:REPLICA_ID_BYTES] == replica)
        told = self.link.call(UNDELIVERED, UndeliveredNotice(replica, mine), _NOTICE_WAIT_MS)
        told.add_done_callback(_retrieve)
        return told

    async def _ask_again(self, charge: SettleRequest) -> None:
        operation, undelivered = charge.operation, self.undelivered
        while operation in undelivered:
            try:
                reply: SettleReply = await self.sent(SETTLE, charge, self._settle_wait_ms)
            except LinkGivenUp:
                self._client.given_up(operation)
                break
            except LinkTimeout:
                await asyncio.sleep(_ASK_PAUSE_SECONDS)
            else:
                if not reply.ok and operation in undelivered:
                    # The charge was refunded: the former owner gave this replica up.
                    self._client.given_up(operation)
                break
        if self._asked_again.pop(operation):
            self.delivered(operation)  # Sent again, because the first notice may have arrived before the question.

    async def _resolve(self) -> tuple[str, int]:
        try:
            host, port = await hosting.ask(self.handle, "address", wait_seconds=5)
        except hosting.ActorUnreachable as error:
            raise OSError(str(error)) from error
        self.host = host
        return host, port


def reaches_others(links: Iterable[OwnerLink], here: str) -> bool:
    """Return whether an owner on another machine than this one is linked; True also where none is known."""
    others = [owner for owner in links if owner.host not in ("", here)]
    return not others or any(owner.link.connected for owner in others)


def _retrieve(told: "asyncio.Future[Any]") -> None:
    """Ignore a broken link, which reports again after its reconnect."""
    if not told.cancelled():
        told.exception()


# Returns the handle of the owner with this index.
FindOwner = Callable[[int], Any]
