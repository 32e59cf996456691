"""A chain, legs, a ledger and a store for the racer, on one clock and from one seed, with losses and crashes.

A process that has crashed does nothing more: every call that it still makes raises, before it has any effect.
"""

import asyncio
import contextlib
import random
from dataclasses import dataclass, field
from typing import Any

from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from actors.accounts.api import OwnerUnavailable
from actors.calls import SettleReply, SettleRequest
from actors.clock import ManualClock
from actors.methods.signed_transactions import SignedTransaction, signed_transaction
from actors.sends.actor import POLL_SECONDS, SendRacer
from actors.sends.api import RaceRefused, RaceResult, SliceMoved, WantedRace
from actors.sends.core import Present, Proof, Race
from actors.sends.legs import LEG_NAMES, Submission
from actors.sends.recovery import RaceRecovery
from actors.sends.store import RacesUnavailable
from actors.upstream.signature_status import SignatureStatus
from tests.sends.memory_store import MemoryRaceStore

SLOT_SECONDS = 0.4
CONFIRMED_SLOTS, FINAL_SLOTS, VALID_BLOCKS = 2, 32, 150
HOLD_SECONDS = 60
LANDING, BASE = 50, 2
OPEN_MAX = 40
TURNS = 40  # Of the event loop: more than any chain of awaits in the racer between two looks.
_PAYER = Keypair.from_seed(bytes(range(32)))


class Crash(BaseException):
    """The process was killed here. No `except Exception` may outlive that."""


@dataclass
class Process:
    """A racer's process. crash_at: number of the step at which it is killed; 0: never."""

    crash_at: int = 0
    steps: int = 0
    dead: bool = False
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)  # Cleared: it was stopped, and calls nobody.

    def __post_init__(self) -> None:
        self.goes_on.set()

    async def pause(self) -> None:
        await self.goes_on.wait()

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.crash_at:
            self.dead = True
        if self.dead:
            raise Crash


@dataclass
class Sent:
    """A transaction as the chain knows it. fails: it lands with an error. dead: no leader takes it, ever."""

    transaction: SignedTransaction
    last_valid: int
    fails: bool = False
    dead: bool = False
    slot: int | None = None


@dataclass
class Ledger:
    """Holds and posts of all accounts, by the rules of accounts/core.py."""

    clock: ManualClock
    holds: dict[bytes, float] = field(default_factory=dict)  # Operation to the end of its hold.
    posted: dict[bytes, int] = field(default_factory=dict)
    released: set[bytes] = field(default_factory=set)
    poor: bool = False  # What was not held cannot be paid.
    shown: dict[bytes, tuple[int, int, int] | None] = field(default_factory=dict)  # By operation, as it was settled.

    def hold(self, operation: bytes) -> None:
        self.holds[operation] = self.clock.monotonic() + HOLD_SECONDS

    def settle(self, request: SettleRequest) -> SettleReply:
        operation = request.operation
        self.shown[operation] = request.shown
        if operation in self.posted:
            assert self.posted[operation] == request.charged, "asked again with another charge"
            return SettleReply(True, 0)
        if request.charged == 0:
            self.released.add(operation)
            return SettleReply(True, 0)
        assert operation not in self.released, "charged after it was released"
        if self.holds.get(operation, 0.0) <= self.clock.monotonic() and self.poor:
            return SettleReply(False, 0)
        self.posted[operation] = request.charged
        return SettleReply(True, 0)


class World:
    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.clock = ManualClock()
        self.started = self.clock.monotonic()
        self.store, self.ledger = MemoryRaceStore(), Ledger(self.clock)
        self.sent: dict[bytes, Sent] = {}
        self.arrivals: list[tuple[str, bytes, int]] = []
        self.drop_share = self.away_share = self.late_share = 0.0
        self.node_away = self.store_away = self.owner_away = self.refusing = False
        self._operations = 0
        self.start()

    @property
    def slot(self) -> int:
        return 1_000 + int((self.clock.monotonic() - self.started) / SLOT_SECONDS)

    def start(self, crash_at: int = 0) -> None:
        """A new process over what survived."""
        self.process = process = Process(crash_at)
        chain: Any = WorldChain(self, process)
        store: Any = WorldStore(self, process, self.store)
        legs: Any = [WorldLeg(self, process, name) for name in LEG_NAMES]
        accounts = WorldAccounts(self, process)
        self.racer = SendRacer(chain, legs, store, accounts, self.clock, self.store.held, open_max=OPEN_MAX)
        self.recovery = RaceRecovery(self.racer, chain, store, self.clock)

    def make(self, **fate: bool) -> Sent:
        pay = transfer(TransferParams(from_pubkey=_PAYER.pubkey(), to_pubkey=Pubkey.new_unique(), lamports=5))
        message = MessageV0.try_compile(_PAYER.pubkey(), [pay], [], Hash.default())
        transaction = signed_transaction(bytes(VersionedTransaction(message, [_PAYER])))
        sent = Sent(transaction, self.slot + VALID_BLOCKS, **fate)
        self.sent[transaction.signature] = sent
        return sent

    def wanted(self, sent: Sent, account: int = 1) -> WantedRace:
        """As the door asks, with a hold."""
        self._operations += 1
        operation = self._operations.to_bytes(16, "big")
        self.ledger.hold(operation)
        pubkey = bytes([account]) * 32
        return WantedRace(sent.transaction.raw, operation, pubkey, 1, "sendAndConfirm", LANDING, BASE)

    def kept(self, sent: Sent) -> Race:
        """The stored race."""
        return self.store.races[sent.transaction.signature]

    async def call(self, sent: Sent, account: int = 1) -> "asyncio.Task[RaceResult | RaceRefused | SliceMoved]":
        task = asyncio.create_task(self.racer.race(self.wanted(sent, account)))
        await turns()
        return task

    async def pass_time(self, seconds: float, recover: bool = True) -> None:
        """As the racer's own loops: a look at the chain every 150 ms, a round of recovery every second."""
        until, recovered = self.clock.monotonic() + seconds, self.clock.monotonic()
        while self.clock.monotonic() < until:
            self.clock.advance(POLL_SECONDS if self.racer.under_way else 1.0)
            if self.racer.under_way:
                await self._unless_dead(self.racer.look())
                await turns()
            if recover and self.clock.monotonic() - recovered >= 1:
                recovered = self.clock.monotonic()
                await self._unless_dead(self.recovery.carry_on())
                await turns()

    async def take_over(self) -> None:
        await self._unless_dead(self.recovery.take_over())
        await turns()

    async def _unless_dead(self, work: Any) -> None:
        with contextlib.suppress(Crash, RacesUnavailable):
            await work

    def arrive(self, leg: str, transaction: SignedTransaction) -> None:
        self.arrivals.append((leg, transaction.signature, self.slot))
        sent = self.sent[transaction.signature]
        is_late = self.random.random() < self.late_share
        lands = self.slot + (self.random.randrange(10, VALID_BLOCKS) if is_late else 1)
        can_land = not sent.dead and lands <= sent.last_valid
        if can_land and self.random.random() >= self.drop_share:
            sent.slot = lands if sent.slot is None else min(sent.slot, lands)

    def seen(self, signature: bytes) -> SignatureStatus | None:
        sent = self.sent.get(signature)
        if sent is None or sent.slot is None or sent.slot > self.slot:
            return None
        age = self.slot - sent.slot
        return SignatureStatus(
            sent.slot,
            '"Custom"' if sent.fails else None,
            age >= CONFIRMED_SLOTS,
            age >= FINAL_SLOTS,
            None if age >= FINAL_SLOTS else age,
        )


class WorldChain:
    nodes = 1

    def __init__(self, world: World, process: Process) -> None:
        self._world, self._process = world, process

    async def slot(self) -> int | None:
        return self._world.slot if self._is_here() else None

    async def present(self, blockhash: bytes) -> Present | None:
        del blockhash
        return Present(self._world.slot, self._world.slot, True) if self._is_here() else None

    async def statuses(self, signatures: list[bytes], history: bool = False) -> list[SignatureStatus | None] | None:
        await asyncio.sleep(0)
        return [self._world.seen(signature) for signature in signatures] if self._is_here() else None

    async def status(self, signature: bytes, history: bool = False) -> SignatureStatus | None:
        found = await self.statuses([signature], history)
        return found[0] if found else None

    async def search(self, signature: bytes, nonce_account: str | None) -> tuple[SignatureStatus | None, list[Proof]]:
        del nonce_account
        if not self._is_here():
            return None, []
        height = self._world.slot - FINAL_SLOTS
        await asyncio.sleep(0)
        seen = self._world.seen(signature)
        return seen, [] if seen is not None else [Proof(height, 0)]

    def _is_here(self) -> bool:
        self._process.step()
        world = self._world
        return not world.node_away and world.random.random() >= world.away_share


class WorldLeg:
    def __init__(self, world: World, process: Process, name: str) -> None:
        self._world, self._process, self.name = world, process, name

    def takes(self, transaction: SignedTransaction) -> bool:
        del transaction
        return True

    async def send(self, transaction: SignedTransaction) -> Submission:
        await self._process.pause()
        self._process.step()
        at = self._world.clock.now_ms()
        assert transaction.signature in self._world.store.races, "a byte left before the race was stored"
        if self._world.refusing:
            return Submission(at, None, "-32602: no", refused=True)
        self._world.arrive(self.name, transaction)
        await asyncio.sleep(0)
        self._process.step()
        return Submission(at, at)

    async def close(self) -> None:
        pass


class WorldStore:
    """Each call may be killed before or after it took effect. store: as its racer writes it."""

    def __init__(self, world: World, process: Process, store: MemoryRaceStore) -> None:
        self._world, self._process, self._store = world, process, store

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        async def call(*arguments: Any) -> Any:
            await self._process.pause()
            self._process.step()
            if self._world.store_away:
                raise RacesUnavailable("away")
            await asyncio.sleep(0)
            result = await method(*arguments)
            self._process.step()
            return result

        return call


class WorldAccounts:
    def __init__(self, world: World, process: Process) -> None:
        self._world, self._process = world, process

    async def settle(self, request: SettleRequest) -> SettleReply:
        await self._process.pause()
        self._process.step()
        if self._world.owner_away:
            raise OwnerUnavailable("away")
        await asyncio.sleep(0)
        reply = self._world.ledger.settle(request)
        self._process.step()
        return reply

    def delivered(self, pubkey: bytes, operation: bytes) -> None:
        del pubkey
        assert operation in self._world.ledger.posted


async def turns() -> None:
    """Let the loop run until everything that can go on has."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


def audit(world: World) -> None:
    """Written apart from the code: what must hold once everything is settled, whatever happened before."""
    by_race: dict[bytes, list[tuple[bool, int | None, bytes]]] = {}
    for ticket in world.store.tickets.values():
        by_race.setdefault(ticket.signature, []).append((ticket.first, ticket.charged, ticket.operation))
    for signature, tickets in by_race.items():
        truth, race = world.sent[signature], world.store.races[signature]
        assert not race.state.open, "a race stayed open"
        assert all(charged is not None for _, charged, _ in tickets), "a charge stayed pending"
        landed = truth.slot is not None
        assert race.state.name in (("FAILED" if truth.fails else "CONFIRMED",) if landed else ("EXPIRED", "UNPROVEN"))
        landings = [operation for _, charged, operation in tickets if charged == LANDING]
        assert len(landings) <= int(landed and not truth.fails), "charged for a landing that is not on the chain"
        for _, charged, operation in tickets:
            assert charged in (0, BASE, LANDING)
            assert world.ledger.posted.get(operation, 0) == charged, "the ledger has another charge"
        if not any(each == signature for _, each, _ in world.arrivals) and not landed:
            assert all(charged == 0 for _, charged, _ in tickets), "charged, and never broadcast"
    assert set(world.ledger.posted) <= set(world.store.tickets), "charged without a race"


def broadcasts_of(world: World, sent: Sent, leg: str = "local_rpc") -> list[int]:
    """Slots in which a leg got it."""
    return [slot for name, signature, slot in world.arrivals if (name, signature) == (leg, sent.transaction.signature)]
