"""The calls with one answer."""

import orjson
import pytest
from solders.hash import Hash

from actors.devnode.chain.chain import ForkEnd
from actors.devnode.chain.commitment import Commitment
from actors.devnode.geyser.calls import Calls, Refused
from actors.devnode.geyser.filters import LEVELS
from actors.devnode.rpc.node import SOLANA_CORE_VERSION
from actors.geyser_proto import geyser_pb2
from tests.devnode.local_node import LocalNode

from .listening import Streaming

ALL = tuple(LEVELS.items())


@pytest.fixture
def calls(streaming: Streaming) -> Calls:
    return Calls(streaming.local.node, streaming.hub)


def newest_complete(local: LocalNode, level: Commitment) -> int:
    """A level's slot as JSON-RPC has it; at processed the slot being built is no block yet."""
    slot = local.chain.levels.at(level).slot
    return slot - 1 if level is Commitment.PROCESSED else slot


@pytest.mark.parametrize(("number", "level"), ALL)
def test_slot_and_height_are_of_the_newest_block(
    calls: Calls, streaming: Streaming, number: geyser_pb2.CommitmentLevel, level: Commitment
) -> None:
    """Of the same block, at every level."""
    local = streaming.local
    local.beat(3)
    slot = calls.get_slot(geyser_pb2.GetSlotRequest(commitment=number)).slot
    assert slot == newest_complete(local, level)
    block = local.archive.block(slot)
    assert block is not None
    assert calls.get_block_height(geyser_pb2.GetBlockHeightRequest(commitment=number)).block_height == block.height


@pytest.mark.parametrize(("number", "level"), ALL)
def test_the_latest_blockhash_and_its_life(
    calls: Calls, streaming: Streaming, number: geyser_pb2.CommitmentLevel, level: Commitment
) -> None:
    """300 blocks, as upstream announces it; JSON-RPC says 150."""
    streaming.local.beat(3)
    latest = calls.get_latest_blockhash(geyser_pb2.GetLatestBlockhashRequest(commitment=number))
    block = streaming.local.archive.block(newest_complete(streaming.local, level))
    assert block is not None
    assert (latest.slot, latest.blockhash) == (block.slot, block.blockhash)
    assert latest.last_valid_block_height == block.height + 300


def is_valid(calls: Calls, blockhash: str, level: geyser_pb2.CommitmentLevel = geyser_pb2.PROCESSED) -> bool:
    return calls.is_blockhash_valid(geyser_pb2.IsBlockhashValidRequest(blockhash=blockhash, commitment=level)).valid


def test_blockhashes_are_valid_at_the_levels_they_reached(calls: Calls, streaming: Streaming) -> None:
    """A new one is not final; a foreign one, and text that is none, are not valid anywhere."""
    streaming.local.beat()
    newest = str(streaming.local.blockhash())
    assert is_valid(calls, newest) and is_valid(calls, newest, geyser_pb2.CONFIRMED)
    assert not is_valid(calls, newest, geyser_pb2.FINALIZED)
    streaming.local.finalize()
    assert is_valid(calls, newest, geyser_pb2.FINALIZED)
    assert not is_valid(calls, str(Hash.new_unique()))
    assert not is_valid(calls, "no hash")


def test_a_blockhash_is_forgotten_after_300_blocks(calls: Calls, streaming: Streaming) -> None:
    """No sooner and no later."""
    streaming.local.beat()
    blockhash = str(streaming.local.blockhash())
    streaming.local.beat(299)
    assert is_valid(calls, blockhash)
    streaming.local.beat()
    assert not is_valid(calls, blockhash)


def test_the_hashes_of_a_lost_fork_are_unknown(calls: Calls, streaming: Streaming) -> None:
    """Like those of another chain."""
    local = streaming.local
    slot = local.chain.levels.building.slot
    sealed = local.chain.seal(local.clock.now(), local.clock.monotonic(), fork_end=ForkEnd(slot))
    assert not is_valid(calls, sealed.block.blockhash)


def test_a_node_that_lags_says_so_here_too(calls: Calls, streaming: Streaming) -> None:
    """Its answers are those of some slots ago."""
    local = streaming.local
    local.beat(10)
    before = calls.get_slot(geyser_pb2.GetSlotRequest()).slot
    local.chain.levels.lag(3)
    local.beat(5)
    assert before < calls.get_slot(geyser_pb2.GetSlotRequest()).slot < before + 5


def test_unknown_levels_are_refused(calls: Calls) -> None:
    """Field 1, value 9: a level that a newer format may know."""
    with pytest.raises(Refused) as refused:
        calls.get_slot(geyser_pb2.GetSlotRequest.FromString(b"\x08\x09"))
    assert refused.value.end.text == "failed to create CommitmentLevel from 9"


def test_ping_gives_the_count_back(calls: Calls) -> None:
    """Unchanged."""
    assert calls.ping(geyser_pb2.PingRequest(count=5)).count == 5


def test_the_version_is_a_json_text(calls: Calls) -> None:
    """With the keys that clients of upstream read."""
    shown = orjson.loads(calls.get_version(geyser_pb2.GetVersionRequest()).version)
    assert set(shown["version"]) == {"package", "version", "proto", "solana", "git", "rustc", "buildts"}
    assert shown["version"]["solana"] == SOLANA_CORE_VERSION
    assert "hostname" in shown["extra"]


def test_the_first_slot_of_a_replay_is_told(calls: Calls, streaming: Streaming) -> None:
    """Absent where there is no replay."""
    told = calls.subscribe_replay_info(geyser_pb2.SubscribeReplayInfoRequest())
    assert told.first_available == streaming.hub.logs.first_slot
    off = Calls(streaming.local.node, Streaming(streaming.local, replay_slots=0).hub)
    assert not off.subscribe_replay_info(geyser_pb2.SubscribeReplayInfoRequest()).HasField("first_available")
