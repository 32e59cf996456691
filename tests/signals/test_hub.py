"""The hub: exactly the uninterrupted set after any kill, charged once; slow subscribers lose nothing; gaps are told."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.clock import ManualClock
from actors.signals.deliveries import LEASE_MS
from actors.signals.filters import SignalFilter
from actors.signals.hub import ACCOUNT_WALLETS_MAX, SignalHub
from actors.signals.log import NO_CURSOR, SignalGap, cursor_key
from actors.signals.replays import ReplayPage, Replays
from actors.signals.subscription import AHEAD_MAX, REPLAY_MAX
from tests.signals.memory_store import MemoryDeliveries, MemorySignalHistory, MemorySignalLog
from tests.signals.test_log import put, signal, take_back, tell_gap

ACCOUNT, ALL = b"a" * 32, SignalFilter()


class Client:
    """A subscriber that keeps its newest cursor and counts what it pays."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.paid_for: list[str] = []
        self.room = 1 << 30
        self.first = asyncio.Event()

    def deliver(self, body: bytes, charged: bool) -> bool:
        if self.room == 0:
            return False
        self.room -= 1
        self.got.append(json.loads(body))
        if charged:
            self.paid_for.append(self.got[-1]["mint"])
        self.first.set()
        return True

    @property
    def charged(self) -> int:
        return len(self.paid_for)

    @property
    def cursor(self) -> str | None:
        return next((each["cursor"] for each in reversed(self.got) if "cursor" in each), None)


class World:
    """The stores outlive hubs; a hub that is dropped without `stop` was killed."""

    def __init__(self) -> None:
        self.log, self.history, self.deliveries = MemorySignalLog(), MemorySignalHistory(), MemoryDeliveries()
        self.written = 0

    async def hub(self) -> SignalHub:
        hub = SignalHub(self.log, Replays(self.log, self.history), self.deliveries, ManualClock(), sleep=_yield)
        await hub.load()
        return hub

    async def write(self, count: int, **fields: Any) -> None:
        signals = [signal(number, **fields) for number in range(self.written, self.written + count)]
        await put(self.log, signals, 0)
        self.written += count

    async def publish(self, hub: SignalHub) -> None:
        hub.publish(await self.log.read(hub.last, 1_000))
        await hub.deliver()
        await settled()


async def settled() -> None:
    """Let everything happen that waits for nothing outside."""
    for _ in range(200):
        await asyncio.sleep(0)


async def kill(hub: SignalHub) -> None:
    """Nothing of this hub happens any more."""
    await hub._background.stop()
    await settled()


async def _yield(seconds: float) -> None:
    await asyncio.sleep(0)


async def subscribe(hub: SignalHub, client: Client, since: str | None = None, wanted: SignalFilter = ALL) -> Any:
    subscription = await hub.subscribe(ACCOUNT, wanted, client, since)
    hub.begin(subscription)
    await settled()
    return subscription


async def test_a_subscriber_gets_what_comes_after_it_and_pays_for_it() -> None:
    """Interface, "Signal billing": one credit for each event; filters combine with AND."""
    world, client, picky = World(), Client(), Client()
    await world.write(3)
    hub = await world.hub()
    await subscribe(hub, client)
    await subscribe(hub, picky, wanted=SignalFilter(kinds=frozenset(["newPair"]), mint="M4"))
    await world.write(2)
    await world.publish(hub)
    assert [each["mint"] for each in client.got] == ["M3", "M4"] and client.charged == 2
    assert [each["mint"] for each in picky.got] == ["M4"] and picky.charged == 1
    assert all(each["cursor"] for each in client.got)


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["publish", "kill", "close", "slow"])), max_size=25))
def test_kills_lose_nothing_and_bill_nothing_twice(steps: list[tuple[int, str]]) -> None:
    """Whatever dies, a subscriber with its cursor ends with the uninterrupted set, and pays at most once for each."""

    async def run() -> None:
        world, client = World(), Client()
        hub = await world.hub()
        subscription = await subscribe(hub, client, NO_CURSOR)
        for count, step in steps:
            await world.write(count)
            if step == "slow":
                client.room = 1
                await world.publish(hub)
                client.room = 1 << 30
                subscription.resume()
                await settled()
            elif step == "publish":
                await world.publish(hub)
            else:
                if step == "close":
                    hub.unsubscribe(subscription)
                    await settled()
                await kill(hub)
                hub = await world.hub()
                subscription = await subscribe(hub, client, client.cursor or NO_CURSOR)
        await world.publish(hub)
        await settled()
        assert [each["mint"] for each in client.got] == [f"M{number}" for number in range(world.written)]
        assert len(client.paid_for) == len(set(client.paid_for))

    asyncio.run(run())


async def test_what_was_delivered_is_free_the_second_time() -> None:
    """Decisions: a replay is unbilled where already delivered to that account; another account pays."""
    world, first, again, other = World(), Client(), Client(), Client()
    hub = await world.hub()
    mine = await subscribe(hub, first)
    await world.write(4)
    await world.publish(hub)
    hub.unsubscribe(mine)
    await asyncio.sleep(0)
    await world.write(3)
    await world.publish(hub)
    await subscribe(hub, again, NO_CURSOR)
    assert (first.charged, again.charged, len(again.got)) == (4, 3, 7)
    stranger = await hub.subscribe(b"b" * 32, ALL, other, NO_CURSOR)
    hub.begin(stranger)
    await settled()
    assert other.charged == 7


async def test_an_account_that_connects_again_and_again_keeps_few_records() -> None:
    """Also one that never says a cursor: each end leaves a record of up to 200 keys."""
    world = World()
    hub = await world.hub()
    for number in range(500):
        wanted = SignalFilter(programs=frozenset([f"P{number}"]))
        hub.unsubscribe(await subscribe(hub, Client(), wanted=wanted))
        await world.write(1)
        await world.publish(hub)
    assert len(await world.deliveries.delivered(ACCOUNT)) <= 256 + 64


async def test_a_cursor_of_the_future_begins_now_and_is_billed_once() -> None:
    world, first, again = World(), Client(), Client()
    await world.write(1)
    hub = await world.hub()
    mine = await subscribe(hub, first, "999999999999999-0")
    await world.write(3)
    await world.publish(hub)
    hub.unsubscribe(mine)
    await settled()
    await subscribe(hub, again, NO_CURSOR)
    assert (len(first.got), first.charged) == (3, 3)
    assert (len(again.got), again.charged) == (4, 1)


@pytest.mark.parametrize("since", [NO_CURSOR, None])
async def test_a_client_that_reads_nothing_makes_no_replay_free(since: str | None) -> None:
    """Otherwise two subscriptions at once would get all signals for the price of two connections."""
    world, first, second = World(), Client(), Client()
    hub = await world.hub()
    await world.write(900 if since else 0)
    await world.publish(hub)
    first.room = 0
    slow = await hub.subscribe(ACCOUNT, ALL, first, since)
    hub.begin(slow)
    await world.write(0 if since else 900)
    for _ in range(20):
        await world.publish(hub)
        await asyncio.sleep(0)
    assert not slow.is_live
    await subscribe(hub, second, NO_CURSOR)
    assert len(second.got) == 900 and second.charged >= 900 - AHEAD_MAX
    hub.unsubscribe(slow)


async def test_a_slow_subscriber_is_bounded_and_misses_nothing() -> None:
    """Threat 30: memory for each is flat; the rest waits in the log."""
    world, client = World(), Client()
    hub = await world.hub()
    subscription = await subscribe(hub, client)
    for room in (0, 7, 300, 1 << 30):
        client.room = room
        subscription.resume()
        await world.write(500)
        await world.publish(hub)
        for _ in range(20):
            await asyncio.sleep(0)
            assert len(subscription._page) <= REPLAY_MAX
    subscription.resume()
    await settled()
    assert [each["mint"] for each in client.got] == [f"M{number}" for number in range(2_000)]
    assert subscription.is_live and client.charged == 2_000


async def test_what_no_store_has_is_a_gap_notice_and_free() -> None:
    """Decisions, "cursors and gaps"."""
    world, client = World(), Client()
    await tell_gap(world.log, SignalGap(5, 9, "gone"))
    world.history.kept_from_ms = 1_600_000_000_000
    hub = await world.hub()
    await subscribe(hub, client, "1500000000000-0")
    assert [set(each) for each in client.got] == [{"gap"}, {"gap"}]
    assert client.got[0]["gap"]["from_cursor"] == "1500000000000-0"
    assert (client.got[1]["gap"]["from_slot"], client.got[1]["gap"]["to_slot"]) == (5, 9)
    assert client.charged == 0


async def test_corrections_are_told_and_free() -> None:
    """Threat 32: a fork removes an event; the notice names what is removed."""
    world, client = World(), Client()
    hub = await world.hub()
    await subscribe(hub, client)
    await world.write(1, slot=100)
    await take_back(world.log, 100, [signal(0, slot=100)])
    await world.publish(hub)
    assert [each.get("correction") for each in client.got] == [None, "removed"]
    assert client.charged == 1


async def test_while_records_cannot_be_written_events_are_free() -> None:
    """Nothing may be billed that a later replay could bill again."""
    world, client = World(), Client()
    hub = await world.hub()
    subscription = await subscribe(hub, client)
    subscription.cover(NO_CURSOR, is_live=True)
    await world.write(2)
    await world.publish(hub)
    assert len(client.got) == 2 and client.charged == 0


async def test_the_replays_of_one_account_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred that match nothing must not keep a replica busy; another account's has a turn of its own."""
    world = World()
    await world.write(500)
    hub = await world.hub()
    monkeypatch.setattr(hub._ring, "number_after", lambda _: None)  # As if all were older.
    reading: list[str] = []
    at_once = 0

    async def after(cursor: str, count: int) -> Any:
        nonlocal at_once
        reading.append(cursor)
        at_once = max(at_once, len(reading))
        await asyncio.sleep(0)
        reading.remove(cursor)
        return ReplayPage(await world.log.read(cursor, count))

    monkeypatch.setattr(hub._replays, "after", after)
    for account in (ACCOUNT, b"b" * 32):
        for _ in range(20):
            hub.begin(await hub.subscribe(account, SignalFilter(mint="none"), Client(), NO_CURSOR))
    await settled()
    assert at_once == 2
    await kill(hub)


async def test_history_feeds_a_replay_beyond_the_stream() -> None:
    """The stream was trimmed; the cursor is older than all of it."""
    world, client = World(), Client()
    await world.write(10)
    await world.history.add(await world.log.read(NO_CURSOR, 100))
    world.log.entries = world.log.entries[7:]
    hub = await world.hub()
    await subscribe(hub, client, "1600000000000-0")
    assert [each["mint"] for each in client.got] == [f"M{number}" for number in range(10)]


async def test_the_reader_follows_the_log_and_watches_wallets() -> None:
    """One reader for the process; wallets of open subscriptions are told to the classifiers."""
    world, client = World(), Client()
    hub = await world.hub()
    await hub.start()
    await subscribe(hub, client, wanted=SignalFilter(wallets=frozenset(["a"])))
    assert world.log.wallets.keys() == {"a"} == hub.wallets()
    await world.write(1)
    async with asyncio.timeout(5):
        await client.first.wait()
    await hub.stop()
    assert hub.count == 0
    (record,) = world.deliveries.records[ACCOUNT].values()
    assert cursor_key(record.until) == cursor_key(str(client.cursor))


async def test_after_redis_lost_everything_a_cursor_goes_on_and_nothing_is_billed_twice() -> None:
    """Records of deliveries are lost too: what came before is free then; what comes after costs as ever."""
    world, client, live = World(), Client(), Client()
    hub = await world.hub()
    subscription, other = await subscribe(hub, client), await subscribe(hub, live)
    await world.write(6)
    await world.publish(hub)
    cursor = client.got[2]["cursor"]
    await world.history.add(await world.log.read(NO_CURSOR, 100))
    world.log.lose_everything()
    world.deliveries.records.clear()
    hub.unsubscribe(subscription)
    await kill(hub)
    hub = await world.hub()
    again = Client()
    await subscribe(hub, again, cursor)  # Before anybody has restored the log: from the history.
    world.deliveries.began_ms = 1_700_000_000_000 - LEASE_MS
    await world.log.restore({}, await world.history.read(NO_CURSOR, 100))
    later = Client()
    await subscribe(hub, later, cursor)
    await world.write(2)
    await world.publish(hub)
    for each in (again, later):
        assert [got["mint"] for got in each.got] == [f"M{number}" for number in range(3, 8)]
    assert later.paid_for == ["M6", "M7"] and other.position == live.got[-1]["cursor"]


async def test_a_signal_that_a_lost_log_has_again_is_told_once() -> None:
    """Nobody knew its cursor any more but this process."""
    world, client = World(), Client()
    hub = await world.hub()
    await subscribe(hub, client)
    await world.write(2)
    await world.publish(hub)
    world.log.lose_everything()
    world.log.has_begun = True
    await put(world.log, [signal(1), signal(2)], 0)
    await world.publish(hub)
    assert [each["mint"] for each in client.got] == ["M0", "M1", "M2"] and client.charged == 3


async def test_wallets_count_from_the_moment_of_the_call() -> None:
    """A hundred subscribe calls at once must not each find the account's 1,000 wallets unnamed."""
    hub = await World().hub()
    halves = [
        SignalFilter(wallets=frozenset(f"w{half}-{number}" for number in range(ACCOUNT_WALLETS_MAX // 2)))
        for half in range(2)
    ]
    more = SignalFilter(wallets=frozenset(["one more"]))
    under_way = [asyncio.create_task(hub.subscribe(ACCOUNT, half, Client(), balance=100_000)) for half in halves]
    await asyncio.sleep(0)
    assert not hub.may_watch(ACCOUNT, more) and hub.may_watch(b"other", more)
    subscriptions = [await each for each in under_way]
    for subscription in subscriptions:
        hub.begin(subscription)
    assert not hub.may_watch(ACCOUNT, more)
    hub.unsubscribe(subscriptions[0])
    assert hub.may_watch(ACCOUNT, more)
