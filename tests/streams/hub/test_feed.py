"""A replica's side of the hub, over a link that the test plays."""

import asyncio
from typing import Any

import orjson

from actors.hotlink.frames import MessageKind
from actors.hotlink.replica import LinkTimeout
from actors.metering.api import StreamEvent
from actors.streams.api import CHANGE, ENDS, GAP, MORE, CloseTopic, OpenTopic, TopicEvent, TopicEvents, TopicReply
from actors.streams.hub.feed import REOPENINGS_MAX, STEPS_AT_ONCE, FeedSubscription, TopicFeed
from actors.streams.hub.native import TopicKey
from tests.streams.world import ONE

KEY = TopicKey("accountSubscribe", b'["a"]')


class PlayedLink:
    """Opens everything; polls wait for the test."""

    def __init__(self) -> None:
        self.changes: list[OpenTopic | CloseTopic] = []
        self.session = 1
        self.fails = False
        self.polls: asyncio.Queue[tuple[Any, asyncio.Future[Any]]] = asyncio.Queue()

    def call(self, kind: MessageKind, item: Any, wait_ms: int, new_work: bool = False) -> "asyncio.Future[Any]":
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if kind is not CHANGE:
            self.polls.put_nowait((item, future))
        elif self.fails:
            future.set_exception(LinkTimeout())
        else:
            self.changes.append(item)
            future.set_result(TopicReply(self.session))
        return future

    async def answer(self, batch: int, *events: TopicEvent, overran: bool = False, slot: int = 9) -> Any:
        poll, future = await self.polls.get()
        future.set_result(TopicEvents(self.session, batch, slot, slot - 5, events, overran))
        for _ in range(5):
            await asyncio.sleep(0)
        return poll


class Heard(list[dict[str, Any]]):
    def __call__(self, event: StreamEvent) -> None:
        self.append(orjson.loads(event.head + b"7}}") | {"ends": event.ends, "units": event.units})


async def _subscribed() -> tuple[PlayedLink, TopicFeed, Heard]:
    link, heard = PlayedLink(), Heard()
    feed = TopicFeed(link, ONE)
    feed.start()
    assert isinstance(await feed.subscribe(KEY, heard), FeedSubscription)
    return link, feed, heard


async def test_an_event_is_one_notification_for_all() -> None:
    """Pieces are joined; gaps are free; the last event ends the topic here too."""
    link, feed, heard = await _subscribed()
    also = Heard()
    await feed.subscribe(KEY, also)
    assert len(link.changes) == 1
    events = (
        TopicEvent(1, MORE, b'{"a"'),
        TopicEvent(1, 0, b":1}"),
        TopicEvent(1, GAP, b"{}"),
        TopicEvent(1, ENDS, b"2"),
    )
    await link.answer(1, *events)
    assert heard == also and [said["params"]["result"] for said in heard] == [{"a": 1}, {}, 2]
    assert [said["method"] for said in heard] == ["accountNotification", "gapNotification", "accountNotification"]
    assert [said["units"] for said in heard] == [1, 0, 1] and [said["ends"] for said in heard] == [False, False, True]
    assert len(feed) == 0
    await feed.stop()


async def test_another_hub_is_told_everything_again_and_old_events_are_nobodys() -> None:
    """A restart must neither lose a subscription nor mix up two."""
    link, feed, heard = await _subscribed()
    poll = await link.answer(1, TopicEvent(1, 0, b"1"), slot=50)
    assert poll.acked == 0
    link.session = 2
    poll = await link.answer(1, TopicEvent(1, 0, b"2"), slot=60)
    assert (poll.session, poll.acked) == (1, 1)
    assert link.changes[-1] == OpenTopic(ONE, 2, KEY.method, KEY.params, from_slot=45)
    await link.answer(2, TopicEvent(2, 0, b"3"))
    assert [said["params"]["result"] for said in heard] == [1, 3]
    await feed.stop()


async def test_dropped_events_are_told_as_a_gap() -> None:
    """Never a silent gap."""
    link, feed, heard = await _subscribed()
    await link.answer(1, slot=50)
    await link.answer(2, TopicEvent(1, 0, b"1"), overran=True, slot=70)
    gap, event = heard
    assert gap["params"]["result"]["from_slot"] == 45 and gap["params"]["result"]["to_slot"] == 70
    assert event["params"]["result"] == 1
    await feed.stop()


async def test_the_last_subscriber_ends_the_topic_and_a_new_one_gets_a_new_number() -> None:
    """A close that comes late must not end what was opened after it."""
    link, feed, heard = await _subscribed()
    subscription = await feed.subscribe(KEY, Heard())
    assert isinstance(subscription, FeedSubscription)
    subscription.close()
    subscription.close()
    assert len(feed) == 1
    await feed.stop()
    link, feed, _ = await _subscribed()
    only = await feed.subscribe(TopicKey("rootSubscribe", b"[]"), heard)
    assert isinstance(only, FeedSubscription)
    only.close()
    await feed.subscribe(TopicKey("rootSubscribe", b"[]"), heard)
    await asyncio.sleep(0)
    assert [change.handle for change in link.changes] == [1, 2, 3, 2] or [c.handle for c in link.changes] == [
        1,
        2,
        2,
        3,
    ]
    await feed.stop()


async def test_a_hub_that_is_away_refuses_and_leaves_nothing() -> None:
    """An error, not silence."""
    link, feed, _ = await _subscribed()
    link.fails = True
    answer = await feed.subscribe(TopicKey("rootSubscribe", b"[]"), Heard())
    assert isinstance(answer, bytes) and orjson.loads(answer)["code"] == -32003 and len(feed) == 1
    await feed.stop()


class SlowLink(PlayedLink):
    """Opens topics only when the test says so. asked: openings that wait."""

    def __init__(self) -> None:
        super().__init__()
        self.is_slow = False
        self.asked: list[tuple[OpenTopic, asyncio.Future[Any]]] = []

    def call(self, kind: MessageKind, item: Any, wait_ms: int, new_work: bool = False) -> "asyncio.Future[Any]":
        if not self.is_slow or kind is not CHANGE:
            return super().call(kind, item, wait_ms, new_work)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.asked.append((item, future))
        return future

    def open_all(self) -> list[OpenTopic]:
        asked, self.asked = self.asked, []
        for _, future in asked:
            future.set_result(TopicReply(self.session))
        return [item for item, _ in asked]


async def _with_topics(count: int) -> tuple[SlowLink, TopicFeed]:
    link = SlowLink()
    feed = TopicFeed(link, ONE)
    feed.start()
    for number in range(count):
        await feed.subscribe(TopicKey("accountSubscribe", b'["%d"]' % number), Heard())
    await link.answer(1, slot=50)
    link.is_slow = True
    return link, feed


async def test_topics_are_opened_again_a_few_in_each_round_of_the_loop() -> None:
    """After the hub restarts, thousands of topics must not hold a replica's loop, nor the link to the hub."""
    link, feed = await _with_topics(1_000)
    link.session = 2
    await link.answer(1, slot=60)
    opened: list[OpenTopic] = []
    while len(opened) < 1_000:
        assert len(link.asked) <= REOPENINGS_MAX
        opened += link.open_all()
        await asyncio.sleep(0)
    assert len({topic.params for topic in opened}) == len({topic.handle for topic in opened}) == 1_000
    assert {topic.from_slot for topic in opened} == {45}
    await feed.stop()


async def test_a_topic_that_waited_through_two_restarts_is_opened_from_where_it_was() -> None:
    """Else the slots between the restarts would be a silent gap. Nobody opens what nobody wants any more."""
    link, feed = await _with_topics(REOPENINGS_MAX + 2)
    unwanted = await feed.subscribe(TopicKey("accountSubscribe", b'["0"]'), Heard())
    assert isinstance(unwanted, FeedSubscription)
    link.session = 2
    await link.answer(1, slot=60)
    first = link.open_all()[:1]
    await asyncio.sleep(0)
    link.session = 3
    await link.answer(1, slot=70)
    opened: list[OpenTopic] = []
    for _ in range(100):
        opened += link.open_all()
        await asyncio.sleep(0)
    last = {topic.params: topic.from_slot for topic in opened}
    assert len(last) == REOPENINGS_MAX + 2 and last[first[0].params] == 55
    assert last[b'["%d"]' % (REOPENINGS_MAX + 1)] == 45
    await feed.stop()


async def test_a_batch_with_many_events_leaves_the_loop_to_others() -> None:
    link, feed, heard = await _subscribed()
    _, future = await link.polls.get()
    future.set_result(TopicEvents(1, 1, 9, 4, tuple(TopicEvent(1, 0, b"1") for _ in range(1_000)), False))
    most, before = 0, 0
    while len(heard) < 1_000:
        await asyncio.sleep(0)
        most, before = max(most, len(heard) - before), len(heard)
    assert most <= STEPS_AT_ONCE
    await feed.stop()
