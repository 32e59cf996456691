"""The client that replicas hold: routes every request to the owner of its account.

Implements: api.AccountsClient over hot links (hold, settle, void, delivered, the time of streams) and ordinary actor
calls (commands).
Not here: any rule about credits; the owner decides.

Charges that are posted and not delivered are kept here too. When a link stands again, perhaps to a restarted owner, the
client says which they are, so that the owner takes all others as delivered, and asks for each of them again
(replicas.py).
"""

import asyncio
import functools
import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from actors import hosting
from actors.accounts.api import (
    DELIVERED,
    HOLD,
    LINK_KINDS,
    SETTLE,
    SHARD_ACTOR_NAME,
    STREAM_TIME,
    UNDELIVERED,
    VOID,
    ByProof,
    Command,
    OwnerReply,
    OwnerUnavailable,
    ReadStanding,
    Value,
    owner_of,
    refused,
)
from actors.accounts.gathered_asks import GatheredAsks
from actors.accounts.host import USES, AccountShardActor
from actors.accounts.key_locations import KeyLocations
from actors.accounts.undelivered import UNDELIVERED_MAX
from actors.background import Background
from actors.calls import (
    REPLICA_ID_BYTES,
    DeliveredNotice,
    HoldReply,
    HoldRequest,
    Outcome,
    ProvenProof,
    SettleReply,
    SettleRequest,
    StreamTime,
    StreamTimeReply,
    UndeliveredNotice,
    WalletProof,
    operation_at,
    owner_of_proof,
)
from actors.clock import Clock, SystemClock
from actors.config import Config
from actors.errors import Err
from actors.hotlink.frames import MessageKind
from actors.hotlink.replica import Link, LinkFull, LinkGivenUp, LinkTimeout
from actors.units import owner_index_of

logger = logging.getLogger(__name__)

_PLACED_AT_ONCE = 8
_VOID_WAIT_MS = 30_000
_CONNECT_STEP_SECONDS, _CONNECT_STEPS_MAX = 0.05, 100
_NOTICE_WAIT_MS = 30_000
_NOTICE_SECONDS = 0.005  # Deliveries of this time go in one notice, or earlier, together with the next call.
_VOID_PAUSE_SECONDS = 1.0
_ASK_PAUSE_SECONDS = 1.0
_NO_REPLY = (LinkFull, LinkGivenUp, LinkTimeout)
_FORGET_TRIES = 3  # A hold that nobody uses expires by itself; a void only ends it earlier.


def place_shards(config: Config) -> list[Any]:
    """Handles of all shard actors, placing those that do not exist yet. Needs a connected Ray."""
    names = _names(config)
    hosting.remove_others(SHARD_ACTOR_NAME.format(index=""), names)
    # Several at once: each call waits for a new process, and accounts without an owner for the last of them.
    place = functools.partial(hosting.place_with_settings, AccountShardActor)
    with ThreadPoolExecutor(_PLACED_AT_ONCE) as threads:
        return list(threads.map(lambda index: place(names[index], config, USES, index), range(len(names))))


def find_shards(config: Config) -> list[Any]:
    """Return references to all shard actors. For other actors: each keeps the settings that it was made with, and must
    not replace the owners that a newer deployment has placed."""
    return [hosting.Reference(name) for name in _names(config)]


def _names(config: Config) -> list[str]:
    return [SHARD_ACTOR_NAME.format(index=index) for index in range(config.accounts.shard_actors)]


class ShardedAccounts:
    """One link and one actor handle per shard actor; stateless otherwise, so any replica can hold one."""

    def __init__(
        self,
        config: Config,
        handles: list[Any],
        replica: bytes,
        *,
        clock: Clock | None = None,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """replica: the eight bytes that this process's operation ids begin with, until it has to start over."""
        self._replica, self._random_bytes = replica, random_bytes
        self._monotonic = (clock or SystemClock()).monotonic
        self.clocks_disagree, self.owners_away = False, tuple[int, ...]()  # As `committing` found them last.
        self.on_start_over: Callable[[bytes], None] | None = None  # Told the replica id that goes on from here.
        assert config.storage.cluster_secret is not None, "the launcher settles the secret of the cluster"
        secret = config.storage.cluster_secret.get_secret_value().encode()
        self._hold_wait_ms = config.gateway.hold_wait_ms
        self._settle_wait_ms = config.gateway.settle_wait_ms
        self._handles = handles
        self._links = [Link(secret, LINK_KINDS, self._resolver(handle), replica, clock) for handle in handles]
        for index, link in enumerate(self._links):
            link.on_given_up = self._start_over
            link.on_standing = functools.partial(self._ask_for_undelivered, index)
        # Of each owner, by operation; beyond UNDELIVERED_MAX the oldest are taken as delivered, as by the owner.
        self._undelivered: list[dict[bytes, SettleRequest]] = [{} for _ in handles]
        self._asked_again: dict[bytes, bool] = {}  # Unanswered; True: the charge's answer has left meanwhile.
        self._delivered: list[list[bytes]] = [[] for _ in handles]
        self._notice_is_due = [False for _ in handles]
        self._background = Background(logger, "background work for an owner failed")
        self._standings = [GatheredAsks(functools.partial(hosting.ask, handle, "ask_many")) for handle in handles]
        self._locations = KeyLocations(len(handles))

    def start(self) -> None:
        for link in self._links:
            link.start()

    async def stop(self) -> None:
        """Send the last notices of delivery, and give voids under way two seconds; remaining holds expire."""
        # An owner answers in order: when a last notice is answered, even an empty one, the earlier ones have arrived.
        owners = enumerate(zip(self._links, self._delivered, strict=True))
        notices = [self._send_notice(index) for index, (link, gathered) in owners if gathered or link.unanswered]
        # Answered when it is durable: owners that end right after this replica have no charge of it in doubt.
        notices += [self._tell_undelivered(index) for index, link in enumerate(self._links) if link.connected]
        await asyncio.wait([*notices, asyncio.create_task(self._background.finish())], timeout=2)
        await self._background.stop()
        for link in self._links:
            await link.stop()

    async def connected(self) -> None:
        """Wait until every link is connected, a few seconds at most: a replica starts without its owners too."""
        for _ in range(_CONNECT_STEPS_MAX):
            if self.reachable:
                return
            await asyncio.sleep(_CONNECT_STEP_SECONDS)

    @property
    def reachable(self) -> bool:
        return all(link.connected for link in self._links)

    async def committing(self) -> bool:
        """Whether at least half of the owners are linked, answer, and committed their last group.

        Afterwards `owners_away` has the numbers of the others. Their accounts alone are refused.
        """
        states = await hosting.ask_each(self._handles, "health", wait_seconds=2)
        self.clocks_disagree = any(state.get("clock_doubt") is not None for state in states if state)
        owners = list(zip(self._links, states, strict=True))
        serve = [bool(link.connected and state and state["committing"]) for link, state in owners]
        self.owners_away = tuple(number for number, serves in enumerate(serve) if not serves)
        return any(serve) and 2 * sum(serve) >= len(serve)

    async def hold(self, request: HoldRequest) -> HoldReply:
        if self._locations:
            request = msgspec.structs.replace(request, proof=self._locations.locate(request.proof))
        owner = owner_of_proof(request.proof, len(self._links))
        try:
            reply: HoldReply = await self._sent(HOLD, owner, request, self._hold_wait_ms)
        except _NO_REPLY as error:
            self._forget(request)
            raise self._unavailable(request.operation, error) from error
        except asyncio.CancelledError:
            self._forget(request)
            raise
        if reply.refusal is not None and self._locations.learn(request.proof, reply.pubkey):
            return await self.hold(request)
        return reply

    async def settle(self, request: SettleRequest) -> SettleReply:
        owner = owner_index_of(request.pubkey, len(self._links))
        try:
            reply: SettleReply = await self._sent(SETTLE, owner, request, self._settle_wait_ms)
        except _NO_REPLY as error:
            raise self._unavailable(request.operation, error) from error
        if reply.ok and request.charged > 0:
            undelivered = self._undelivered[owner]
            undelivered[request.operation] = request
            if len(undelivered) > UNDELIVERED_MAX:
                del undelivered[next(iter(undelivered))]
        return reply

    async def stream_time(self, request: StreamTime) -> StreamTimeReply:
        owner = owner_index_of(request.pubkey, len(self._links))
        try:
            reply: StreamTimeReply = await self._sent(STREAM_TIME, owner, request, self._settle_wait_ms)
        except _NO_REPLY as error:
            raise self._unavailable(request.operation, error) from error
        return reply

    def void(self, request: SettleRequest) -> None:
        self._undelivered[owner_index_of(request.pubkey, len(self._links))].pop(request.operation, None)
        self._void_in_background(request, None)

    def _void_in_background(self, request: SettleRequest, tries: int | None) -> None:
        self._background.start(self._void(request, tries))

    def may_leave(self, charge: SettleRequest) -> bool:
        # On the way of every answer: one comparison of bytes and one of times.
        link = self._links[owner_index_of(charge.pubkey, len(self._links))]
        return link.heard_until > self._monotonic() and charge.operation[:REPLICA_ID_BYTES] == self._replica

    async def confirm(self, charge: SettleRequest) -> bool:
        if charge.operation[:REPLICA_ID_BYTES] != self._replica:
            return False
        try:
            settled = await self.settle(charge)
        except OwnerUnavailable:
            return False
        return settled.ok and self.may_leave(charge)

    def delivered(self, pubkey: bytes, operation: bytes) -> None:
        index = owner_index_of(pubkey, len(self._links))
        self._undelivered[index].pop(operation, None)
        if operation in self._asked_again:
            self._asked_again[operation] = True
        gathered = self._delivered[index]
        gathered.append(operation)
        if not self._notice_is_due[index]:
            self._notice_is_due[index] = True
            asyncio.get_running_loop().call_later(_NOTICE_SECONDS, self._send_gathered, index)

    def _send_gathered(self, index: int) -> None:
        self._notice_is_due[index] = False
        if self._delivered[index]:
            self._send_notice(index)

    def _send_notice(self, index: int) -> "asyncio.Future[Any]":
        operations, self._delivered[index] = tuple(self._delivered[index]), []
        noted = self._links[index].call(DELIVERED, DeliveredNotice(operations), _NOTICE_WAIT_MS)

        def done(future: "asyncio.Future[Any]") -> None:
            if not future.cancelled() and isinstance(future.exception(), LinkGivenUp) and operations:
                self._refused(operations[-1])

        noted.add_done_callback(done)
        return noted

    def _ask_for_undelivered(self, index: int) -> None:
        """The link to this owner stands again. Ask for each undelivered charge: a new owner may not know of it."""
        self._tell_undelivered(index)
        for operation, charge in self._undelivered[index].items():
            if operation not in self._asked_again:  # Otherwise the link itself sends it again.
                self._asked_again[operation] = False
                self._background.start(self._ask_again(index, charge))

    def _tell_undelivered(self, index: int) -> "asyncio.Future[Any]":
        link, operations = self._links[index], set(self._undelivered[index])
        for kind in (SETTLE, VOID):  # Of these, too, the owner must not believe that their answers have left.
            operations |= {request.operation for request in link.unanswered_of(kind)}
        mine = tuple(operation for operation in operations if operation[:REPLICA_ID_BYTES] == self._replica)
        told = link.call(UNDELIVERED, UndeliveredNotice(self._replica, mine), _NOTICE_WAIT_MS)
        told.add_done_callback(_retrieve)
        return told

    async def _ask_again(self, index: int, charge: SettleRequest) -> None:
        operation, undelivered = charge.operation, self._undelivered[index]
        while operation in undelivered:
            try:
                reply: SettleReply = await self._sent(SETTLE, index, charge, self._settle_wait_ms)
            except LinkGivenUp:
                self._refused(operation)
                break
            except LinkTimeout:
                await asyncio.sleep(_ASK_PAUSE_SECONDS)
            else:
                if not reply.ok and operation in undelivered:
                    self._refused(operation)  # The charge was refunded: the former owner had given this replica up.
                break
        if self._asked_again.pop(operation):
            self.delivered(charge.pubkey, operation)  # Again: the first notice may have overtaken the question.

    def _refused(self, operation: bytes) -> None:
        """An owner has given up the replica of this operation. It may be an earlier one of this process."""
        if operation[:REPLICA_ID_BYTES] == self._replica:
            self._start_over()

    def _start_over(self) -> None:
        """An owner has given this replica up: go on under a fresh id, at all owners."""
        self._replica = self._random_bytes(REPLICA_ID_BYTES)
        for undelivered in self._undelivered:
            undelivered.clear()  # None of these answers leaves any more; each charge is voided.
        logger.error(
            "an owner has given this replica up, because it was out of touch for too long; its unfinished calls cost "
            "nothing and are answered with 503, and it starts over as replica %s",
            self._replica.hex(),
        )
        if self.on_start_over is not None:
            self.on_start_over(self._replica)
        for link in self._links:
            link.start_over(self._replica)

    async def ask(self, command: Command[Value]) -> OwnerReply[Value]:
        if self._locations and isinstance(command, ByProof):
            command = msgspec.structs.replace(command, proof=self._locations.locate(command.proof))
        owner, is_often = owner_of(command, len(self._handles)), isinstance(command, ReadStanding)  # Of each handshake.
        try:
            asking = (
                self._standings[owner].ask(command) if is_often else hosting.ask(self._handles[owner], "ask", command)
            )
            reply: OwnerReply[Value] = await asking
        except hosting.ActorUnreachable as error:
            raise OwnerUnavailable(f"{type(command).__name__}: {error}") from error
        if reply.elsewhere and isinstance(command, ByProof) and self._locations.learn(command.proof, reply.elsewhere):
            return await self.ask(command)
        return reply

    async def ask_many(self, commands: Sequence[Command[Value]]) -> list[OwnerReply[Value]]:
        by_owner: dict[int, list[int]] = {}
        for number, command in enumerate(commands):
            by_owner.setdefault(owner_of(command, len(self._handles)), []).append(number)
        replies: list[OwnerReply[Value]] = [OwnerReply()] * len(commands)

        async def ask(owner: int, numbers: list[int]) -> None:
            mine = [commands[number] for number in numbers]
            try:
                received = await hosting.ask(self._handles[owner], "ask_many", mine)
            except hosting.ActorUnreachable as error:
                received = [refused(Err.SERVICE_TEMPORARILY_UNAVAILABLE, str(error))] * len(mine)
            for number, reply in zip(numbers, received, strict=True):
                replies[number] = reply

        await asyncio.gather(*(ask(owner, numbers) for owner, numbers in by_owner.items()))
        return replies

    def _sent(self, kind: MessageKind, owner: int, request: Any, wait_ms: int) -> "asyncio.Future[Any]":
        """Send a request; the future gives its reply. Both raise one of _NO_REPLY."""
        if self._delivered[owner]:
            self._send_notice(owner)  # In the same write as the call: the write is most of a notice's cost.
        return self._links[owner].call(kind, request, wait_ms, new_work=kind is HOLD)

    def _unavailable(self, operation: bytes, error: Exception) -> OwnerUnavailable:
        if isinstance(error, LinkGivenUp):
            self._refused(operation)
        return OwnerUnavailable(str(error) or "too many calls wait for this owner")

    def _forget(self, request: HoldRequest) -> None:
        """Void holds that nobody will use, so that the customer has the credits before the holds expire.

        Only a wallet's proof names its account. The account of a key or a session is not known here, so its holds are
        left to their expiry.
        """
        if isinstance(request.proof, WalletProof | ProvenProof):
            for index, item in enumerate(request.items):
                operation = operation_at(request.operation, index)
                released = int(Outcome.RELEASED)
                void = SettleRequest(operation, request.proof.pubkey, 0, item.method, item.ceiling, 0, released, 0)
                self._void_in_background(void, _FORGET_TRIES)

    async def _void(self, request: SettleRequest, tries: int | None) -> None:
        """tries None: until it succeeds, because a charge for an answer that never left must not stay."""
        while tries is None or tries > 0:
            try:
                owner = owner_index_of(request.pubkey, len(self._links))
                await self._sent(VOID, owner, request, _VOID_WAIT_MS)
            except _NO_REPLY as error:
                self._unavailable(request.operation, error)
                tries = None if tries is None else tries - 1
                await asyncio.sleep(_VOID_PAUSE_SECONDS)
            else:
                return

    @staticmethod
    def _resolver(handle: Any) -> Any:
        async def resolve() -> tuple[str, int]:
            try:
                host, port = await hosting.ask(handle, "address", wait_seconds=5)
            except hosting.ActorUnreachable as error:
                raise OSError(str(error)) from error
            return host, port

        return resolve


def _retrieve(told: "asyncio.Future[Any]") -> None:
    """A link that breaks tells again once it stands."""
    if not told.cancelled():
        told.exception()
