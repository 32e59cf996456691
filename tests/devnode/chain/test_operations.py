"""Jumps to a later slot and time: the clock, blockhashes, heights, levels and history agree afterwards."""

import asyncio
from pathlib import Path

import pytest
from solders.pubkey import Pubkey

from devnode.chain.bus import SlotConfirmed, SlotFinalized, SlotOpened, SlotSealed, SlotSkipped
from devnode.chain.pacemaker import WARP_SLOT_MAX, WARP_UNIX_TIME_MAX, Pacemaker, WarpError
from devnode.chain.submissions import Source
from devnode.execution.execution import Refused
from devnode.faults.plan import Once
from devnode.records.commitment import Commitment
from devnode.records.leaders import SLOTS_PER_EPOCH
from tests.devnode.local_node import RETENTION_SLOTS, LocalNode


def pacemaker_of(local: LocalNode) -> Pacemaker:
    return Pacemaker(local.chain, local.journal, local.clock, 400, local.node.faults)


def clock_of(local: LocalNode) -> dict[str, int]:
    found: dict[str, int] = local.call(
        "getAccountInfo",
        "SysvarC1ock11111111111111111111111111111111",
        {"encoding": "jsonParsed", "commitment": "processed"},
    )["value"]["data"]["parsed"]["info"]
    return found


async def test_a_jump_by_slots_moves_everything(local: LocalNode) -> None:
    """Slot, height, time, epoch and the Clock move by as much as if the slots had been built."""
    pacemaker, chain = pacemaker_of(local), local.chain
    before, time_before = chain.levels.building, chain.opened_unix_time
    target = SLOTS_PER_EPOCH + 5
    assert await pacemaker.warp(target, None) == target
    jumped = target - before.slot
    assert chain.levels.building.slot == target
    assert chain.levels.building.height == before.height + jumped
    assert chain.opened_unix_time == time_before + round(jumped * 0.4)
    clock = clock_of(local)
    assert (clock["slot"], clock["epoch"], clock["unixTimestamp"]) == (target, 1, chain.opened_unix_time)
    info = local.call("getEpochInfo", {"commitment": "processed"})
    assert (info["absoluteSlot"], info["epoch"], info["slotIndex"]) == (target, 1, 5)
    assert info["blockHeight"] == chain.levels.building.height


async def test_blockhashes_expire_as_if_the_slots_had_been_built(local: LocalNode) -> None:
    """A hash survives a jump up to its last valid height and no further; the newest hash can always be used."""
    payer = local.wallet()
    pacemaker = pacemaker_of(local)
    young = local.transfer(payer, Pubkey.new_unique(), 10**6)
    last_valid = local.call("getLatestBlockhash", {"commitment": "processed"})["value"]["lastValidBlockHeight"]
    left = last_valid - local.chain.levels.building.height
    await pacemaker.warp(local.chain.levels.building.slot + left, None)
    assert local.chain.levels.building.height == last_valid
    assert local.call("isBlockhashValid", str(young.message.recent_blockhash), {"commitment": "processed"})["value"]
    local.land(young)
    old = local.transfer(payer, Pubkey.new_unique(), 10**6)
    await pacemaker.warp(local.chain.levels.building.slot + 500, None)
    result = local.chain.submit(bytes(old), Source.RPC)
    assert isinstance(result, Refused) and result.err == "BlockhashNotFound"
    local.land(local.transfer(payer, Pubkey.new_unique(), 10**6))


async def test_a_jump_in_time_moves_the_slots_and_lasts(local: LocalNode) -> None:
    """Later blocks, and those after a restart, go on from the time that was jumped to."""
    pacemaker, chain = pacemaker_of(local), local.chain
    slot, time = chain.levels.building.slot, chain.opened_unix_time
    await pacemaker.warp(None, time + 86_400)
    assert chain.opened_unix_time == time + 86_400 and chain.levels.building.slot == slot + 216_000
    local.clock.advance(10)
    await pacemaker.beat()
    assert chain.opened_unix_time == time + 86_410
    await pacemaker.beat()
    await pacemaker.written()
    local = local.restarted()
    assert local.chain.opened_unix_time == time + 86_410
    after = pacemaker_of(local)
    local.clock.advance(5)
    await after.beat()
    assert local.chain.opened_unix_time >= time + 86_415
    await after.stop()
    local.close()


async def test_slot_and_time_can_be_given_apart(local: LocalNode) -> None:
    pacemaker, chain = pacemaker_of(local), local.chain
    slot, time = chain.levels.building.slot, chain.opened_unix_time
    await pacemaker.warp(slot + 1, time + 1_000_000)
    assert (chain.levels.building.slot, chain.opened_unix_time) == (slot + 1, time + 1_000_000)
    await pacemaker.warp(slot + 900, chain.opened_unix_time)
    assert (chain.levels.building.slot, chain.opened_unix_time) == (slot + 900, time + 1_000_000)


@pytest.mark.parametrize(
    ("slot", "unix_time", "said"),
    [
        (None, None, "wanted slot, unix_time, or both"),
        (0, None, "slot: 0, wanted"),
        (-1, None, "slot: -1, wanted"),
        (2**63, None, f"slot: {2**63}, wanted"),
        (WARP_SLOT_MAX + 1, None, "slot: "),
        (WARP_SLOT_MAX, None, "after the year 9999; give unix_time as well"),
        (None, 0, "unix_time: 0, wanted"),
        (None, 2**63, f"unix_time: {2**63}, wanted"),
        (10**6, 1, "unix_time: 1, wanted"),
        (None, WARP_UNIX_TIME_MAX, "slot: "),
    ],
)
async def test_a_jump_back_or_beyond_the_end_changes_nothing(
    local: LocalNode, slot: int | None, unix_time: int | None, said: str
) -> None:
    pacemaker = Pacemaker(local.chain, local.journal, local.clock, 20_000 if slot else 100, local.node.faults)
    before = local.chain.levels.building
    with pytest.raises(WarpError, match=said):
        await pacemaker.warp(slot, unix_time)
    assert local.chain.levels.building == before


async def test_the_slot_being_built_is_not_later_than_itself(local: LocalNode) -> None:
    slot = local.chain.levels.building.slot
    with pytest.raises(WarpError, match=f"slot: {slot}, wanted {slot + 1} to "):
        await pacemaker_of(local).warp(slot, None)


async def test_the_farthest_jump_leaves_a_chain_that_works(local: LocalNode) -> None:
    payer, pacemaker = local.wallet(), pacemaker_of(local)
    await pacemaker.warp(WARP_SLOT_MAX, WARP_UNIX_TIME_MAX)
    record = local.land(local.transfer(payer, Pubkey.new_unique(), 10**6))
    for _ in range(6):
        await pacemaker.beat()
    await pacemaker.written()
    assert (
        local.call("getTransaction", record.signature, {"maxSupportedTransactionVersion": 0})["slot"] == WARP_SLOT_MAX
    )
    assert local.call("getBlockTime", WARP_SLOT_MAX) == WARP_UNIX_TIME_MAX
    assert sum(slots for slots, _ in local.call("getBlockProduction")["value"]["byIdentity"].values()) > 0
    code, text = local.error("getBlockProduction", {"range": {"firstSlot": 0}})
    assert code == -32602 and text.startswith("firstSlot, 0, is too small; min ")
    local.node.faults.leader_at(local.chain.levels.building.slot)


async def test_events_of_a_jump(local: LocalNode) -> None:
    """Subscribers see the block before the jump and the slot after it; none of the slots between."""
    pacemaker, chain = pacemaker_of(local), local.chain
    before = chain.levels.building
    heard = chain.bus.subscribe(SlotOpened, SlotSealed, SlotSkipped, SlotConfirmed, SlotFinalized)
    await pacemaker.warp(before.slot + 10_000, None)
    for _ in range(8):
        await pacemaker.beat()
    await pacemaker.written()
    events = heard.drain()
    assert not any(isinstance(event, SlotSkipped) for event in events)
    opened = [event for event in events if isinstance(event, SlotOpened)]
    assert opened[0] == SlotOpened(before.slot + 10_000, before.slot)
    sealed = [event.block for event in events if isinstance(event, SlotSealed)]
    assert [block.slot for block in sealed[:2]] == [before.slot, before.slot + 10_000]
    assert sealed[0].height == before.height + 9_999 and sealed[1].height == sealed[0].height + 1
    finalized = [event.slot for event in events if isinstance(event, SlotFinalized)]
    assert finalized == sorted(finalized) and before.slot in finalized
    first, second = before.slot, before.slot + 10_000
    assert local.call("getBlocks", first, second) == [first, second]
    assert local.error("getBlock", first + 5)[0] == -32007


async def test_history_survives_a_jump_beyond_the_retention(tmp_path: Path) -> None:
    """The retention counts slots of blocks: what was confirmed before a long jump can still be read after it."""
    local = LocalNode(tmp_path)
    signature = local.faucet.airdrop(Pubkey.new_unique(), 10**9)
    pacemaker = pacemaker_of(local)
    await pacemaker.warp(local.chain.levels.building.slot + 100 * RETENTION_SLOTS, None)
    for _ in range(20):
        await pacemaker.beat()
    await pacemaker.written()
    assert local.archive.transaction(signature) is not None
    local = local.restarted()
    local.beat(20)
    assert local.archive.transaction(signature) is not None
    local.beat(RETENTION_SLOTS)
    assert local.archive.transaction(signature) is None, "and no longer than the retention"
    local.close()


async def test_no_jump_on_a_fork(local: LocalNode) -> None:
    pacemaker = pacemaker_of(local)
    local.node.faults.do_once(Once(fork_blocks=2))
    await pacemaker.beat()
    with pytest.raises(WarpError, match="a fork is being built"):
        await pacemaker.warp(local.chain.levels.building.slot + 10, None)
    await pacemaker.beat()
    await pacemaker.warp(local.chain.levels.building.slot + 10, None)


async def test_jumps_and_beats_at_the_same_time(local: LocalNode) -> None:
    """Each takes its turn: no block is lost on disk, and no slot is built twice."""
    pacemaker, chain = pacemaker_of(local), local.chain
    first = chain.levels.building.slot
    sealed = chain.bus.subscribe(SlotSealed)
    jumps = [pacemaker.warp(first + 1_000 * number, None) for number in (1, 2, 3)]
    results = await asyncio.gather(*jumps, *(pacemaker.beat() for _ in range(5)), return_exceptions=True)
    await pacemaker.written()
    assert all(not isinstance(result, BaseException) or isinstance(result, WarpError) for result in results)
    slots = [event.block.slot for event in sealed.drain() if isinstance(event, SlotSealed)]
    assert slots == sorted(set(slots)) and chain.levels.building.slot >= first + 3_000
    assert local.archive.slots(first, slots[-1], 100) == slots
    assert chain.levels.at(Commitment.PROCESSED).slot == chain.levels.building.slot
