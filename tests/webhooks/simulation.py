"""Dispatchers among hostile receivers, on virtual time and from one seed; and an auditor that knows the truth.

Every port waits a little before and after its work, and may fail in between. A kill cancels a dispatcher wherever it
waits, and slices of accounts move between dispatchers. The auditor reads what receivers got, what owners charged, and
the log that customers see; of dispatchers it knows nothing.
"""

import asyncio
import hashlib
import hmac
import itertools
import random
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from actors.accounts.api import AccountStanding, OwnerReply, ReadStanding
from actors.accounts.operations import ChargeOperations, HoldOperations
from actors.units import base58_text
from actors.webhooks import api
from actors.webhooks.commands import WebhookCommands
from actors.webhooks.core import ATTEMPTS_MAX, Attempt, JobState, event_id
from actors.webhooks.payloads import QueuedEvent
from actors.webhooks.payments import charge_operation
from actors.webhooks.sealing import SecretSeal
from actors.webhooks.standings import AWAY, Standings
from actors.webhooks.store import WebhooksUnavailable

from .memory_store import MemoryWebhookStore
from .simulated_customers import Customer
from .simulated_dispatchers import Dispatchers
from .virtual_time import LoopClock, VirtualLoop

JOBS_MAX = 60
KEPT_MS = 7 * 86_400_000
_HANG_SECONDS = 15.0
_MODES = ("ok", "ok", "ok", "slow", "fails", "busy", "hangs", "never_answers", "unreachable", "gone")


@dataclass
class Hook:
    """A webhook as the auditor knows it. secrets: from when until when each must sign."""

    id: str
    owner: Customer
    filter_type: str
    mode: str = "ok"
    secrets: dict[str, tuple[float, float]] = field(default_factory=dict)
    expected: set[str] = field(default_factory=set)  # Bodies.
    tried: list[str] = field(default_factory=list)  # Event ids, in order of attempts.
    received: dict[str, str] = field(default_factory=dict)  # Body to event id, answered with 204.
    stopped_at: float | None = None  # When its owner paused or deleted it.
    is_deleted: bool = False


class Simulation:
    def __init__(self, seed: int, loop: VirtualLoop, calm_stores: bool) -> None:
        self.dice, self.loop, self.clock = random.Random(seed), loop, LoopClock(loop)
        self.calm_stores, self.trouble = calm_stores, 0.0
        self.kept, self.seal = MemoryWebhookStore(JOBS_MAX), SecretSeal(b"s" * 32)
        self.customers = {key: Customer(key, 30) for key in (bytes([n]) * 32 for n in range(3))}
        self.hooks: dict[str, Hook] = {}
        self.breaches: set[str] = set()
        self.free: set[str] = set()  # Bodies that cost nothing.
        self.counts: Counter[str] = Counter()
        self._source = asyncio.Lock()  # Events come in the order of their outbox.
        self._numbers = itertools.count()
        self.dispatchers = Dispatchers(self, KEPT_MS)
        self.store = self.fragile(self.kept)  # Of the sources of events, which are outside of this world.
        sender: Any = self
        standing = Standings(self).one
        arguments = self.seal, self.clock, self.dice.randbytes, standing, lambda: None, self.dispatchers.withdraw
        self.commands = WebhookCommands(self.kept, sender, *arguments)

    def fragile(self, store: Any) -> Any:
        return _FragileStore(self, store)

    async def kill(self) -> None:
        """End a process, and start another one; the loss of its machine leaves the first one at work for a while."""
        self.counts["kills"] += 1
        await self.dispatchers.kill(lose_machine=self.dice.random() < 0.3)

    async def moment(self) -> None:
        await asyncio.sleep(self.dice.random() * 0.05)

    async def pass_time(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    # --- receivers

    async def check(self, url: str) -> str | None:
        return None

    async def answer(self, url: str, headers: Mapping[str, str], body: bytes, is_cut_off: bool) -> Attempt:
        at_ms, started = self.clock.now_ms(), self.loop.time()
        await self.moment()
        hook, text = self.hooks[headers["X-Webhook-Id"]], body.decode()
        mode, name = hook.mode, headers["X-Webhook-Event-Id"]
        hook.tried.append(name)
        self._check_request(hook, headers, body, is_cut_off)
        self.counts[mode] += 1
        if mode == "slow":
            await asyncio.sleep(self.dice.uniform(1, 14))
        elif mode == "hangs":
            await asyncio.sleep(_HANG_SECONDS)
            return Attempt(at_ms, int(_HANG_SECONDS * 1_000), None, "no answer within 15 s")
        if mode in ("ok", "slow", "never_answers"):
            self._must(hook.received.setdefault(text, name) == name, "one event has two ids")
        await self.moment()
        latency_ms = int((self.loop.time() - started) * 1_000)
        if mode in ("never_answers", "unreachable"):
            return Attempt(at_ms, latency_ms, None, "the connection failed")
        status = {"fails": 500, "busy": 429, "gone": 410}.get(mode, 204)
        retry_after = str(self.dice.choice([-5, 1, 60, 99_999_999])) if mode == "busy" else None
        return Attempt(at_ms, latency_ms, status, "", retry_after)

    def _check_request(self, hook: Hook, headers: Mapping[str, str], body: bytes, is_cut_off: bool) -> None:
        """Every secret signs for as long as was promised; nothing is sent that nobody waits for. A dispatcher that is
        cut off sends what it had leased: it knows neither of commands nor of what became of its holds."""
        self._must(body.decode() in hook.expected, "nobody waits for this")
        if is_cut_off:
            return
        # A claim of the moment of the stop may still arrive.
        may_begin = hook.owner.may_begin(charge_operation(headers["X-Webhook-Event-Id"]), self.loop.time())
        self._must(may_begin or body.decode() in self.free, "sent without a credit that is held or spent for it")
        is_late = hook.stopped_at is not None and self.loop.time() - hook.stopped_at >= 1
        self._must(not is_late, "sent after its owner had stopped it")
        sent = [headers["X-Webhook-Signature"], *headers.get("X-Webhook-Signature-Previous", "").split(", ")]
        signed = f"{headers['X-Webhook-Event-Id']}.{headers['X-Webhook-Timestamp']}.".encode() + body
        for secret, (since, until) in hook.secrets.items():
            digest = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
            is_signed = f"sha256={digest}" in sent
            self._must(
                is_signed or not since + 1 < self.loop.time() < until - 1, "a secret that is valid does not sign"
            )

    def _must(self, holds: bool, words: str) -> None:
        """Keep a breach for the audit: the dispatcher takes an exception for a failed attempt."""
        if not holds:
            self.breaches.add(words)

    # --- owners of accounts

    async def ask_many(self, commands: Sequence[Any]) -> list[OwnerReply[Any]]:
        away = OwnerReply[Any](None, "SERVICE_TEMPORARILY_UNAVAILABLE")
        await self.moment()
        if self.dice.random() < self.trouble:
            return [away for _ in commands]
        replies = [self._carry_out(command) for command in commands]
        await self.moment()
        return [away if self.dice.random() < self.trouble else reply for reply in replies]

    def _carry_out(self, command: Any) -> OwnerReply[Any]:
        now = self.loop.time()
        if isinstance(command, ReadStanding):
            pubkey = command.proof.pubkey  # type: ignore[union-attr]
            return OwnerReply(AccountStanding(pubkey, self.customers[pubkey].balance, is_active=True))
        customer = self.customers[command.pubkey]
        if isinstance(command, HoldOperations):
            return OwnerReply(customer.hold(command.operations, now))
        assert isinstance(command, ChargeOperations), command
        return OwnerReply(customer.charge(command.operations, command.released, now))

    # --- customers and sources of events

    async def register(self) -> None:
        customer = self.dice.choice(list(self.customers.values()))
        kind = self.dice.choice(["my_account", "lifecycle", "signal"])
        fields = {"url": "https://e.example/", "filter_type": kind}
        more = {"lifecycle_events": ["low_balance"]} if kind == "lifecycle" else {}
        made = await self.commands.ask(api.CreateWebhook(customer.pubkey, fields=fields | more))
        if made == AWAY:
            return
        assert isinstance(made, dict), made
        hook = self.hooks[made["id"]] = Hook(made["id"], customer, kind)
        hook.secrets[made["secret"]] = 0.0, float("inf")

    async def meddle(self) -> None:
        """An owner or a receiver does something."""
        hook = self.dice.choice(list(self.hooks.values()))
        if hook.is_deleted:
            return
        owner, act = (
            hook.owner.pubkey,
            self.dice.choice(["mode", "mode", "mode", "pause", "enable", "rotate", "replay", "pay", "spend"]),
        )
        if act == "mode":
            hook.mode = self.dice.choice(_MODES)
        elif act == "pause":
            await self._change(hook, "disabled")
            if self.dice.random() < 0.3:
                await self.commands.ask(api.DeleteWebhook(owner, hook.id))
                hook.is_deleted = True
        elif act == "enable":
            await self._change(hook, "active")
        elif act == "rotate":
            made = await self.commands.ask(api.RotateSecret(owner, hook.id))
            if isinstance(made, dict):
                newest = max(hook.secrets, key=lambda secret: hook.secrets[secret][1])
                hook.secrets[newest] = hook.secrets[newest][0], self.loop.time() + 86_400
                hook.secrets[made["secret"]] = self.loop.time(), float("inf")
        elif act == "replay":
            span = {"from": 0, "to": self.clock.now()}
            await self.commands.ask(api.ReplayWebhook(owner, hook.id, span))
        elif act == "spend":
            hook.owner.balance -= self.dice.randrange(1 + max(0, hook.owner.available(self.loop.time())))
        else:
            hook.owner.balance += self.dice.randrange(20)

    async def _change(self, hook: Hook, status: str) -> None:
        await self.commands.ask(api.ChangeWebhook(hook.owner.pubkey, hook.id, {"status": status}))
        hook.stopped_at = self.loop.time() if status == "disabled" else None

    async def happen(self) -> None:
        """Some events; the source asks again until the store has them."""
        customer, made = self.dice.choice(list(self.customers.values())), []
        kind = self.dice.choice(["my_account", "lifecycle", "lifecycle", "signal"])
        for _ in range(self.dice.choice([1, 1, 2, 5, 20])):
            number = next(self._numbers)
            is_free = kind == "lifecycle" or (kind == "signal" and self.dice.random() < 0.2)
            subject = "" if kind == "signal" else _text(customer.pubkey)
            name = "low_balance" if kind == "lifecycle" else None
            now_ms, text = self.clock.now_ms(), f'{{"number":{number}}}'
            made.append(QueuedEvent(f"c{number}", kind, subject, name, None, now_ms, text, is_free=is_free))
        self.free |= {event.body for event in made if event.is_free}
        async with self._source:
            await self._take(made)

    async def _take(self, made: Sequence[QueuedEvent]) -> None:
        while True:
            try:
                await self.store.queue(made, self.clock.now_ms())
                self.dispatchers.wake()
                return
            except WebhooksUnavailable:
                await self.moment()

    def expect(self, events: Sequence[QueuedEvent]) -> None:
        """Called at the moment at which the store takes the events: who must get them from now on."""
        for event in events:
            if event.cause in {kept.cause for kept in self.kept.events.values()}:
                continue
            for hook in self.hooks.values():
                kept = self.kept.hooks.get(hook.id)
                own = "" if hook.filter_type == "signal" else _text(hook.owner.pubkey)
                is_active = kept is not None and kept.record.status == "active"
                if is_active and (hook.filter_type, own) == (event.filter_type, event.subject):
                    hook.expected.add(event.body)

    # --- the audit

    async def settle(self) -> None:
        """Everything works again, everybody pays, and every webhook is enabled; then time passes."""
        self.trouble = 0.0
        for hook in self.hooks.values():
            hook.mode, hook.owner.balance = "ok", 10**6
            if not hook.is_deleted:
                await self._change(hook, "active")
        await self.pass_time(60_000)

    async def audit(self) -> None:
        """At least once or visibly given up; one id and one charge for each event; nothing free is charged."""
        assert not self.breaches, self.breaches
        for customer in self.customers.values():
            due: set[bytes] = set()
            for hook in (hook for hook in self.hooks.values() if hook.owner is customer):
                delivered = {} if hook.is_deleted else await self._audit_log(hook)
                paid = {charge_operation(name) for text, name in hook.received.items() if text not in self.free}
                due |= {charge_operation(name) for text, name in delivered.items() if text not in self.free}
                if hook.is_deleted:  # Its log is gone; what it received may have been charged.
                    customer.charged -= paid - due
            assert customer.charged == due, "charged is what was delivered, each once"

    async def _audit_log(self, hook: Hook) -> dict[str, str]:
        """Return the bodies that the customer's log shows as delivered, with their event ids."""
        found: dict[str, str] = {}
        given_up = 0
        for job in await self.kept.log(hook.id, None, 10**6):
            text, name = self.kept.events[self.kept.jobs[job.id].event].body, event_id(hook.id, job.id)
            assert job.state in (JobState.DELIVERED, JobState.FAILED, JobState.EXPIRED), "something still waits"
            if job.state == JobState.DELIVERED:
                assert hook.received.get(text) == name, "shown as delivered, and never received"
                found[text] = name
            else:
                assert job.state == JobState.EXPIRED or len(job.tried) >= ATTEMPTS_MAX, "given up too early"
                given_up += 1
                if is_paid := charge_operation(name) in hook.owner.charged:
                    assert is_paid and text in hook.received  # Delivered once, and a replay of it failed.
                    found[text] = name
        dropped = (await self.kept.dropped(hook.id)).events
        shown = {self.kept.events[job.event].body for job in self.kept.jobs.values() if job.hook == hook.id}
        assert len(hook.expected - shown) == dropped, "an event is missing and not counted"
        self.counts.update(delivered=len(found), given_up=given_up, dropped=dropped)
        if self.calm_stores and hook.filter_type == "lifecycle":
            first_tries = list(dict.fromkeys(hook.tried))
            assert first_tries == sorted(first_tries, key=lambda name: int(name.rpartition("_")[2])), "out of order"
        return found


class _FragileStore:
    """The store as the dispatcher and the sources reach it."""

    def __init__(self, world: Simulation, store: Any) -> None:
        self._world, self._store = world, store

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any) -> Any:
            world = self._world
            await world.moment()
            self._fail(0.5)
            if name == "queue":
                world.expect(arguments[0])
            answer = await getattr(self._store, name)(*arguments)
            await world.moment()
            self._fail(0.0 if world.calm_stores else 0.5)
            return answer

        return call

    def _fail(self, share: float) -> None:
        if self._world.dice.random() < self._world.trouble * share:
            raise WebhooksUnavailable("away")


def _text(pubkey: bytes) -> str:
    return base58_text(pubkey)


async def play(seed: int, loop: VirtualLoop, turns: int) -> Counter[str]:
    """Play one world to its end, and audit it."""
    world = Simulation(seed, loop, calm_stores=seed % 2 == 0)
    dice = world.dice
    await world.dispatchers.scale(2)
    for _ in range(4):
        await world.register()
    for _ in range(turns):
        world.trouble = dice.choice([0.0, 0.0, 0.1, 0.5])
        if len(world.hooks) < 12 and dice.random() < 0.1:
            await world.register()
        work: list[Awaitable[None]] = [world.happen() for _ in range(dice.randrange(3))]
        work += [world.meddle() for _ in range(dice.randrange(3))]
        await asyncio.gather(*work)
        await world.pass_time(
            dice.choice([0.0, 0.03, 0.1, 1, 10, 100, 600, 3_000, 30_000 if dice.random() < 0.2 else 5])
        )
        if dice.random() < 0.3:
            await world.kill()
        if dice.random() < 0.2:
            await world.dispatchers.scale(dice.choice([1, 2, 3]))
    await world.settle()
    await world.audit()
    await world.dispatchers.stop()
    return world.counts


def simulate(seed: int, turns: int = 40) -> Counter[str]:
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(play(seed, loop, turns))
    finally:
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
