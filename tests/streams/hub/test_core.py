"""What the hub knows: members of topics, and events that wait for replicas."""

from hypothesis import given
from hypothesis import strategies as st

from actors.streams.api import MORE
from actors.streams.hub.core import PIECE_BYTES, ReplicaQueue, Topics
from actors.streams.hub.native import TopicKey

ONE, TWO = b"replica1", b"replica2"
KEY = TopicKey("slotSubscribe", b"[]")


def test_a_topic_lives_as_long_as_anybody_wants_it() -> None:
    """One subscription at the node, whoever comes and goes."""
    topics = Topics(10)
    topic = topics.join(KEY, ONE, 1)
    assert topic is not None and topics.join(KEY, TWO, 1) is topic and topics.join(KEY, ONE, 1) is topic
    topics.serve(topic, 0, 7)
    assert topics.leave(ONE, 1) is None and topics.leave(ONE, 1) is None
    assert topics.served(0, 7) is topic and topics.handles_of(TWO) == [1]
    assert topics.leave(TWO, 1) is topic and len(topics) == 0
    topics.unserve(topic)
    assert topics.served(0, 7) is None and topics.load[0] == 0


def test_too_many_topics_are_refused_and_old_ones_still_shared() -> None:
    """When full: the nodes are not asked for more."""
    topics = Topics(1)
    assert topics.join(KEY, ONE, 1) is not None
    assert topics.join(TopicKey("rootSubscribe", b"[]"), ONE, 2) is None
    assert topics.join(KEY, ONE, 3) is not None


@given(
    payloads=st.lists(st.integers(0, 3 * PIECE_BYTES), min_size=1, max_size=6),
    lost=st.lists(st.booleans(), min_size=40, max_size=40),
)
def test_every_event_arrives_once_and_in_order_whatever_is_lost(payloads: list[int], lost: list[bool]) -> None:
    """A batch that did not arrive is sent again; long payloads come in pieces of one topic."""
    queue, losses = ReplicaQueue(5, 1 << 30), iter(lost)
    for number, size in enumerate(payloads):
        queue.add(number, 0, bytes([number]) * size)
    got: dict[int, bytes] = {}
    done, acked = [], 0
    while queue.has_more:
        batch = queue.take(9, 3)
        if next(losses, False) or batch.batch == acked:
            continue
        acked = batch.batch
        for event in batch.events:
            got[event.handle] = got.get(event.handle, b"") + event.payload
            assert len(event.payload) <= PIECE_BYTES
            if not event.flags & MORE:
                done.append(event.handle)
        queue.acknowledge(5, acked)
    assert done == list(range(len(payloads)))
    assert [len(got[number]) for number in done] == payloads


def test_a_replica_that_takes_nothing_costs_bounded_memory_and_is_told() -> None:
    """When full: what waits is dropped, and the next batch says so; then events flow again."""
    queue = ReplicaQueue(1, 10_000)
    for _ in range(1_000):
        queue.add(1, 0, bytes(1_000))
    assert queue.take(0, 0).overran
    queue.acknowledge(1, 1)
    queue.add(1, 0, b"x")
    batch = queue.take(0, 0)
    assert not batch.overran and batch.events[-1].payload == b"x"
