import pytest
from solders.pubkey import Pubkey

from devnode.pubsub.topics import (
    AccountTopic,
    LogsTopic,
    ProgramTopic,
    RootTopic,
    Shape,
    SlotsUpdatesTopic,
    SlotTopic,
    Topic,
)
from devnode.records.commitment import Commitment

KEY = Pubkey.new_unique()
PLAIN = Shape("base64")


def test_equal_parameters_are_one_topic() -> None:
    """Topics are compared by value, so that equal topics can share an id."""
    first = AccountTopic(KEY, Commitment.CONFIRMED, PLAIN)
    assert first == AccountTopic(KEY, Commitment.CONFIRMED, Shape("base64"))
    assert first != AccountTopic(KEY, Commitment.FINALIZED, PLAIN)
    assert first != AccountTopic(KEY, Commitment.CONFIRMED, Shape("base64", 0, 4))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (AccountTopic(KEY, Commitment.CONFIRMED, PLAIN), ProgramTopic(KEY, Commitment.CONFIRMED, PLAIN, ())),
        (LogsTopic(None, Commitment.CONFIRMED), LogsTopic(str(KEY), Commitment.CONFIRMED)),
        (SlotTopic(), RootTopic()),
        (SlotTopic(), SlotsUpdatesTopic()),
    ],
)
def test_different_topics_have_different_routes(one: Topic, other: Topic) -> None:
    """An event must not reach a topic of another type."""
    assert one.route != other.route


def test_levels_share_a_route() -> None:
    """One lookup finds the topics of an account at all levels."""
    assert len({AccountTopic(KEY, level, PLAIN).route for level in Commitment}) == 1


def test_a_shape_becomes_a_configuration() -> None:
    """The code that encodes replies also encodes notifications, and it reads configurations."""
    assert PLAIN.config() == {"encoding": "base64"}
    assert Shape("base58", 4, 8).config() == {"encoding": "base58"}, "as on a node, the slice is not applied"
