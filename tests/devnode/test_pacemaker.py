import asyncio

import pytest
from solders.pubkey import Pubkey

from actors.devnode.commitment import Commitment
from actors.devnode.journal import SealedSlot
from actors.devnode.pacemaker import Pacemaker

from .local_node import LocalNode


async def test_a_beat_seals_writes_and_confirms(local: LocalNode) -> None:
    pacemaker = Pacemaker(local.chain, local.journal, local.clock, 400)
    slot = local.chain.levels.building.slot
    signature = local.faucet.airdrop(Pubkey.new_unique(), 10**9)
    await pacemaker.beat()
    await pacemaker.written()
    assert local.chain.levels.building.slot == slot + 1
    assert local.chain.levels.at(Commitment.CONFIRMED).slot == slot
    assert local.archive.position(signature) == (slot, 0)


async def test_skipped_slots_are_taken_once(local: LocalNode) -> None:
    pacemaker = Pacemaker(local.chain, local.journal, local.clock, 400)
    pacemaker.controls.skip_slots = 3
    slot = local.chain.levels.building.slot
    await pacemaker.beat()
    await pacemaker.beat()
    await pacemaker.written()
    assert local.chain.levels.building.slot == slot + 5


async def test_a_disk_that_fails_stops_the_chain(local: LocalNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slot is not confirmed and no other is sealed on top of it."""

    def fail(sealed: SealedSlot) -> None:
        raise OSError("disk full")

    pacemaker = Pacemaker(local.chain, local.journal, local.clock, 400)
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
    pacemaker = Pacemaker(local.chain, local.journal, local.clock, 400)
    signature = local.faucet.airdrop(Pubkey.new_unique(), 10**9)
    await pacemaker.stop()
    assert local.archive.position(signature) is not None


async def test_a_frozen_chain_does_not_move(local: LocalNode, monkeypatch: pytest.MonkeyPatch) -> None:
    pacemaker = Pacemaker(local.chain, local.journal, local.clock, 400)
    pacemaker.controls.frozen = True
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


async def test_beats_keep_to_the_deadline(local: LocalNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """A late beat is made up for at once; after a long stop the lost beats are let go."""
    pacemaker = Pacemaker(local.chain, local.journal, local.clock, 400)
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(round(seconds, 3))
        local.clock.advance(seconds)
        if len(waits) == 2:
            local.clock.advance(1.0)
        if len(waits) == 6:
            local.clock.advance(3_600)
        if len(waits) == 9:
            raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await pacemaker.run()
    assert waits == [0.4, 0.4, 0.0, 0.0, 0.2, 0.4, 0.0, 0.4, 0.4]
