"""What each commitment shows, and what expired hashes agree with."""

import base64
from pathlib import Path

import pytest
from solders.pubkey import Pubkey

from devnode.encoding.addresses import SYSVAR_CLOCK
from devnode.records.blockhashes import BLOCKHASH_VALID_BLOCKS
from devnode.records.commitment import Commitment, Sealed, SlotLevels
from tests.devnode.leaders import LedNode
from tests.devnode.local_node import ROOT_DEPTH

LEVELS = ("processed", "confirmed", "finalized")


@pytest.fixture
def led(tmp_path: Path) -> LedNode:
    node = LedNode(tmp_path)
    node.chain.levels.confirm_depth = 3
    node.beat(ROOT_DEPTH)
    return node


@pytest.mark.parametrize(("confirm", "root"), [(1, 4), (2, 4), (3, 32), (4, 4), (2, 2)])
def test_each_level_trails_by_its_depth(confirm: int, root: int) -> None:
    levels = SlotLevels(root, Sealed(1_000, 0), confirm)
    for slot in range(1_000, 1_050):
        levels.seal(slot + 1)
        levels.confirm(slot)
    building = levels.building.slot
    assert [building - slot for slot in _slots(levels)] == [0, confirm, root]


def _slots(levels: SlotLevels) -> list[int]:
    return [levels.at(level).slot for level in Commitment]


def test_a_block_is_confirmed_only_when_it_is_durable() -> None:
    levels = SlotLevels(8, Sealed(1_000, 0), 2)
    for slot in range(1_000, 1_010):
        levels.seal(slot + 1)
    assert levels.confirm(1_004) == ([1_000, 1_001, 1_002, 1_003], [])
    assert levels.confirm(1_009)[0] == [1_004, 1_005, 1_006, 1_007, 1_008]


def test_confirmed_trails_processed(led: LedNode) -> None:
    """A status is `processed` until its block is deep enough, and reads at `confirmed` do not show its effects."""
    payment = led.payment()
    to = payment.message.account_keys[1]
    led.take(payment)
    for depth in range(ROOT_DEPTH + 1):
        status = led.call("getSignatureStatuses", [str(payment.signatures[0])])["value"][0]
        level = "finalized" if depth >= ROOT_DEPTH else "confirmed" if depth >= 3 else "processed"
        assert status["confirmationStatus"] == level
        shown = [led.call("getBalance", str(to), {"commitment": one})["value"] for one in LEVELS]
        assert [lamports > 0 for lamports in shown] == [True, depth >= 3, depth >= ROOT_DEPTH]
        led.beat()


def test_the_clock_is_that_of_the_slot(led: LedNode) -> None:
    """The Clock sysvar, read at a commitment, names the slot and the time of that commitment's block."""
    led.beat(skip=3)
    led.beat(2)
    for level in LEVELS:
        config = {"commitment": level, "encoding": "base64"}
        reply = led.call("getAccountInfo", str(SYSVAR_CLOCK), config)
        data = base64.b64decode(reply["value"]["data"][0])
        slot = led.call("getSlot", {"commitment": level})
        assert int.from_bytes(data[:8], "little") == slot == reply["context"]["slot"]
        if level != "processed":
            assert int.from_bytes(data[32:40], "little") == led.call("getBlockTime", slot)


def test_a_lost_fork_takes_its_clock_back(led: LedNode) -> None:
    led.lose()
    led.beat(4)
    test_the_clock_is_that_of_the_slot(led)


def test_the_transaction_count_follows_the_commitment(led: LedNode) -> None:
    def counts(node: LedNode) -> list[int]:
        found = [node.call("getTransactionCount", {"commitment": level}) for level in LEVELS]
        infos = [node.call("getEpochInfo", {"commitment": level})["transactionCount"] for level in LEVELS]
        assert found == infos
        return found

    start = counts(led)[0]
    for number in range(1, 7):
        led.faucet.airdrop(Pubkey.new_unique(), 10**9)
        assert counts(led) == [start + number, max(start, start + number - 3), max(start, start + number - ROOT_DEPTH)]
        led.beat()
    after = led.restarted()
    count = after.call("getTransactionCount", {"commitment": "finalized"})
    assert count == start + 6 - (ROOT_DEPTH - 1)
    assert after.call("getTransactionCount", {"commitment": "processed"}) == start + 6
    after.close()


def test_expired_hashes_agree_with_what_was_told_before(led: LedNode) -> None:
    """Every hash but the newest ends, and the block height is above the last valid height that came with it."""
    told = []
    for _ in range(5):
        told.append(led.call("getLatestBlockhash", {"commitment": "processed"})["value"])
        led.beat()
    newest = led.call("getLatestBlockhash", {"commitment": "processed"})["value"]
    led.chain.expire_blockhashes()
    height = led.call("getBlockHeight", {"commitment": "processed"})
    valid = {"commitment": "processed"}
    for one in told:
        assert height > one["lastValidBlockHeight"]
        assert led.call("isBlockhashValid", one["blockhash"], valid)["value"] is False
    assert height <= newest["lastValidBlockHeight"]
    assert led.call("isBlockhashValid", newest["blockhash"], valid)["value"] is True
    led.beat(ROOT_DEPTH + 1)
    for level in LEVELS:
        fresh = led.call("getLatestBlockhash", {"commitment": level})["value"]
        assert (
            led.call("getBlockHeight", {"commitment": level}) + BLOCKHASH_VALID_BLOCKS >= fresh["lastValidBlockHeight"]
        )
        assert led.call("getBlockHeight", {"commitment": level}) >= height
    assert led.take(led.payment()) is not None
    after = led.restarted()
    assert after.call("getBlockHeight", {"commitment": "processed"}) >= height
    after.close()
