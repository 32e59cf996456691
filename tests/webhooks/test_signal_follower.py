"""From the log of signals into the queue: over kills, gaps, corrections and stores that are away."""

import json
import random
from collections.abc import Collection
from typing import Any

import pytest

from actors.clock import ManualClock
from actors.signals.api import AWAY, SignalReader
from actors.signals.log import RedisSignalLog, SignalGap, SignalLog, SignalLogUnavailable
from actors.signals.replays import Replays
from actors.storage.connections import connect_redis
from actors.webhooks.registrations import Webhook, WebhookFilter
from actors.webhooks.signal_follower import SignalFollower
from actors.webhooks.store import WebhooksUnavailable
from tests.signals.memory_store import MemorySignalHistory, MemorySignalLog
from tests.signals.test_log import put, signal, take_back, tell_gap

from .memory_store import MemoryWebhookStore

AS_SUBSCRIBERS = ("kind", "program", "signature", "slot", "mint", "accounts", "quote_asset", "curve_type", "complete")


class Killed(BaseException):
    """The dispatcher's process ended here."""


class Fragile:
    """A port that fails or is killed before or after its work, by chance."""

    def __init__(self, inner: Any, dice: random.Random, away: Exception) -> None:
        self._inner, self._dice, self._away = inner, dice, away

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any) -> Any:
            self._fate()
            answer = await getattr(self._inner, name)(*arguments)
            self._fate()
            return answer

        return call

    def _fate(self) -> None:
        chance = self._dice.random()
        if chance < 0.05:
            raise Killed
        if chance < 0.15:
            raise self._away


def reader(log: SignalLog, history: MemorySignalHistory | None = None) -> SignalReader:
    return SignalReader(log, Replays(log, history or MemorySignalHistory()))


async def a_webhook(store: MemoryWebhookStore, **fields: Any) -> None:
    wanted = WebhookFilter("signal", None, "", **fields)
    await store.create(
        Webhook(f"wh_{len(store.hooks)}", b"a" * 32, "https://e.example/", wanted, "active", None, 1), b""
    )


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_is_killed_or_away_each_signal_is_queued_once(seed: int) -> None:
    """Threat 32; rule "at least once": the cursor is kept with the jobs, and a signal is its own cause."""
    dice, log, store = random.Random(seed), MemorySignalLog(), MemoryWebhookStore()
    await a_webhook(store)
    feed: Any = Fragile(reader(log), dice, SignalLogUnavailable("away"))
    fragile: Any = Fragile(store, dice, WebhooksUnavailable("away"))
    await SignalFollower(store, reader(log), ManualClock(), wait_ms=0).follow_once()  # The first start ever.
    follower = SignalFollower(fragile, feed, ManualClock(), wait_ms=0)
    written = calm = 0
    while calm < 60:
        if written < 120:
            count = dice.randrange(4)
            await put(log, [signal(written + n) for n in range(count)], 0)
            written += count
        else:
            calm += 1
        try:
            await follower.follow_once()
        except Killed:
            follower = SignalFollower(fragile, feed, ManualClock(), wait_ms=0)
        except (WebhooksUnavailable, *AWAY):
            pass
    assert [json.loads(event.body)["mint"] for event in store.events.values()] == [f"M{n}" for n in range(written)]
    assert len(store.jobs) == written and not any(event.is_free for event in store.events.values())


async def test_corrections_and_gaps_are_told_free_and_the_body_is_what_subscribers_get(redis_url: str) -> None:
    """README of signals, invariants 3 and 4, over the Redis log: a fork removes a signal, which lands again; slots that
    no node has; days that no store has."""
    client = await connect_redis(redis_url)
    await client.flushall()
    log, history, store = RedisSignalLog(client), MemorySignalHistory(), MemoryWebhookStore()
    await a_webhook(store, kinds=("newPair",))
    follower = SignalFollower(store, reader(log, history), ManualClock(), away=AWAY, wait_ms=1)
    await follower.follow_once()
    await put(log, [signal(1, slot=100)], 0)
    await take_back(log, 100, [signal(1, slot=100)])
    await put(log, [signal(1, slot=101)], 0)
    await tell_gap(log, SignalGap(102, 109, "no node has these slots any more"))
    await follower.follow_once()
    first, removed, restored, gap = sorted(
        store.events.values(), key=lambda event: json.loads(event.body).get("cursor", "9")
    )
    assert [each.is_free for each in (first, removed, restored, gap)] == [False, True, True, True]
    assert set(json.loads(first.body)) == {*AS_SUBSCRIBERS, "cursor"}
    assert [json.loads(each.body)["correction"] for each in (removed, restored)] == ["removed", "restored"]
    assert json.loads(gap.body)["gap"]["from_slot"] == 102
    again = SignalFollower(store, reader(log, history), ManualClock(), wait_ms=1)
    store._cursor = store._cursor._replace(log_cursor="1-1")
    history.kept_from_ms, history.cursor = 1_000, "999-0"
    await again.follow_once()
    assert len(store.events) == 5, "read again, and only the lost part is new"
    lost = json.loads([*store.events.values()][-1].body)["gap"]
    assert (lost["from_cursor"], lost["from_slot"]) == ("1-1", None)
    await client.aclose()


async def test_the_wallets_of_webhooks_are_watched_from_their_creation_on() -> None:
    """Decisions, "watched wallets": as long as a webhook names them; a feed that is away is asked again."""

    class Feed:
        def __init__(self) -> None:
            self.watched: list[frozenset[str]] = []

        async def watch(self, wallets: Collection[str], now: int) -> None:
            self.watched.append(frozenset(wallets))

    store, feed = MemoryWebhookStore(), Feed()
    follower = SignalFollower(store, feed, ManualClock())  # type: ignore[arg-type]
    await follower.watch_once()
    assert feed.watched == []
    await a_webhook(store, wallets=("w", "v"))
    await a_webhook(store, wallets=("w",))
    follower.changed()
    await follower.watch_once()
    assert feed.watched == [{"v", "w"}]
