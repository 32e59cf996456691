"""One suite for the store in memory and the one in PostgreSQL: causes once, bounded queues, fair claims, rotations."""

import itertools
import json
from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from actors.signals.events import KINDS, SignalEvent
from actors.signals.filters import SignalFilter
from actors.webhooks.core import JobState
from actors.webhooks.payloads import QueuedEvent, signal_event
from actors.webhooks.places import Places
from actors.webhooks.registrations import Change, Webhook, WebhookFilter
from actors.webhooks.slices import SLICES, slice_of
from actors.webhooks.store import Dropped, Job, JobResult, Room, SourceCursor, WebhookStore

from .conftest import JOBS_MAX

NOW = 1_700_000_000_000
ALICE, BOB = b"a" * 32, b"b" * 32
ROOM = Room(jobs=100, failing=9, each=10, at_once=8, share=100)
_numbers = itertools.count()


async def hook(store: WebhookStore, pubkey: bytes = ALICE, filter_type: str = "my_account", **fields: Any) -> str:
    subject = "" if filter_type == "signal" else pubkey.hex()
    wanted = WebhookFilter(filter_type, None, subject, **fields)
    name = f"wh_{next(_numbers)}"
    assert await store.create(Webhook(name, pubkey, "https://e.example/", wanted, "active", None, NOW), b"sealed")
    return name


async def queue(store: WebhookStore, count: int = 1, pubkey: bytes = ALICE, now: int = NOW, **fields: Any) -> int:
    event = QueuedEvent("", "my_account", pubkey.hex(), None, None, now, "{}")._replace(**fields)
    return await store.queue([event._replace(cause=f"c{next(_numbers)}") for _ in range(count)], now)


async def claim(store: WebhookStore, now: int = NOW, name: str = "one", **room: Any) -> list[Job]:
    return await store.claim(name, now, now + 1_000, ROOM._replace(**room))


def result(job: Job, state: JobState, now: int = NOW, **fields: Any) -> JobResult:
    status = 204 if state in (JobState.DELIVERED, JobState.UNPAID) else 500
    made = JobResult(job.id, job.lease, state, now, job.attempts + 1, now, 5, status, "", b"", None)
    return made._replace(**fields)


async def states(store: WebhookStore, name: str) -> list[int]:
    return [job.state for job in await store.log(name, None, 500)]


async def test_a_cause_is_queued_once_and_cursors_are_kept(store: WebhookStore) -> None:
    """An event that two sources see, twice in one batch, or again after a restart, is one event. Slots only grow."""
    await hook(store)
    event = QueuedEvent("cause", "my_account", ALICE.hex(), None, None, 1, "{}")
    assert await store.cursor() == SourceCursor(None, None)
    assert await store.queue([event, event], 1, SourceCursor(slot=9)) == 1
    assert await store.queue([event], 2, SourceCursor(slot=7)) == 0
    await store.queue([], 2, SourceCursor(log_cursor="5-1"))
    assert await store.cursor() == SourceCursor(9, "5-1")


async def test_a_full_queue_of_one_webhook_counts_what_is_beyond_and_delays_no_other(store: WebhookStore) -> None:
    """Bounded queues: the bound is exact, also within one batch; what made no job is told to the owner."""
    full = await hook(store)
    assert await queue(store, JOBS_MAX - 3) == JOBS_MAX - 3
    assert await queue(store, 5) == 3
    assert await store.dropped(full) == Dropped(2, NOW)
    other = await hook(store)
    assert await queue(store, 1, now=NOW + 5) == 1
    assert (await store.dropped(full), await store.dropped(other)) == (Dropped(3, NOW + 5), Dropped(0, None))


async def test_webhooks_take_turns_and_a_released_job_keeps_its_place(store: WebhookStore) -> None:
    """Threat 28: a claim takes a share of each, and two dispatchers never the same job."""
    await hook(store)
    await hook(store, BOB)
    await queue(store, 30)
    await queue(store, 2, BOB)
    claimed = await claim(store)
    assert [sum(job.pubkey == each for job in claimed) for each in (ALICE, BOB)] == [10, 2]
    assert await claim(store, name="two") == []
    await store.release([job.id for job in claimed], NOW + 1)
    again = await claim(store, NOW + 1, "two", jobs=5)
    rest = await claim(store, NOW + 1)
    assert len(again) == 5 and not {job.id for job in again} & {job.id for job in rest}
    assert {job.id for job in claimed} <= {job.id for job in [*again, *rest]}, "newer jobs came first"
    assert all(job.lease == 2 for job in again)
    assert await store.recover([slice_of(ALICE)], NOW + 2) == sum(job.pubkey == ALICE for job in [*again, *rest])


class Shared:
    """Four accounts with 8, 3, 1 and 1 webhooks that share 120 places; `open` and `leased` are counted apart."""

    HOOKS = (8, 3, 1, 1)

    def __init__(self, store: WebhookStore) -> None:
        self.store, self.places, self.now = store, Places(120), NOW
        self.accounts = [next(_numbers).to_bytes(32, "big") for _ in self.HOOKS]
        self.open: Counter[str] = Counter()
        self.leased: dict[str, list[Job]] = {}
        self.owner: dict[str, bytes] = {}

    async def begin(self) -> None:
        for account, count in zip(self.accounts, self.HOOKS, strict=True):
            for _ in range(count):
                name = await hook(self.store, account)
                self.owner[name], self.leased[name] = account, []

    async def queue(self, account: bytes, count: int) -> None:
        await queue(self.store, count, account, self.now)
        for name in self.owner:
            if self.owner[name] == account:
                self.open[name] = min(JOBS_MAX, self.open[name] + count)

    async def claim(self) -> None:
        room = self.places.room()
        before = Counter(self.owner[job.webhook_id] for jobs in self.leased.values() for job in jobs)
        jobs = await self.store.claim("one", self.now, self.now + 60_000, room)
        self.places.take(jobs)
        gained = Counter(job.webhook_id for job in jobs)
        for job in jobs:
            self.leased[job.webhook_id].append(job)
        assert self.places.taken == sum(map(len, self.leased.values())) <= 120
        starving = {name for name, jobs in self.leased.items() if len(jobs) < min(8, self.open[name])}
        assert not starving or self.places.taken == 120, "a request waits while a place is free"
        for name in gained:
            account = self.owner[name]
            assert all(before[account] <= max(8, before[self.owner[each]]) for each in starving), "out of turn"
            counted = before[account] if account in room.holders else 0  # Few places count as none.
            assert len(self.leased[name]) <= (32 if counted < min(room.share, room.jobs) else 8), "ahead"

    async def finish(self, account: bytes, count: int) -> None:
        names = [name for name in self.owner if self.owner[name] == account]
        ended = [job for name in names for job in self.leased[name]][:count]
        await self.store.finish([result(job, JobState.DELIVERED, self.now) for job in ended], self.now)
        self.places.free(ended)
        for job in ended:
            self.leased[job.webhook_id].remove(job)
            self.open[job.webhook_id] -= 1

    async def end(self) -> None:
        for name, account in self.owner.items():
            await self.store.delete(account, name, self.now + 1_000_000)


_turns = st.tuples(st.sampled_from(["queue", "queue", "finish"]), st.integers(0, 3), st.integers(1, 40))


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(turns=st.lists(_turns, min_size=2, max_size=14))
@example(turns=[("queue", 0, 40), ("queue", 1, 40), ("queue", 2, 9), ("finish", 0, 1), ("finish", 0, 20)])
@example(
    turns=[
        *(("queue", 0, 9), ("queue", 1, 19), ("queue", 3, 31), ("finish", 1, 6), ("queue", 3, 34), ("queue", 2, 17)),
        *(("queue", 2, 38), ("queue", 2, 19), ("queue", 3, 11), ("finish", 1, 24), ("finish", 3, 40), ("finish", 3, 1)),
    ]
)
async def test_no_request_waits_for_a_free_place_and_the_account_with_the_fewest_goes_first(
    store: WebhookStore, turns: list[tuple[str, int, int]]
) -> None:
    """Rule 7: many slow webhooks of one account cost the others no place that they need, and none is left empty."""
    shared = Shared(store)
    await shared.begin()
    try:
        for act, number, count in turns:
            await (shared.queue if act == "queue" else shared.finish)(shared.accounts[number], count)
            shared.now += 1
            await shared.claim()
    finally:  # Hypothesis looks for a smaller failure in the same store.
        await shared.end()


async def test_lifecycle_events_are_leased_only_when_the_fate_of_earlier_ones_is_kept(store: WebhookStore) -> None:
    """Rule 7: those events have an order. A newer one must not overtake one that is about to be given back."""
    await hook(store, filter_type="lifecycle")
    await queue(store, 2, filter_type="lifecycle", kind="low_balance")
    first, second = await claim(store)
    await queue(store, filter_type="lifecycle", kind="low_balance", now=NOW + 1)
    assert await claim(store, NOW + 2) == []
    await store.release([second.id], NOW + 3)
    assert await claim(store, NOW + 3) == []
    await store.finish([result(first, JobState.DELIVERED)], NOW + 4)
    assert next(job.id for job in await claim(store, NOW + 4)) == second.id


async def test_a_lease_that_ended_goes_to_another_and_its_late_result_is_not_taken(store: WebhookStore) -> None:
    """A dispatcher that was frozen cannot undo what another one did."""
    name = await hook(store)
    await queue(store)
    (frozen,) = await claim(store)
    assert await claim(store, NOW + 999) == []
    (taken,) = await claim(store, NOW + 1_000)
    await store.finish([result(taken, JobState.DELIVERED)], NOW + 1_001)
    await store.finish([result(frozen, JobState.WAITING)], NOW + 1_002)
    assert await states(store, name) == [JobState.DELIVERED]
    found = await store.find(ALICE, name)
    assert found is not None and (found.last_job, found.last_status) == (taken.id, "delivered")


async def test_webhooks_that_fail_leave_places_to_those_that_work(store: WebhookStore) -> None:
    """Threats 27 and 28: one request each, all of them together bounded, after those that work, with a rest."""
    accounts = [bytes([number]) * 32 for number in range(4)]
    names = [await hook(store, each) for each in accounts]
    for each in accounts[:3]:
        await queue(store, 5, each)
    first = await claim(store, each=1)
    await store.finish([result(job, JobState.WAITING) for job in first], NOW)
    await queue(store, 5, accounts[3])
    assert [job.webhook_id for job in await claim(store, NOW + 3_999)] == [names[3]] * 5
    await queue(store, 5, accounts[3])
    claimed = await claim(store, NOW + 4_000, failing=2)
    assert [job.webhook_id for job in claimed[:5]] == [names[3]] * 5
    assert len(claimed) == 7 and len({job.webhook_id for job in claimed[5:]}) == 2
    await store.finish([result(claimed[5], JobState.WAITING, NOW + 4_000)], NOW + 400_000)
    assert claimed[5].webhook_id not in {job.webhook_id for job in await claim(store, NOW + 459_000)}
    assert claimed[5].webhook_id in {job.webhook_id for job in await claim(store, NOW + 460_001)}


async def test_a_webhook_that_hangs_and_is_enabled_again_gets_one_request_until_it_works(store: WebhookStore) -> None:
    """Threat 27: enabling is free. Done again and again it must not take the places of others each time."""
    name = await hook(store)
    await queue(store, 5)
    (first,) = await claim(store, each=1)
    await store.finish([result(first, JobState.WAITING)], NOW)
    await store.change(ALICE, name, Change(enable=True), NOW)
    assert await claim(store, failing=0) == []
    (tried,) = await claim(store)
    assert tried.failing_since_ms is not None, "it takes a place of those that work"
    await store.finish([result(tried, JobState.DELIVERED)], NOW)
    assert len(await claim(store, NOW + 1)) == 4


async def test_a_disabled_webhook_gets_no_jobs_and_an_enabled_one_what_waited(store: WebhookStore) -> None:
    """Threat 27 (410); what waits is kept, and ends after its time."""
    name = await hook(store)
    await queue(store, 2)
    job, _ = await claim(store, each=2)
    await store.finish([result(job, JobState.WAITING, disable="gone")], NOW)
    found = await store.find(ALICE, name)
    assert found is not None and (found.status, found.disabled_reason) == ("disabled", "gone")
    assert await queue(store) == 0 and await claim(store, NOW + 90_000) == []
    changed = await store.change(ALICE, name, Change(enable=True), NOW + 5)
    assert changed is not None and changed.status == "active" and changed.disabled_reason is None
    assert {each.id for each in await claim(store, NOW + 1_001)} >= {job.id}
    await store.change(ALICE, name, Change(enable=False), NOW)
    await store.recover(range(SLICES), NOW)
    assert await store.expire(NOW, NOW) == 0
    assert await store.expire(NOW + 1, NOW) == 2
    assert await store.change(BOB, name, Change(enable=True), NOW) is None


async def test_an_account_that_owes_is_paused_until_it_has_paid(store: WebhookStore) -> None:
    """No credit, no further delivery, but of lifecycle events."""
    name, told = await hook(store), await hook(store, filter_type="lifecycle")
    await queue(store, 2)
    first, second = await claim(store)
    await store.finish([result(first, JobState.UNPAID), result(second, JobState.UNPAID)], NOW)
    await queue(store)
    await queue(store, filter_type="lifecycle", kind="low_balance", is_free=True)
    assert [(job.webhook_id, job.is_free) for job in await claim(store)] == [(told, True)]
    assert (await store.figures()).paused_accounts == 1
    assert await store.debts(NOW, NOW + 10, 9) == [ALICE] and await store.debts(NOW + 9, NOW + 10, 9) == []
    assert await store.unpaid(ALICE, 9) == [(first.id, name), (second.id, name)]
    assert not await store.paid(ALICE, [first.id])
    assert await store.paid(ALICE, [first.id, second.id]) and not await store.paid(ALICE, [])
    assert [job.webhook_id for job in await claim(store)] == [name]


async def test_replays_and_what_is_forgotten(store: WebhookStore) -> None:
    """Ended jobs wait again, within the bound, under their own numbers; what ended long ago goes, what waits stays."""
    name = await hook(store)
    await queue(store, 3)
    jobs = await claim(store)
    await store.finish([result(job, JobState.DELIVERED) for job in jobs], NOW)
    assert await store.replay(name, None, NOW, NOW, NOW + 1, 2) == 2
    assert await store.replay(name, [jobs[2].id, jobs[2].id, 10**9], 0, 0, NOW + 1, 3) == 1
    assert await store.replay(name, [jobs[2].id], 0, 0, NOW + 1, 100) == 0
    again = await claim(store, NOW + 1)
    assert [job.id for job in again] == [job.id for job in jobs] and {job.attempts for job in again} == {0}
    await store.finish([result(job, JobState.FAILED) for job in again[:2]], NOW)
    assert await store.forget(NOW) == 0 and await store.forget(NOW + 1) == 4
    figures = await store.figures()
    assert (figures.waiting, figures.oldest_ms) == (1, NOW)
    later = NOW + 10_000  # The lease has ended.
    assert await store.delete(ALICE, name, later) and not await store.delete(ALICE, name, later)
    assert (await store.figures()).waiting == 0


async def test_every_secret_is_valid_for_its_day_however_often_it_is_rotated(store: WebhookStore) -> None:
    """Interface: a secret signs for 24 h after its rotation. So a rotation waits where too many would sign."""
    name = await hook(store)
    for number in range(3):
        assert await store.rotate(ALICE, name, b"%d" % number, NOW + number, NOW + 100 + number, 3) == 0
    assert await store.rotate(ALICE, name, b"refused", NOW + 99, NOW + 199, 3) == NOW + 100
    kept = await store.secrets(name)
    assert kept is not None and kept.valid(NOW + 99) == [b"2", b"1", b"0", b"sealed"]
    assert kept.valid(NOW + 101) == [b"2", b"1"]
    assert await store.rotate(ALICE, name, b"3", NOW + 101, NOW + 201, 3) == 0
    kept = await store.secrets(name)
    assert kept is not None and kept.valid(NOW + 101) == [b"3", b"2", b"1"]
    assert await store.rotate(BOB, name, b"4", NOW, NOW, 3) is None
    await queue(store)
    (job,) = await claim(store)
    assert job.secrets.valid(NOW + 101) == [b"3", b"2", b"1"]


KEYS = ("k1", "k2", "k3")
_sets = st.none() | st.frozensets(st.sampled_from(KEYS), min_size=1)
_filters = st.builds(
    SignalFilter,
    kinds=st.none() | st.frozensets(st.sampled_from(sorted(KINDS)), min_size=1),
    mint=st.none() | st.sampled_from(KEYS),
    programs=_sets,
    wallets=_sets,
    min_lamports=st.sampled_from([0, 5, 2**64 - 1]),
)
_signals = st.builds(
    SignalEvent,
    kind=st.sampled_from(sorted(KINDS)),
    program=st.sampled_from(KEYS),
    signature=st.just("s"),
    slot=st.just(1),
    mint=st.none() | st.sampled_from(KEYS),
    accounts=st.lists(st.sampled_from(KEYS), max_size=2).map(tuple),
    lamports=st.none() | st.sampled_from([0, 5, 2**64 - 1]),
    wallets=st.lists(st.sampled_from(KEYS), max_size=2).map(tuple),
)


class Logged:
    """An event of the log as its reader gives it."""

    def __init__(self, event: SignalEvent) -> None:
        self.cursor, self.cause, self.is_first = "1-1", f"signal:{next(_numbers)}", True
        self.kind, self.mint, self.program, self.lamports = event.kind, event.mint, event.program, event.lamports
        self.accounts, self.wallets, self.body = event.accounts, event.wallets, json.dumps(event.body()).encode()


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(filters=st.lists(_filters, min_size=1, max_size=6), signals=st.lists(_signals, min_size=1, max_size=6))
async def test_signal_webhooks_match_exactly_what_subscribers_get(
    store: WebhookStore, filters: list[SignalFilter], signals: list[SignalEvent]
) -> None:
    """One rule of filters, whether a signal goes over a socket or to a URL."""
    names = []
    for wanted in filters:
        fields: dict[str, Any] = {
            name: None if each is None else tuple(sorted(each))
            for name, each in (("kinds", wanted.kinds), ("programs", wanted.programs), ("wallets", wanted.wallets))
        }
        fields |= {"mint": wanted.mint, "min_lamports": wanted.min_lamports}
        pubkey = next(_numbers).to_bytes(32, "big")
        names.append((await hook(store, pubkey, "signal", **fields), pubkey))
    await store.queue([signal_event(Logged(each), NOW) for each in signals], NOW)
    for (name, pubkey), wanted in zip(names, filters, strict=True):
        assert len(await store.log(name, None, 99)) == sum(map(wanted.matches, signals)), wanted
        found = await store.change(pubkey, name, Change(enable=False), NOW)
        assert found is not None and found.filter.kinds == (wanted.kinds and tuple(sorted(wanted.kinds)))


async def test_a_gap_is_for_every_signal_webhook_and_a_changed_filter_counts_at_once(store: WebhookStore) -> None:
    """An event without a kind is for all of its type. A wallet is watched for those that name it."""
    narrow = await hook(store, filter_type="signal", kinds=("newPair",), wallets=("w",))
    await hook(store, BOB, "signal")
    gap = QueuedEvent("gap", "signal", "", None, None, NOW, "{}", is_free=True)
    assert await store.queue([gap], NOW) == 2
    swap = QueuedEvent("swap", "signal", "", "largeSwap", ["v"], NOW, "{}", lamports=7)
    assert await store.queue([swap], NOW) == 1
    found = await store.find(ALICE, narrow)
    assert found is not None and await store.named_wallets(0) == {ALICE: {"w"}}
    await store.change(ALICE, narrow, Change(replace(found.filter, kinds=None, wallets=("v",), min_lamports=7)), NOW)
    assert await store.queue([swap._replace(cause="again")], NOW) == 2
    assert BOB not in await store.named_wallets(0)


async def test_what_is_put_off_waits_until_then_or_until_its_webhook_works(store: WebhookStore) -> None:
    await hook(store)
    await queue(store, 3)
    first, *others = await claim(store)
    await store.put_off([job.id for job in others], NOW + 500, NOW)
    assert await claim(store, NOW + 499) == []
    again = await claim(store, NOW + 500)
    assert [job.id for job in again] == [job.id for job in others] and {job.attempts for job in again} == {0}
    await store.put_off([job.id for job in again], NOW + 5_000, NOW + 500)
    await store.finish([result(first, JobState.DELIVERED)], NOW + 501)
    assert len(await claim(store, NOW + 501)) == 2
