"""Invented votes have the exact form of a node and depend on the block alone."""

import orjson
from solders.rpc import responses
from solders.signature import Signature

from tests.devnode.local_node import LocalNode

from .listener import Listener


def test_each_complete_block_is_voted_for_once(local: LocalNode, listener: Listener) -> None:
    """This node's vote account votes with the blockhash, its identity signs, and solders decodes the notification."""
    listener.subscribe("voteSubscribe")
    slot = local.chain.levels.building.slot
    local.beat(2)
    texts = listener.texts()
    votes = [listener_result(text) for text in texts]
    assert [vote["slots"] for vote in votes] == [[slot], [slot + 1]]
    block = local.archive.block(slot)
    assert block is not None
    vote = votes[0]
    assert vote["votePubkey"] == str(local.keys.vote.pubkey())
    assert (vote["hash"], vote["timestamp"]) == (block.blockhash, block.unix_time)
    signed = f"vote {slot} {block.blockhash}".encode()
    assert Signature.from_string(vote["signature"]).verify(local.keys.identity.pubkey(), signed)
    (decoded,) = responses.parse_websocket_message(texts[0])
    assert isinstance(decoded, responses.VoteNotification)


def listener_result(text: str) -> dict[str, object]:
    message = orjson.loads(text)
    assert message["method"] == "voteNotification"
    result: dict[str, object] = message["params"]["result"]
    return result
