from hypothesis import given
from hypothesis import strategies as st
from solders.pubkey import Pubkey

from devnode.pubsub.registry import Registry
from devnode.pubsub.topics import AccountTopic, LogsTopic, RootTopic, Shape, SlotTopic, Topic
from devnode.records.commitment import Commitment

KEYS = [Pubkey.new_unique() for _ in range(2)]
TOPICS: list[Topic] = [
    SlotTopic(),
    RootTopic(),
    *(AccountTopic(key, level, Shape("base64")) for key in KEYS for level in Commitment),
]


class Silent:
    """A subscriber that must get no text and no cut."""

    def offer(self, text: str) -> None:
        raise AssertionError(text)

    def cut(self) -> None:
        raise AssertionError


def test_equal_topics_share_an_id_and_others_do_not() -> None:
    """Equal topics have one id, so that one text serves all; subscribing twice is one subscription."""
    registry, one, other = Registry(), Silent(), Silent()
    identifier = registry.add(SlotTopic(), one)
    assert registry.add(SlotTopic(), other) == registry.add(SlotTopic(), one) == identifier
    assert registry.add(RootTopic(), one) != identifier
    entry = registry.entry(SlotTopic())
    assert entry is not None and entry.subscribers == [one, other]


def test_ids_are_never_used_again() -> None:
    """A client cannot take a late notification of an ended subscription for one of a new subscription."""
    registry, one = Registry(), Silent()
    first = registry.add(SlotTopic(), one)
    registry.remove_all(one)
    assert registry.add(SlotTopic(), one) != first


def test_the_limit_counts_topics_not_subscribers() -> None:
    """The node's cost is one serialization for each topic, for any number of subscribers."""
    registry, one, other = Registry(subscriptions_max=1), Silent(), Silent()
    assert registry.add(SlotTopic(), one) is not None
    assert registry.add(SlotTopic(), other) is not None
    assert registry.add(RootTopic(), one) is None
    registry.remove_all(one)
    registry.remove_all(other)
    assert registry.add(RootTopic(), one) is not None


def test_the_registry_knows_types_and_levels_with_subscribers() -> None:
    """The feed skips work for types and levels without subscribers."""
    registry, one = Registry(), Silent()
    registry.add(LogsTopic(None, Commitment.CONFIRMED), one)
    assert registry.listens(LogsTopic) and registry.listens(SlotTopic, LogsTopic)
    assert registry.listens(LogsTopic, levels=(Commitment.CONFIRMED,))
    assert not registry.listens(LogsTopic, levels=(Commitment.PROCESSED,))
    assert not registry.listens(SlotTopic)
    registry.add(SlotTopic(), one)
    assert registry.listens(SlotTopic)


steps = st.lists(st.tuples(st.sampled_from(["add", "remove", "leave", "finish"]), st.integers(0, 7), st.integers(0, 2)))


@given(steps=steps)
def test_the_registry_agrees_with_a_model(steps: list[tuple[str, int, int]]) -> None:
    """After any steps the registry has exactly the model's topics; after all have left it is empty."""
    registry, clients = Registry(), [Silent(), Silent(), Silent()]
    model: set[tuple[Topic, Silent]] = set()
    for step, which, who in steps:
        topic, client = TOPICS[which], clients[who]
        if step == "add":
            assert registry.add(topic, client) is not None
            model.add((topic, client))
        elif step == "remove":
            entry = registry.entry(topic)
            removed = entry is not None and registry.remove(entry.identifier, client)
            assert removed == ((topic, client) in model)
            model.discard((topic, client))
        elif step == "leave":
            registry.remove_all(client)
            model = {pair for pair in model if pair[1] is not client}
        else:
            registry.finish(topic)
            model = {pair for pair in model if pair[0] != topic}
        for known in TOPICS:
            is_listened_to = any(pair[0] == known for pair in model)
            assert (known in registry.at(known.route)) == is_listened_to
            assert (registry.entry(known) is not None) == is_listened_to
        assert set(registry.subscribers()) == {pair[1] for pair in model}
    for client in clients:
        registry.remove_all(client)
    assert registry.subscribers() == () and not any(registry.at(topic.route) for topic in TOPICS)
    assert not registry.listens(SlotTopic, RootTopic, AccountTopic)
