from itertools import pairwise

import pytest
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.pubkey import Pubkey
from solders.rpc import responses

from devnode.chain.genesis import FIRST_SLOT
from devnode.records.records import TransactionRecord
from tests.devnode.local_node import ROOT_DEPTH, LocalNode, give


def test_slots_and_heights_at_each_level(local: LocalNode) -> None:
    building = local.chain.levels.building
    slots = [local.call("getSlot", {"commitment": level}) for level in ("processed", "confirmed", "finalized")]
    assert slots == [building.slot, building.slot - 1, building.slot - ROOT_DEPTH]
    assert local.call("getSlot") == slots[2]
    assert local.call("getBlockHeight", {"commitment": "processed"}) == building.height
    assert local.call("getFirstAvailableBlock") == local.call("minimumLedgerSlot") == FIRST_SLOT


def test_every_announced_block_exists(local: LocalNode) -> None:
    """Right after the start, all blocks from the first available to the finalized one can be read."""
    first, last = local.call("getFirstAvailableBlock"), local.call("getSlot")
    assert local.call("getBlocks", first, last) == list(range(first, last + 1))
    for slot in range(first, last + 1):
        assert local.call("getBlock", slot)["blockHeight"] == slot - FIRST_SLOT


def test_blocks_form_a_chain(local: LocalNode) -> None:
    local.beat(3)
    slots = local.call("getBlocks", FIRST_SLOT)
    blocks = [local.call("getBlock", slot, {"transactionDetails": "none"}) for slot in slots]
    for parent, child in pairwise(blocks):
        assert child["previousBlockhash"] == parent["blockhash"]
        assert child["blockHeight"] == parent["blockHeight"] + 1
        assert child["blockTime"] >= parent["blockTime"]
    assert [block["parentSlot"] for block in blocks[1:]] == slots[:-1]


def test_a_block_in_every_detail(local: LocalNode) -> None:
    payer = local.wallet()
    record = local.land(local.transfer(payer, Pubkey.new_unique(), 2_000_000))
    local.finalize()
    version = {"maxSupportedTransactionVersion": 0}
    full = local.call("getBlock", record.slot, version)
    assert full["transactions"][0]["transaction"]["signatures"] == [record.signature]
    assert full["transactions"][0]["version"] == 0
    assert local.call("getBlock", record.slot, {"transactionDetails": "signatures"})["signatures"] == [record.signature]
    none = local.call("getBlock", record.slot, {"transactionDetails": "none", "rewards": False})
    assert "transactions" not in none and "signatures" not in none and "rewards" not in none
    accounts = local.call("getBlock", record.slot, version | {"transactionDetails": "accounts"})
    assert accounts["transactions"][0]["transaction"]["accountKeys"][0]["pubkey"] == str(payer.pubkey())
    raw = local.raw_reply("getBlock", record.slot, version | {"encoding": "base64"})
    block = responses.GetBlockResp.from_json(raw).value
    assert block is not None and block.transactions is not None and len(block.transactions) == 1
    assert local.error("getBlock", record.slot)[0] == -32015
    assert local.call("getBlock", record.slot, version | {"encoding": "jsonParsed"})["blockhash"] == full["blockhash"]


def test_the_leader_gets_its_part_of_the_fees(local: LocalNode) -> None:
    """Half of the base fee, rounded up, and the whole priority fee; the rest is burned. A block without fees has no
    rewards, and a lost fork pays nobody. A restart knows the rewards."""
    payer, leader = local.wallet(), local.keys.identity.pubkey()
    asked = {"maxSupportedTransactionVersion": 0, "transactionDetails": "none"}
    empty = asked | {"commitment": "confirmed"}
    assert local.call("getBlock", local.call("getSlot", {"commitment": "confirmed"}), empty)["rewards"] == []
    supply = local.call("getSupply", {"commitment": "processed"})["value"]["total"]
    before = local.call("getBalance", str(leader), {"commitment": "processed"})["value"]
    price = set_compute_unit_price(1_000_000)  # A lamport for each unit that is asked for.

    def paid() -> TransactionRecord:
        give_away = give(payer, Pubkey.new_unique(), 10**6)
        return local.land(local.signed(payer, price, set_compute_unit_limit(777), give_away))

    record = paid()
    assert record.meta.fee_lamports == 5_777
    local.lose()
    assert local.call("getBalance", str(leader), {"commitment": "processed"})["value"] == before
    record = paid()
    local.finalize()
    reward = {"pubkey": str(leader), "lamports": 3_277, "postBalance": before + 3_277}
    shown = local.call("getBlock", record.slot, asked)["rewards"]
    assert shown == [reward | {"rewardType": "Fee", "commission": None}]
    assert local.call("getBalance", str(leader))["value"] == before + 3_277
    assert local.call("getSupply")["value"]["total"] == supply - 2_500
    assert "rewards" not in local.call("getBlock", record.slot, asked | {"rewards": False})
    raw = local.raw_reply("getBlock", record.slot, {"maxSupportedTransactionVersion": 0})
    block = responses.GetBlockResp.from_json(raw).value
    assert block is not None and block.rewards is not None and block.rewards[0].lamports == 3_277


def test_missing_blocks_have_the_error_of_a_node(local: LocalNode) -> None:
    building = local.chain.levels.building.slot
    assert local.error("getBlock", building) == (-32004, f"Block not available for slot {building}")
    assert local.error("getBlock", building - 1)[0] == -32004
    assert local.call("getBlock", building - 1, {"commitment": "confirmed"})["parentSlot"] == building - 2
    assert local.error("getBlock", building, {"commitment": "processed"}) == (
        -32602,
        "Method does not support commitment below `confirmed`",
    )
    local.beat(skip=1)
    local.finalize()
    assert local.error("getBlock", building + 1)[0] == -32007
    assert local.error("getBlockTime", building + 1)[0] == -32007
    assert building + 1 not in local.call("getBlocks", building - 1)


def test_old_blocks_are_cleaned_up(local: LocalNode) -> None:
    payer = local.wallet()
    record = local.land(local.transfer(payer, Pubkey.new_unique(), 2_000_000))
    local.beat()
    local.journal.prune(record.slot + 1)
    local.finalize()
    first = record.slot + 1
    assert local.error("getBlock", record.slot) == (
        -32001,
        f"Block {record.slot} cleaned up, does not exist on node. First available block: {first}",
    )
    assert local.call("getFirstAvailableBlock") == first
    assert local.call("getTransaction", record.signature, {"maxSupportedTransactionVersion": 0}) is None
    assert local.call("getSignaturesForAddress", str(payer.pubkey())) == []


def test_ranges_of_blocks(local: LocalNode) -> None:
    """Ranges include both ends, end at the call's commitment, and span at most 500,000 slots."""
    local.beat(5)
    assert local.call("getBlocks", FIRST_SLOT + 1, FIRST_SLOT + 3) == [FIRST_SLOT + 1, FIRST_SLOT + 2, FIRST_SLOT + 3]
    assert local.call("getBlocks", FIRST_SLOT + 3, FIRST_SLOT + 1) == []
    confirmed = local.call("getBlocks", FIRST_SLOT, {"commitment": "confirmed"})
    assert confirmed[-1] == local.chain.levels.building.slot - 1
    assert local.call("getBlocks", FIRST_SLOT, None, {"commitment": "confirmed"}) == confirmed
    assert local.error("getBlocks", 0, 500_001)[0] == -32602
    assert local.call("getBlocksWithLimit", FIRST_SLOT + 1, 2) == [FIRST_SLOT + 1, FIRST_SLOT + 2]
    assert local.error("getBlocksWithLimit", 0, 500_001)[0] == -32602


def test_block_time(local: LocalNode) -> None:
    """getBlockTime and getBlock have the same time."""
    slot = local.call("getSlot")
    assert local.call("getBlockTime", slot) == local.call("getBlock", slot)["blockTime"]


def test_blockhashes(local: LocalNode) -> None:
    """The latest blockhash is that of the commitment's block, valid for 150 blocks, and unknown to older banks."""
    for level in ("processed", "confirmed", "finalized"):
        value = local.call("getLatestBlockhash", {"commitment": level})["value"]
        slot = local.call("getSlot", {"commitment": level})
        block_slot = slot - 1 if level == "processed" else slot
        block = local.call("getBlock", block_slot, {"commitment": "confirmed"})
        assert value["blockhash"] == block["blockhash"]
        assert value["lastValidBlockHeight"] == block["blockHeight"] + 150
        valid = local.call("isBlockhashValid", value["blockhash"], {"commitment": level})
        assert valid["value"] is True
    newest = local.call("getLatestBlockhash", {"commitment": "confirmed"})["value"]["blockhash"]
    assert local.call("isBlockhashValid", newest)["value"] is False
    assert local.error("isBlockhashValid", "x")[0] == -32602
    responses.GetLatestBlockhashResp.from_json(local.raw_reply("getLatestBlockhash"))


def test_block_commitment(local: LocalNode) -> None:
    """Above the root, the votes on a block add up to the whole stake; from the root on there are none."""
    building = local.chain.levels.building.slot
    recent = local.call("getBlockCommitment", building - 1)
    assert sum(recent["commitment"]) == recent["totalStake"] and len(recent["commitment"]) == 32
    assert local.call("getBlockCommitment", local.call("getSlot"))["commitment"] is None


def test_prioritization_fees_come_from_blocks(local: LocalNode) -> None:
    payer, to = local.wallet(), Pubkey.new_unique()
    for price in (700_000, 900_000):
        budget = (set_compute_unit_limit(1_000_000), set_compute_unit_price(price))
        local.land(local.signed(payer, *budget, give(payer, to, 2_000_000)))
    slot = local.chain.levels.building.slot
    local.beat(2)
    fees = {one["slot"]: one["prioritizationFee"] for one in local.call("getRecentPrioritizationFees")}
    assert (fees[slot], fees[slot + 1]) == (700_000, 0)
    assert local.call("getRecentPrioritizationFees", [str(payer.pubkey())])[-2]["prioritizationFee"] == 700_000
    assert local.error("getRecentPrioritizationFees", [str(to)] * 129)[0] == -32602
    assert local.call("getRecentPrioritizationFees", None)[-1] == {"prioritizationFee": 0, "slot": slot + 1}


def test_performance_samples(local: LocalNode) -> None:
    """A sample covers 60 seconds of blocks; no limit means all of them, and more than 720 is refused."""
    local.beat(151)
    (sample,) = local.call("getRecentPerformanceSamples", 5)
    assert sample["samplePeriodSecs"] == 60 and sample["numSlots"] == 151
    assert local.error("getRecentPerformanceSamples", 721)[0] == -32602
    assert local.call("getRecentPerformanceSamples") == [sample]


@pytest.mark.parametrize("slot", [-1, "5", 2**64, None])
def test_bad_slots(local: LocalNode, slot: object) -> None:
    """A slot that is no unsigned 64-bit integer is error -32602."""
    assert local.error("getBlock", slot)[0] == -32602
