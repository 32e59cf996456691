from hypothesis import given
from hypothesis import strategies as st
from solders.pubkey import Pubkey

from actors.devnode.chain.commitment import Commitment
from actors.devnode.pubsub.registry import Registry
from actors.devnode.pubsub.topics import AccountTopic, LogsTopic, RootTopic, Shape, SlotTopic, Topic

KEYS = [Pubkey.new_unique() for _ in range(2)]
TOPICS: list[Topic] = [
    SlotTopic(),
    RootTopic(),
    *(AccountTopic(key, level, Shape("base64")) for key in KEYS for level in Commitment),
]


class Nobody:
    """A subscriber that is only counted."""

    def offer(self, text: str) -> None:
        raise AssertionError(text)

    def cut(self) -> None:
        raise AssertionError


def test_equal_topics_share_an_id_and_others_do_not() -> None:
    """One id, so that one text serves all; asking twice is one subscription."""
    registry, one, other = Registry(), Nobody(), Nobody()
    identifier = registry.add(SlotTopic(), one)
    assert registry.add(SlotTopic(), other) == registry.add(SlotTopic(), one) == identifier
    assert registry.add(RootTopic(), one) != identifier
    entry = registry.entry(SlotTopic())
    assert entry is not None and entry.subscribers == [one, other]


def test_only_the_owner_ends_a_subscription() -> None:
    """An id is no secret, so it must be no key."""
    registry, one, other = Registry(), Nobody(), Nobody()
    identifier = registry.add(SlotTopic(), one)
    assert identifier is not None
    assert not registry.remove(identifier, other)
    assert registry.remove(identifier, one)
    assert not registry.remove(identifier, one)
    assert registry.entry(SlotTopic()) is None


def test_ids_are_never_used_again() -> None:
    """A late notification of an old subscription cannot be taken for one of a new."""
    registry, one = Registry(), Nobody()
    first = registry.add(SlotTopic(), one)
    registry.remove_all(one)
    assert registry.add(SlotTopic(), one) != first


def test_the_limit_counts_topics_not_subscribers() -> None:
    """What costs the node is what it serialises."""
    registry, one, other = Registry(subscriptions_max=1), Nobody(), Nobody()
    assert registry.add(SlotTopic(), one) is not None
    assert registry.add(SlotTopic(), other) is not None
    assert registry.add(RootTopic(), one) is None
    registry.remove_all(one)
    registry.remove_all(other)
    assert registry.add(RootTopic(), one) is not None


def test_a_finished_topic_is_over_for_everybody() -> None:
    """Signatures have one last word; other subscriptions of the same clients go on."""
    registry, one, other = Registry(), Nobody(), Nobody()
    for subscriber in (one, other):
        registry.add(SlotTopic(), subscriber)
        registry.add(RootTopic(), subscriber)
    registry.finish(SlotTopic())
    registry.finish(SlotTopic())
    assert registry.entry(SlotTopic()) is None
    entry = registry.entry(RootTopic())
    assert entry is not None and entry.subscribers == [one, other]


def test_listening_is_asked_by_kind_and_level() -> None:
    """The chain skips work that nobody at that level would hear of."""
    registry, one = Registry(), Nobody()
    registry.add(LogsTopic(None, Commitment.CONFIRMED), one)
    assert registry.listens(LogsTopic) and registry.listens(SlotTopic, LogsTopic)
    assert registry.listens(LogsTopic, levels=(Commitment.CONFIRMED,))
    assert not registry.listens(LogsTopic, levels=(Commitment.PROCESSED,))
    assert not registry.listens(SlotTopic)
    registry.add(SlotTopic(), one)
    assert registry.listens(SlotTopic)


steps = st.lists(st.tuples(st.sampled_from(["add", "remove", "leave", "finish"]), st.integers(0, 7), st.integers(0, 2)))


@given(steps=steps)
def test_nothing_is_left_behind(steps: list[tuple[str, int, int]]) -> None:
    """Any order of coming and going: what is found is what somebody listens to, and at the end there is nothing."""
    registry, clients = Registry(), [Nobody(), Nobody(), Nobody()]
    model: set[tuple[Topic, Nobody]] = set()
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
