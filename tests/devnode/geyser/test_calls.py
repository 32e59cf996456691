"""The unary calls of the stream."""

import orjson
import pytest
from solders.hash import Hash

from actors.geyser_proto import geyser_pb2
from devnode.chain.open_block import ForkEnd
from devnode.geyser.calls import CallRefused, Calls
from devnode.geyser.filters import LEVELS
from devnode.records.commitment import Commitment
from devnode.rpc.node import SOLANA_CORE_VERSION
from tests.devnode.local_node import LocalNode

from .listening import Streaming


@pytest.fixture
def calls(streaming: Streaming) -> Calls:
    return Calls(streaming.local.node, streaming.hub)


def newest_complete(local: LocalNode, level: Commitment) -> int:
    """The newest sealed slot of a level; at processed that is one below JSON-RPC's slot."""
    slot = local.chain.levels.at(level).slot
    return slot - 1 if level is Commitment.PROCESSED else slot


@pytest.mark.parametrize(("number", "level"), LEVELS.items())
def test_all_answers_are_of_the_newest_block(
    calls: Calls, streaming: Streaming, number: geyser_pb2.CommitmentLevel, level: Commitment
) -> None:
    """Slot, height and blockhash belong to the same block at every level; a hash lives 300 blocks, not 150."""
    local = streaming.local
    local.beat(3)
    block = local.archive.block(newest_complete(local, level))
    assert block is not None
    assert calls.get_slot(geyser_pb2.GetSlotRequest(commitment=number)).slot == block.slot
    assert calls.get_block_height(geyser_pb2.GetBlockHeightRequest(commitment=number)).block_height == block.height
    latest = calls.get_latest_blockhash(geyser_pb2.GetLatestBlockhashRequest(commitment=number))
    assert (latest.slot, latest.blockhash) == (block.slot, block.blockhash)
    assert latest.last_valid_block_height == block.height + 300


def is_valid(calls: Calls, blockhash: str, level: geyser_pb2.CommitmentLevel = geyser_pb2.PROCESSED) -> bool:
    return calls.is_blockhash_valid(geyser_pb2.IsBlockhashValidRequest(blockhash=blockhash, commitment=level)).valid


def test_blockhashes_are_valid_at_the_levels_they_reached(calls: Calls, streaming: Streaming) -> None:
    """A new hash is not valid at finalized; an unknown hash and other text are not valid at any level."""
    streaming.local.beat()
    newest = str(streaming.local.blockhash())
    assert is_valid(calls, newest) and is_valid(calls, newest, geyser_pb2.CONFIRMED)
    assert not is_valid(calls, newest, geyser_pb2.FINALIZED)
    streaming.local.finalize()
    assert is_valid(calls, newest, geyser_pb2.FINALIZED)
    assert not is_valid(calls, str(Hash.new_unique()))
    assert not is_valid(calls, "no hash")


def test_a_blockhash_is_valid_for_exactly_300_blocks(calls: Calls, streaming: Streaming) -> None:
    """It is valid after 299 further blocks and not after 300."""
    streaming.local.beat()
    blockhash = str(streaming.local.blockhash())
    streaming.local.beat(299)
    assert is_valid(calls, blockhash)
    streaming.local.beat()
    assert not is_valid(calls, blockhash)


def test_the_hashes_of_a_lost_fork_are_unknown(calls: Calls, streaming: Streaming) -> None:
    """A hash of a lost fork is not valid."""
    local = streaming.local
    slot = local.chain.levels.building.slot
    sealed = local.seal(ForkEnd(slot))
    assert not is_valid(calls, sealed.block.blockhash)


def test_a_node_that_lags_answers_with_older_slots(calls: Calls, streaming: Streaming) -> None:
    """The calls answer from the past, like JSON-RPC."""
    local = streaming.local
    local.beat(10)
    before = calls.get_slot(geyser_pb2.GetSlotRequest()).slot
    local.chain.levels.lag(3)
    local.beat(5)
    assert before < calls.get_slot(geyser_pb2.GetSlotRequest()).slot < before + 5


def test_unknown_levels_are_refused(calls: Calls) -> None:
    """The commitment (field 1) has the unknown value 9."""
    with pytest.raises(CallRefused) as refused:
        calls.get_slot(geyser_pb2.GetSlotRequest.FromString(b"\x08\x09"))
    assert refused.value.end.text == "failed to create CommitmentLevel from 9"


def test_ping_returns_the_count_and_the_version_is_a_json_text(calls: Calls) -> None:
    """The version has the keys that clients of Yellowstone read."""
    assert calls.ping(geyser_pb2.PingRequest(count=5)).count == 5
    shown = orjson.loads(calls.get_version(geyser_pb2.GetVersionRequest()).version)
    assert set(shown["version"]) == {"package", "version", "proto", "solana", "git", "rustc", "buildts"}
    assert shown["version"]["solana"] == SOLANA_CORE_VERSION
    assert "hostname" in shown["extra"]


def test_replay_info_has_the_first_slot(calls: Calls, streaming: Streaming) -> None:
    """The field is absent if replays are off."""
    info = calls.subscribe_replay_info(geyser_pb2.SubscribeReplayInfoRequest())
    assert info.first_available == streaming.hub.logs.first_slot
    off = Calls(streaming.local.node, Streaming(streaming.local, replay_slots=0).hub)
    assert not off.subscribe_replay_info(geyser_pb2.SubscribeReplayInfoRequest()).HasField("first_available")
