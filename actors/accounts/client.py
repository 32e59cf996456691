"""The client that replicas hold: routes every request to the owner of its account.

Implements: api.AccountsClient over hot links (hold, settle, void, delivered, the time of streams) and ordinary actor
calls (commands).
Not here: any rule about credits; the owner decides. State kept for each owner: owner_link.py.

Accounts move from owner to owner while calls run. An owner that does not have a shard answers "ask again"; the client
then reads the table of the owners (also every ROUTES_SECONDS), and sends unanswered requests to the owner that it
names.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence

import msgspec

from actors import hosting
from actors.accounts.api import (
    CHARGE,
    HOLD,
    SETTLE,
    STREAM_TIME,
    VOID,
    ByProof,
    Command,
    OwnerReply,
    OwnerUnavailable,
    ReadStanding,
    Value,
    owner_name,
    refused,
)
from actors.accounts.holders_store import RouteTable
from actors.accounts.key_locations import KeyLocations
from actors.accounts.owner_link import FindOwner, OwnerLink
from actors.accounts.routes import OwnerRoutes, may_be_asked_twice
from actors.background import Background
from actors.calls import (
    REPLICA_ID_BYTES,
    ChargeReply,
    ChargeRequest,
    HoldReply,
    HoldRequest,
    Outcome,
    ProvenProof,
    SettleReply,
    SettleRequest,
    StreamTime,
    StreamTimeReply,
    WalletProof,
    new_replica_id,
    operation_at,
)
from actors.clock import Clock, SystemClock
from actors.config import Config
from actors.errors import Err
from actors.hotlink.replica import LinkFull, LinkGivenUp, LinkTimeout

logger = logging.getLogger(__name__)

# Less than the 10 s that an owner waits for a replica to report undelivered charges of moved shards.
ROUTES_SECONDS = 2.0
_REROUTE_SECONDS = 0.02  # Interval of reading the table while an owner answers "ask again".
_MOVED_SECONDS = 4.0  # How long a command waits until an owner serves its shard.
_ROUTES_WAIT_SECONDS, _VOID_WAIT_MS = 2.0, 30_000
_CONNECT_STEP_SECONDS, _CONNECT_STEPS_MAX, _VOID_PAUSE_SECONDS = 0.05, 100, 1.0
_NO_REPLY = (LinkFull, LinkGivenUp, LinkTimeout)
_FORGET_TRIES = 3  # An unused hold expires by itself; a void only ends it earlier.


def find_owner(index: int) -> hosting.Reference:
    """Return a reference to the owner with this index, which may be placed later."""
    return hosting.Reference(owner_name(index))


class ShardedAccounts:
    """One link and one actor handle per owner; stateless otherwise, so any replica can hold one."""

    def __init__(
        self,
        config: Config,
        replica: bytes,
        find: FindOwner = find_owner,
        *,
        clock: Clock | None = None,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """replica: eight bytes that the operation ids of this process begin with, until start_over."""
        self.replica, self._random_bytes, self._find = replica, random_bytes, find
        self._clock = clock or SystemClock()
        self._monotonic = self._clock.monotonic
        self.clocks_disagree, self.owners_away = False, tuple[int, ...]()  # As the last call of `committing` found.
        self.on_start_over: Callable[[bytes], None] | None = None  # Called with the new replica id after start_over.
        assert config.storage.cluster_secret is not None, "the launcher settles the secret of the cluster"
        self._secret = config.storage.cluster_secret.get_secret_value().encode()
        self._hold_wait_ms = config.gateway.hold_wait_ms
        self._settle_wait_ms = config.gateway.settle_wait_ms
        self._routes = OwnerRoutes(int.from_bytes(replica))
        self._owners: dict[int, OwnerLink] = {}
        self.links = self._owners.values()  # A view: the links of each moment.
        self._background = Background(logger, "the table of the owners cannot be read")
        self._voids = Background(logger, "background work for an owner failed")
        self._reading = Background(logger, "the table of the owners cannot be read")
        self._locations, self._is_started = KeyLocations(), False

    def start(self) -> None:
        """Connect the links. Before it only commands work, by ordinary actor calls."""
        self._is_started = True
        for owner in self._owners.values():
            owner.start()
        self._background.repeat(self._read_routes, ROUTES_SECONDS)

    async def stop(self) -> None:
        """Send the last notices of delivery, and give running voids two seconds; remaining holds expire."""
        notices = [notice for owner in self._owners.values() for notice in owner.last_words()]
        await asyncio.wait([*notices, asyncio.create_task(self._voids.finish())], timeout=2)
        for background in (self._voids, self._background, self._reading):
            await background.stop()
        for owner in self._owners.values():
            await owner.stop()

    async def connected(self) -> None:
        """Wait until the owners are known and every link is connected, a few seconds at most: a replica also starts
        without owners."""
        for _ in range(_CONNECT_STEPS_MAX):
            if self._routes.are_read and self.reachable:
                return
            if not self._routes.are_read:
                self.reroute()
            await asyncio.sleep(_CONNECT_STEP_SECONDS)

    @property
    def reachable(self) -> bool:
        return all(self._owner(index).link.connected for index in self._routes.used)

    async def committing(self) -> bool:
        """Whether at least half of the owners are linked, answer, and committed their last group.

        Sets `owners_away` to the indexes of the others; only their accounts are refused.
        """
        serving = await self._serving()
        first = next((number for number, serves in serving.items() if serves), None)
        if first is not None and not all(serving.values()) and await self._read_table(first):
            # One that gave all its shards away and was ended is missed by nobody.
            kept = serving.keys() & self._routes.used
            serving = {number: serving[number] for number in sorted(kept)} or await self._serving()
        self.owners_away = tuple(number for number, serves in serving.items() if not serves)
        return any(serving.values()) and 2 * sum(serving.values()) >= len(serving)

    async def _serving(self) -> dict[int, bool]:
        """Return which owners are linked, answer, and committed their last group, by index."""
        owners = {number: self._owner(number) for number in sorted(self._routes.used)}
        states = await hosting.ask_each([owner.handle for owner in owners.values()], "health", wait_seconds=2)
        self.clocks_disagree = any(state.get("clock_doubt") is not None for state in states if state)
        commits = [bool(state and state["committing"]) for state in states]
        return {number: owners[number].link.connected and each for number, each in zip(owners, commits, strict=True)}

    # --- calls ----------------------------------------------------------------------------------------------------

    async def hold(self, request: HoldRequest) -> HoldReply:
        if self._locations.are_known:
            request = msgspec.structs.replace(request, proof=self._locations.locate(request.proof))
        try:
            index = self._routes.of_proof(request.proof)
            owner = self._owners.get(index) or self._owner(index)
            reply: HoldReply = await owner.sent(HOLD, request, self._hold_wait_ms)
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
        try:
            reply: SettleReply = await self._of(request.pubkey).sent(SETTLE, request, self._settle_wait_ms)
        except _NO_REPLY as error:
            raise self._unavailable(request.operation, error) from error
        if reply.ok and request.charged > 0:
            self._of(request.pubkey).charged(request)
        return reply

    async def charge(self, request: ChargeRequest) -> ChargeReply:
        if self._locations.are_known:
            located = msgspec.structs.replace(request.hold, proof=self._locations.locate(request.hold.proof))
            request = msgspec.structs.replace(request, hold=located)
        settle = request.settle
        try:
            reply: ChargeReply = await self._of(settle.pubkey).sent(CHARGE, request, self._settle_wait_ms)
        except _NO_REPLY as error:
            raise self._unavailable(settle.operation, error) from error
        if reply.settled is not None and reply.settled.ok and settle.charged > 0:
            self._of(settle.pubkey).charged(settle)
        return reply

    async def stream_time(self, request: StreamTime) -> StreamTimeReply:
        try:
            reply: StreamTimeReply = await self._of(request.pubkey).sent(STREAM_TIME, request, self._settle_wait_ms)
        except _NO_REPLY as error:
            raise self._unavailable(request.operation, error) from error
        return reply

    def void(self, request: SettleRequest) -> None:
        self._of(request.pubkey).undelivered.pop(request.operation, None)
        self._voids.start(self._void(request, None))

    def may_leave(self, charge: SettleRequest) -> bool:
        # On the path of every answer, so kept to one comparison of bytes and one of times.
        link = self._of(charge.pubkey).link
        return link.heard_until > self._monotonic() and charge.operation[:REPLICA_ID_BYTES] == self.replica

    async def confirm(self, charge: SettleRequest) -> bool:
        if charge.operation[:REPLICA_ID_BYTES] != self.replica:
            return False
        try:
            settled = await self.settle(charge)
        except OwnerUnavailable:
            return False
        return settled.ok and self.may_leave(charge)

    def delivered(self, pubkey: bytes, operation: bytes) -> None:
        self._of(pubkey).delivered(operation)

    def given_up(self, operation: bytes) -> None:
        if operation[:REPLICA_ID_BYTES] == self.replica:
            self.start_over()

    def start_over(self) -> None:
        """Continue under a new replica id at all owners."""
        self.replica = new_replica_id(self._random_bytes(REPLICA_ID_BYTES))
        for owner in self._owners.values():
            owner.undelivered.clear()  # None of these answers leaves any more, so each charge is voided.
        logger.error(
            "an owner has given this replica up, because it was out of touch for too long; its unfinished calls cost "
            "nothing and are answered with 503, and it starts over as replica %s",
            self.replica.hex(),
        )
        if self.on_start_over is not None:
            self.on_start_over(self.replica)
        for owner in self._owners.values():
            owner.link.start_over(self.replica)

    # --- commands -------------------------------------------------------------------------------------------------

    async def ask(self, command: Command[Value]) -> OwnerReply[Value]:
        deadline, is_again = self._monotonic() + _MOVED_SECONDS, False
        while True:
            if self._locations.are_known and isinstance(command, ByProof):
                command = msgspec.structs.replace(command, proof=self._locations.locate(command.proof))
            owner = self._owner(self._routes.of_command(command))
            is_often = isinstance(command, ReadStanding)  # Of each handshake.
            asking = owner.standings.ask(command) if is_often else hosting.ask(owner.handle, "ask", command)
            try:
                reply: OwnerReply[Value] = await asking
            except hosting.ActorUnreachable as error:
                self.reroute()
                if isinstance(error, hosting.ActorEnded) and may_be_asked_twice(command) and not is_again:
                    is_again = True  # Another one has its place: a deployment replaced it, or it has moved.
                    continue
                raise OwnerUnavailable(f"{type(command).__name__}: {error}") from error
            is_elsewhere = reply.elsewhere and isinstance(command, ByProof)
            if is_elsewhere and self._locations.learn(command.proof, reply.elsewhere):  # type: ignore[attr-defined]
                continue
            if not reply.moved or self._monotonic() > deadline:
                return reply
            await self._rerouted()

    async def ask_many(self, commands: Sequence[Command[Value]]) -> list[OwnerReply[Value]]:
        replies: list[OwnerReply[Value]] = [OwnerReply()] * len(commands)
        numbers, deadline = list(range(len(commands))), self._monotonic() + _MOVED_SECONDS
        while numbers:
            by_owner: dict[int, list[int]] = {}
            for number in numbers:
                by_owner.setdefault(self._routes.of_command(commands[number]), []).append(number)
            asking = (self._ask_one(owner, [commands[number] for number in mine]) for owner, mine in by_owner.items())
            for mine, received in zip(by_owner.values(), await asyncio.gather(*asking), strict=True):
                for number, reply in zip(mine, received, strict=True):
                    replies[number] = reply
            numbers = [number for number in numbers if replies[number].moved]
            if not numbers or self._monotonic() > deadline:
                break
            await self._rerouted()
        return replies

    async def _ask_one(self, owner: int, commands: list[Command[Value]]) -> list[OwnerReply[Value]]:
        try:
            received: list[OwnerReply[Value]] = await hosting.ask(self._owner(owner).handle, "ask_many", commands)
        except hosting.ActorUnreachable as error:
            self.reroute()
            return [refused(Err.SERVICE_TEMPORARILY_UNAVAILABLE, str(error))] * len(commands)
        return received

    # --- who has which account ------------------------------------------------------------------------------------

    def _of(self, pubkey: bytes) -> OwnerLink:
        index = self._routes.of_account(pubkey)
        return self._owners.get(index) or self._owner(index)  # Several times for each call.

    def _owner(self, index: int) -> OwnerLink:
        owner = self._owners.get(index)
        if owner is None:
            owner = self._owners[index] = OwnerLink(
                self, self._find(index), self._secret, self._settle_wait_ms, self._clock
            )
            owner.link.on_unknown = self.reroute
            if self._is_started:
                owner.start()
        return owner

    def reroute(self) -> None:
        """Read the table of the owners soon, because an owner lacks a shard or does not answer."""
        if not self._reading:
            self._reading.start(self._rerouted())

    async def _rerouted(self) -> None:
        await asyncio.sleep(_REROUTE_SECONDS)
        await self._read_routes()

    async def _read_routes(self) -> None:
        """Ask the owners one after the other until one answers, then resend requests whose shard has moved."""
        for index in sorted({0, 1, *self._routes.used}):
            if await self._read_table(index):
                return

    async def _read_table(self, index: int) -> bool:
        """Ask this owner for the table of the owners. Returns whether it told it."""
        handle = self._owner(index).handle
        try:
            table: RouteTable = await hosting.ask(handle, "routes", wait_seconds=_ROUTES_WAIT_SECONDS)
        except hosting.ActorUnreachable:
            return False
        if table.owners:
            self._take_routes(table)
        return bool(table.owners)

    def _take_routes(self, table: RouteTable) -> None:
        gaining = self._routes.update(*table)
        if not gaining:
            return
        for index in gaining:
            # Its earlier answers say nothing about accounts that it has just taken over; they may have been lost
            # before.
            self._owner(index).link.distrust()
        for index, owner in list(self._owners.items()):
            self._move_what_left(index, owner)
        for index in gaining:
            if (owner := self._owners[index]).link.connected:
                owner.ask_for_undelivered()
        for index in [index for index, owner in self._owners.items() if index not in self._routes.used]:
            if not self._owners[index].link.unanswered:
                self._voids.start(self._owners.pop(index).stop())

    def _move_what_left(self, index: int, owner: OwnerLink) -> None:
        of_request = self._routes.of_request
        for call in owner.link.take_out(lambda request: of_request(request) not in (None, index)):
            target = of_request(call.item)
            assert target is not None, call
            self._owner(target).link.take_in(call)
        for operation, charge in list(owner.undelivered.items()):
            if (target := self._routes.of_account(charge.pubkey)) != index:
                del owner.undelivered[operation]
                self._owner(target).charged(charge)

    # --- what nobody waits for ------------------------------------------------------------------------------------

    def _unavailable(self, operation: bytes, error: Exception) -> OwnerUnavailable:
        if isinstance(error, LinkGivenUp):
            self.given_up(operation)
        return OwnerUnavailable(str(error) or "too many calls wait for this owner")

    def _forget(self, request: HoldRequest) -> None:
        """Void unused holds, so that the customer gets the credits back before the holds expire.

        Only a wallet's proof names its account. The account of a key or a session is not known here, so its holds are
        left to their expiry.
        """
        if isinstance(request.proof, WalletProof | ProvenProof):
            for index, item in enumerate(request.items):
                operation = operation_at(request.operation, index)
                released = int(Outcome.RELEASED)
                void = SettleRequest(operation, request.proof.pubkey, 0, item.method, item.ceiling, 0, released, 0)
                self._voids.start(self._void(void, _FORGET_TRIES))

    async def _void(self, request: SettleRequest, tries: int | None) -> None:
        """Void the operation. tries None: retry until it succeeds, because a charge for an answer that never left must
        not stay."""
        while tries is None or tries > 0:
            try:
                await self._of(request.pubkey).sent(VOID, request, _VOID_WAIT_MS)
            except _NO_REPLY as error:
                self._unavailable(request.operation, error)
                tries = None if tries is None else tries - 1
                await asyncio.sleep(_VOID_PAUSE_SECONDS)
            else:
                return
