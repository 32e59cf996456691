"""Facts about webhooks reach the ledgers of their accounts, whatever fails. Rule: decisions, "One chain of facts"."""

import asyncio
import contextlib
import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from actors.accounts.api import OwnerReply
from actors.accounts.fact_commands import BODIES_MAX, TellFacts
from actors.webhooks.fact_teller import AT_ONCE_MAX, FactTeller
from actors.webhooks.facts_store import PostgresFacts, WaitingFact
from actors.webhooks.registrations import Change, Webhook, WebhookFilter
from actors.webhooks.store import WebhooksUnavailable

from .memory_facts import MemoryFacts, NotingWebhookStore, chosen
from .outside import Receiver
from .test_store import ALICE, BOB, NOW
from .world import WebhookWorld

SEEDS = int(os.environ.get("FACT_SEEDS", "100"))
AWAY = OwnerReply[Any](None, "SERVICE_TEMPORARILY_UNAVAILABLE")


class Owners:
    """Owners of accounts: the bodies that each has in its ledger. away: accounts whose owner refuses: it does not
    answer, or is of release 0.1.0 and cannot read the command."""

    def __init__(self) -> None:
        self.ledgers: dict[bytes, list[Any]] = {ALICE: [], BOB: []}
        self.away: set[bytes] = set()
        self.asked: list[TellFacts] = []

    async def ask_many(self, commands: Sequence[Any]) -> list[OwnerReply[Any]]:
        return [self.carry_out(command) for command in commands]

    def carry_out(self, command: TellFacts) -> OwnerReply[Any]:
        assert command.kind == "webhook" and 1 <= len(command.bodies) <= BODIES_MAX
        self.asked.append(command)
        if command.pubkey in self.away:
            return AWAY
        self.ledgers[command.pubkey] += command.bodies
        return OwnerReply(len(command.bodies))

    def told(self, pubkey: bytes) -> list[int]:
        return [body["number"] for body in self.ledgers[pubkey]]


def teller(store: Any, owners: Any) -> FactTeller:
    return FactTeller(store, owners, lambda _: asyncio.sleep(0))


async def test_each_fact_of_a_customer_is_an_entry_of_its_ledger(world: WebhookWorld, target: Receiver) -> None:
    """Through the real door and the real owner; the customer reads it, and the URL is nowhere in it."""
    customer = await world.gateway.customer(10)
    made = await world.register(customer, target.url, filter_type="lifecycle", lifecycle_events=["low_balance"])
    path, change = f"/webhooks/{made['id']}", {"lifecycle_events": ["api_key.rotated"]}
    assert (await world.request(customer, "PATCH", path, change)).status_code == 200
    assert (await world.request(customer, "POST", f"{path}/rotate-secret")).status_code == 200
    assert (await world.request(customer, "DELETE", path)).status_code == 200
    facts: Any = PostgresFacts(world.pool, world.held)
    numbers = [fact.id for fact in await facts.waiting(0, 9)]
    await teller(facts, world.gateway.accounts).tell_once()
    assert await facts.waiting(0, 9) == [] and len(numbers) == 4
    shown = (await world.request(customer, "GET", "/account/ledger?type=fact")).json()["entries"]
    told = [each for each in reversed(shown) if "wh_" in each["description"]]
    assert [each["amount"] for each in told] == [0] * 4
    for number, part, each in zip(
        numbers, ("low_balance", "api_key.rotated", "rotated_ms", '"deleted":true'), told, strict=True
    ):
        assert part in each["description"] and f'"number":{number}' in each["description"]
    assert target.url not in repr(shown)


async def test_facts_of_an_owner_that_does_not_take_them_stay_and_hold_up_no_others() -> None:
    """As an owner of release 0.1.0. Later facts of its accounts wait with the earlier ones, also in later rounds."""
    kept, owners = NotingWebhookStore(), Owners()
    for number in range(2 * AT_ONCE_MAX):
        kept.note(BOB if number % 4 == 3 else ALICE, {"id": f"wh_{number % 8}"})
    numbers = sorted(kept.facts)
    owners.away = {ALICE}
    telling = teller(MemoryFacts(kept), owners)
    await telling.tell_once()
    owners.away = set()  # It is back in the middle of the facts.
    while len(owners.ledgers[ALICE]) == 0:
        await telling.tell_once()
    while kept.facts:
        await telling.tell_once()
    of_bob = numbers[3::4]
    assert owners.told(BOB) == of_bob
    assert owners.told(ALICE) == [number for number in numbers if number not in of_bob]


async def test_a_message_to_an_owner_has_many_facts() -> None:
    """As few commands as the owner's bound allows."""
    kept, owners = NotingWebhookStore(), Owners()
    for _ in range(BODIES_MAX + 1):
        kept.note(ALICE, {"id": "wh_1"})
    kept.note(BOB, {"id": "wh_2"})
    await teller(MemoryFacts(kept), owners).tell_once()
    assert [(command.pubkey, len(command.bodies)) for command in owners.asked] == [
        *((ALICE, BODIES_MAX), (ALICE, 1)),
        (BOB, 1),
    ]


async def test_a_store_that_is_away_or_a_bug_ends_no_teller(caplog: pytest.LogCaptureFixture) -> None:
    kept, owners = NotingWebhookStore(), Owners()
    kept.note(ALICE, {"id": "wh_1"})

    faults = [WebhooksUnavailable("away"), ValueError("a bug")]

    class Store(MemoryFacts):
        async def waiting(self, after: int, limit: int) -> list[WaitingFact]:
            if faults:
                raise faults.pop()
            return await super().waiting(after, limit)

    running = asyncio.create_task(teller(Store(kept), owners).run())
    while kept.facts:  # noqa: ASYNC110 - nothing waits for a time.
        await asyncio.sleep(0)
    running.cancel()
    assert len(owners.ledgers[ALICE]) == 1 and "a round of facts failed" in caplog.text


class Simulation:
    """Dispatchers are killed, or cut off and go on beside their successors; stores and owners fail before or after
    their work. Customers register, change and delete meanwhile."""

    def __init__(self, seed: int) -> None:
        self.dice, self.trouble = random.Random(seed), 0.3
        self.kept, self.owners = NotingWebhookStore(), Owners()
        self.noted: dict[int, dict[str, Any]] = {}
        self.counts: Counter[str] = Counter()

    async def moment(self) -> None:
        for _ in range(self.dice.randrange(4)):
            await asyncio.sleep(0)

    async def waiting(self, after: int, limit: int) -> list[WaitingFact]:
        await self._may_fail()
        found = await MemoryFacts(self.kept).waiting(after, self.dice.randint(1, limit))
        await self.moment()
        return found

    async def told(self, ids: Sequence[int]) -> None:
        await self._may_fail()
        await MemoryFacts(self.kept).told(ids)
        await self._may_fail()

    async def _may_fail(self) -> None:
        await self.moment()
        if self.dice.random() < self.trouble:
            self.counts["failures"] += 1
            raise WebhooksUnavailable("a failure")

    async def ask_many(self, commands: Sequence[Any]) -> list[OwnerReply[Any]]:
        await self.moment()
        replies = []
        for command in commands:
            is_done = self.dice.random() >= self.trouble
            reply = self.owners.carry_out(command) if is_done else AWAY
            await self.moment()
            replies.append(AWAY if self.dice.random() < self.trouble else reply)
        await self.moment()
        return replies

    async def customers(self) -> None:
        names: list[str] = []
        for number in range(60):
            await self.moment()
            act, name = self.dice.choice(["create", "change", "change", "delete"]), self.dice.choice(names or [""])
            pubkey = ALICE if len(name) % 2 else BOB
            if act == "create" or not names:
                name = "wh_" + "x" * number
                names.append(name)
                wanted = WebhookFilter("signal", None, "", None, None, None, None, number)
                made = Webhook(name, ALICE if len(name) % 2 else BOB, "https://e.example/", wanted, "active", None, NOW)
                assert await self.kept.create(made, b"")
            elif act == "change":
                record = await self.kept.find(pubkey, name)
                if record is not None:
                    await self.kept.change(pubkey, name, Change(replace(record.filter, min_lamports=number)), NOW)
            else:
                await self.kept.delete(pubkey, name, NOW)
            self.noted |= {each.id: each.body for each in self.kept.facts.values()}

    async def run(self) -> None:
        acting, cut_off = asyncio.create_task(self.customers()), []
        running = asyncio.create_task(teller(self, self).run())
        while not acting.done():
            for _ in range(self.dice.randrange(30)):
                await asyncio.sleep(0)
            self.counts["kills"] += 1
            if self.dice.random() < 0.3:
                cut_off.append(running)
            else:
                running.cancel()
            running = asyncio.create_task(teller(self, self).run())
        await acting
        self.trouble = 0.0
        while self.kept.facts:  # noqa: ASYNC110 - nothing waits for a time.
            await asyncio.sleep(0)
        for task in (running, *cut_off):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def check(self) -> None:
        """None is lost but a change that the next one replaced; the newest about each webhook is what it is."""
        told = {body["number"]: body for ledger in self.owners.ledgers.values() for body in ledger}
        for number, body in self.noted.items():
            is_replaced = number not in told and any(
                later > number and each["id"] == body["id"] for later, each in self.noted.items()
            )
            assert is_replaced or told[number] == body | {"number": number}
            if is_replaced:
                assert "deleted" not in body
                first = min(other for other, each in self.noted.items() if each["id"] == body["id"])
                assert number != first, "the registration is no change"
        newest = {body["id"]: body for _, body in sorted(told.items())}
        for hook in self.kept.hooks.values():
            body = newest.pop(hook.record.id)
            assert body == chosen(hook.record) | {"number": body["number"]}
        assert all(body.get("deleted") for body in newest.values())
        entries = sum(map(len, self.owners.ledgers.values()))
        self.counts += Counter(facts=len(told), twice=entries - len(told), deleted=len(newest))


@pytest.mark.threat(56)
def test_whatever_is_killed_no_fact_is_lost_and_the_newest_counts() -> None:
    """The audit compares with the newest fact. A failure names its seed; FACT_SEEDS=5000 is the long run."""
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        simulation = Simulation(seed)
        try:
            asyncio.run(simulation.run())
            simulation.check()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        counts += simulation.counts
    for what in ("kills", "failures", "facts", "twice", "deleted"):
        assert counts[what] > SEEDS, counts
