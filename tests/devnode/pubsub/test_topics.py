from collections.abc import Callable
from typing import Any

import pytest
from solders.pubkey import Pubkey
from solders.signature import Signature

from devnode.pubsub import topics
from devnode.pubsub.topics import (
    AccountTopic,
    BlockTopic,
    LogsTopic,
    ProgramTopic,
    RootTopic,
    Shape,
    SignatureTopic,
    SlotsUpdatesTopic,
    SlotTopic,
    Topic,
)
from devnode.records.commitment import Commitment
from devnode.rpc.errors import RpcError
from tests.devnode.local_node import LocalNode

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


KEY = Pubkey.new_unique()
TEXT = str(KEY)
SIGNATURE = str(Signature.new_unique())
CONFIRMED = {"commitment": "confirmed"}


def test_the_defaults_of_agave_are_filled_in(local: LocalNode) -> None:
    """Defaults: finalized; legacy base58 for accounts; base64, all transactions and no rewards for blocks."""
    node = local.node
    assert topics.account_topic(node, [TEXT]) == AccountTopic(KEY, Commitment.FINALIZED, Shape("binary"))
    assert topics.program_topic(node, [TEXT, None]) == ProgramTopic(KEY, Commitment.FINALIZED, Shape("binary"), ())
    assert topics.logs_topic(node, ["all"]) == LogsTopic(None, Commitment.FINALIZED)
    assert topics.signature_topic(node, [SIGNATURE]) == SignatureTopic(SIGNATURE, Commitment.FINALIZED, False)
    block = BlockTopic(None, Commitment.FINALIZED, "base64", "full", False, None)
    assert topics.block_topic(node, ["all"]) == block


def test_every_parameter_is_read(local: LocalNode) -> None:
    """Each field of a configuration object changes the topic; unknown fields do not."""
    node = local.node
    config = {"encoding": "base64", "dataSlice": {"offset": 1, "length": 2}, "minContextSlot": 10**9, **CONFIRMED}
    assert topics.account_topic(node, [TEXT, config]) == AccountTopic(KEY, Commitment.CONFIRMED, Shape("base64", 1, 2))
    filters = [{"dataSize": 165}, {"memcmp": {"offset": 3, "bytes": "Ldp"}}, "tokenAccountState"]
    found = topics.program_topic(node, [TEXT, {"filters": filters, "withContext": True}])
    assert found.filters == (165, (3, b"\x01\x02\x03"), "tokenAccountState")
    assert topics.logs_topic(node, [{"mentions": [TEXT]}, CONFIRMED]) == LogsTopic(TEXT, Commitment.CONFIRMED)
    assert topics.logs_topic(node, ["allWithVotes", CONFIRMED]) == LogsTopic(None, Commitment.CONFIRMED)
    received = {"commitment": "processed", "enableReceivedNotification": True}
    assert topics.signature_topic(node, [SIGNATURE, received]) == SignatureTopic(SIGNATURE, Commitment.PROCESSED, True)
    config = {"encoding": "json", "transactionDetails": "accounts", "showRewards": True, **CONFIRMED}
    found_block = topics.block_topic(
        node, [{"mentionsAccountOrProgram": TEXT}, config | {"maxSupportedTransactionVersion": 0}]
    )
    assert found_block == BlockTopic(TEXT, Commitment.CONFIRMED, "json", "accounts", True, 0)


@pytest.mark.parametrize(
    ("read", "params", "message"),
    [
        (topics.account_topic, ["x"], "Invalid Request: Invalid pubkey provided"),
        (topics.program_topic, ["x"], "Invalid Request: Invalid pubkey provided"),
        (topics.signature_topic, [TEXT], "Invalid Request: Invalid signature provided"),
        (topics.logs_topic, [{"mentions": ["x"]}], "Invalid Request: Invalid mentions provided"),
        (topics.logs_topic, [{"mentions": []}], "Invalid Request: Only 1 address supported"),
        (topics.logs_topic, [{"mentions": [TEXT, TEXT]}], "Invalid Request: Only 1 address supported"),
        (
            topics.logs_topic,
            ["votes"],
            "Invalid params: unknown variant `votes`, expected one of `all`, `allWithVotes`, `mentions`.",
        ),
        (
            topics.logs_topic,
            ["mentions"],
            "Invalid params: invalid type: unit variant, expected newtype variant.",
        ),
        (topics.logs_topic, [{"all": []}], "Invalid params: invalid type: map, expected unit variant."),
        (topics.logs_topic, [7], "Invalid params: invalid type: integer `7`, expected string or map."),
        (
            topics.block_topic,
            [{"mentionsAccountOrProgram": "x"}],
            "Invalid Request: Invalid mentions_account_or_program provided",
        ),
        (
            topics.block_topic,
            ["all", {"commitment": "processed"}],
            "Method does not support commitment below `confirmed`",
        ),
        (topics.account_topic, [7], "Invalid params: invalid type: integer `7`, expected a string."),
        (
            topics.account_topic,
            [TEXT, {"dataSlice": {"offset": 1}}],
            "Invalid params: missing field `length`.",
        ),
        (topics.program_topic, [TEXT, {"filters": [{"dataSize": 1}] * 5}], "Too many filters provided; max 4"),
    ],
)
def test_bad_parameters_have_the_error_texts_of_agave(
    local: LocalNode, read: Callable[..., Any], params: list[Any], message: str
) -> None:
    """Clients distinguish these errors by their texts; all have the code of invalid parameters."""
    with pytest.raises(RpcError) as refused:
        read(local.node, params)
    assert (refused.value.code, refused.value.message) == (-32602, message)
