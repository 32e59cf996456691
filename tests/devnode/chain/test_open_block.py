from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from solders.hash import Hash

from devnode.chain.open_block import (
    TRANSACTION_UNITS_MAX,
    BlockSpace,
    OpenBlock,
    SlotClock,
    SpaceLimits,
    counted_units,
)
from devnode.records.commitment import Sealed
from devnode.records.leaders import SLOTS_PER_EPOCH
from tests.devnode.local_node import LocalNode


def test_an_epoch_keeps_the_time_of_its_first_slot() -> None:
    clock = SlotClock()
    first, second = clock.at(1_000, 50), clock.at(1_001, 51)
    assert (first.slot, first.unix_timestamp, first.epoch, first.epoch_start_timestamp) == (1_000, 50, 0, 50)
    assert (second.unix_timestamp, second.epoch_start_timestamp) == (51, 50)
    later = clock.at(SLOTS_PER_EPOCH, 99)
    assert (later.epoch, later.leader_schedule_epoch, later.epoch_start_timestamp) == (1, 2, 99)


TAKEN = st.lists(st.tuples(st.integers(1, 400), st.frozensets(st.sampled_from("abcd"), max_size=3)), max_size=40)


@given(taken=TAKEN)
def test_a_block_never_takes_more_than_its_limits(taken: list[tuple[int, frozenset[str]]]) -> None:
    """Neither in all nor for an account; and what would keep the limits is never refused."""
    space, used, by_account = BlockSpace(SpaceLimits(3_000, 1_000)), 0, Counter[str]()
    for units, accounts in taken:
        keeps = used + units <= 3_000 and all(by_account[account] + units <= 1_000 for account in accounts)
        assert space.fits(units, accounts) == keeps
        if keeps:
            space.take(units, accounts)
            used += units
            by_account.update(dict.fromkeys(accounts, units))
    assert space.used == used


def test_any_transaction_fits_while_there_is_room_for_the_largest() -> None:
    space = BlockSpace(SpaceLimits())
    assert space.fits_any
    space.take(60_000_000 - TRANSACTION_UNITS_MAX, ())
    assert space.fits_any
    space.take(1, ())
    assert not space.fits_any
    full = BlockSpace(SpaceLimits())
    full.take(12_000_000, ("a",))
    assert not full.fits_any and full.fits(1, ("b",)) and not full.fits(1, ("a", "b"))


def test_signatures_and_write_locks_count() -> None:
    assert counted_units(450, 2, 3) == 450 + 2 * 720 + 3 * 300
    assert counted_units(1_400_000, 12, 64) <= TRANSACTION_UNITS_MAX


def test_the_blockhash_depends_on_salt_parent_slot_and_transactions(local: LocalNode) -> None:
    record = local.land(local.transfer(local.wallet(), local.keys.faucet.pubkey(), 5))
    parent = Hash.new_unique()

    def blockhash(salt: bytes = b"1", slot: int = 5, parent: Hash = parent, filled: bool = True) -> Hash:
        block = OpenBlock(4, parent, 99, BlockSpace(SpaceLimits()), [record] if filled else [])
        sealed, found = block.sealed(Sealed(slot, 2), salt)
        assert sealed.blockhash == str(found) and sealed.previous_blockhash == str(parent)
        assert (sealed.slot, sealed.height, sealed.parent_slot, sealed.unix_time) == (slot, 2, 4, 99)
        return found

    others = [blockhash(b"2"), blockhash(slot=6), blockhash(parent=Hash.new_unique()), blockhash(filled=False)]
    assert blockhash() == blockhash() and blockhash() not in others and len(set(others)) == 4
