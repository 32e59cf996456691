import asyncio
from collections.abc import Callable

import pytest
from solders.pubkey import Pubkey

from devnode.chain.pacemaker import Pacemaker
from devnode.chain.submissions import Source
from devnode.faults.plan import FaultPlan, Once, read_plan
from devnode.journal.journal import SealedSlot
from devnode.records.commitment import Commitment
from tests.devnode.local_node import LocalNode


async def test_a_beat_seals_writes_and_confirms(local: LocalNode) -> None:
    pacemaker = Pacemaker(local.chain, local.journal, local.clock, 400, local.node.faults)
    slot = local.chain.levels.building.slot
    signature = local.faucet.airdrop(Pubkey.new_unique(), 10**9)
    await pacemaker.beat()
    await pacemaker.written()
    assert local.chain.levels.building.slot == slot + 1
    assert local.chain.levels.at(Commitment.CONFIRMED).slot == slot
    assert local.archive.position(signature) == (slot, 0)


async def test_skipped_slots_are_taken_once(local: LocalNode) -> None:
    pacemaker = Pacemaker(local.chain, local.journal, local.clock, 400, local.node.faults)
    local.node.faults.do_once(Once(skip_slots=3))
    slot = local.chain.levels.building.slot
    await pacemaker.beat()
    await pacemaker.beat()
    await pacemaker.written()
    assert local.chain.levels.building.slot == slot + 5


async def test_a_disk_that_fails_stops_the_chain(local: LocalNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a write fails, its slot is not confirmed and no later slot is sealed."""

    def fail(sealed: SealedSlot) -> None:
        raise OSError("disk full")

    pacemaker = Pacemaker(local.chain, local.journal, local.clock, 400, local.node.faults)
    confirmed = local.chain.levels.at(Commitment.CONFIRMED).slot
    monkeypatch.setattr(local.journal, "flush", fail)
    await pacemaker.beat()
    building = local.chain.levels.building.slot
    with pytest.raises(OSError, match="disk full"):
        await pacemaker.beat()
    assert local.chain.levels.at(Commitment.CONFIRMED).slot == confirmed
    assert local.chain.levels.building.slot == building
    monkeypatch.undo()
    await pacemaker.stop()
    assert local.archive.block(confirmed + 2) is None


async def test_a_clean_stop_keeps_the_open_slot(local: LocalNode) -> None:
    pacemaker = Pacemaker(local.chain, local.journal, local.clock, 400, local.node.faults)
    signature = local.faucet.airdrop(Pubkey.new_unique(), 10**9)
    await pacemaker.stop()
    assert local.archive.position(signature) is not None


async def test_a_frozen_chain_does_not_move(local: LocalNode, monkeypatch: pytest.MonkeyPatch) -> None:
    pacemaker = Pacemaker(local.chain, local.journal, local.clock, 400, local.node.faults)
    local.node.faults.set(read_plan({"slots": {"frozen": True}}))
    slot = local.chain.levels.building.slot
    waits = 0

    async def sleep(seconds: float) -> None:
        nonlocal waits
        waits += 1
        local.clock.advance(seconds)
        if waits == 5:
            raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await pacemaker.run()
    assert local.chain.levels.building.slot == slot


def late(local: LocalNode) -> dict[int, Callable[[], object]]:
    return {2: lambda: local.clock.advance(1.0), 6: lambda: local.clock.advance(3_600)}


def skipping(local: LocalNode) -> dict[int, Callable[[], object]]:
    return {2: lambda: local.node.faults.do_once(Once(skip_slots=2))}


@pytest.mark.parametrize(
    ("happens", "waited"),
    [
        # Late slots are sealed at once; after a long stop the missed slots are dropped.
        (late, [0.4, 0.4, 0.0, 0.0, 0.2, 0.4, 0.0, 0.4, 0.4]),
        # A slot without a block takes as long as a slot with one.
        (skipping, [0.4, 0.4, 1.2, 0.4]),
    ],
)
async def test_beats_keep_to_the_deadline(
    local: LocalNode,
    monkeypatch: pytest.MonkeyPatch,
    happens: Callable[[LocalNode], dict[int, Callable[[], object]]],
    waited: list[float],
) -> None:
    pacemaker = Pacemaker(local.chain, local.journal, local.clock, 400, local.node.faults)
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(round(seconds, 3))
        local.clock.advance(seconds)
        happens(local).get(len(waits), lambda: None)()
        if len(waits) == len(waited):
            raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await pacemaker.run()
    await pacemaker.written()
    assert waits == waited


async def test_a_fork_that_will_be_lost_never_reaches_the_journal(local: LocalNode) -> None:
    """The next block builds on the block before the fork; after a restart the fork is unknown."""
    pacemaker = Pacemaker(local.chain, local.journal, local.clock, 400, local.node.faults)
    first = local.chain.levels.building.slot
    local.node.faults.do_once(Once(fork_blocks=2))
    signature = local.faucet.airdrop(Pubkey.new_unique(), 10**9)
    await pacemaker.beat()
    assert local.chain.levels.building.slot == first + 1
    await pacemaker.beat()
    await pacemaker.beat()
    await pacemaker.written()
    assert local.archive.slots(first, first + 9, 10) == [first + 2]
    block = local.archive.block(first + 2)
    assert block is not None and block.parent_slot == first - 1
    assert local.archive.position(signature) is None
    again = local.restarted()
    assert again.chain.levels.building.slot == first + 3
    again.close()


async def test_a_stop_in_the_middle_of_a_fork_loses_the_fork_alone(local: LocalNode) -> None:
    pacemaker = Pacemaker(local.chain, local.journal, local.clock, 400, local.node.faults)
    first = local.chain.levels.building.slot
    local.node.faults.do_once(Once(fork_blocks=3))
    await pacemaker.beat()
    await pacemaker.stop()
    assert local.archive.slots(first, first + 9, 10) == [first + 2]


async def test_a_purge_forgets_history_up_to_what_is_final(local: LocalNode) -> None:
    """A purge keeps all blocks that are not final yet."""
    pacemaker = Pacemaker(local.chain, local.journal, local.clock, 400, local.node.faults)
    local.beat(20)
    first, root = local.archive.first_slot(), local.chain.levels.at(Commitment.FINALIZED).slot
    assert first is not None and first < root
    local.node.faults.do_once(Once(purge_before_slot=first + 3))
    await pacemaker.beat()
    assert local.archive.first_slot() == first + 3
    local.node.faults.do_once(Once(purge_before_slot=10**9))
    await pacemaker.beat()
    await pacemaker.written()
    assert local.archive.first_slot() == root + 1
    code, text = local.error("getBlock", first)
    assert code == -32001 and "cleaned up" in text


async def test_late_sends_arrive_with_their_slot(local: LocalNode) -> None:
    pacemaker = Pacemaker(local.chain, local.journal, local.clock, 400, local.node.faults)
    payer, to = local.wallet(), Pubkey.new_unique()
    local.node.faults.set(read_plan({"sends": {"tpu": {"delay_share": 1, "delay_slots": 1}}}))
    local.chain.submit(bytes(local.transfer(payer, to, 2_000_000)), Source.TPU)
    local.node.faults.set(FaultPlan())
    assert local.chain.vm.account(to) is None
    await pacemaker.beat()
    account = local.chain.vm.account(to)
    assert account is not None and account.lamports == 2_000_000
    await pacemaker.written()
