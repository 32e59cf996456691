import pytest
from solders.account import Account
from solders.pubkey import Pubkey

from actors.devnode.chain.commitment import Commitment
from actors.devnode.encoding.addresses import SYSTEM_PROGRAM, TOKEN_PROGRAM
from actors.devnode.pubsub.topics import AccountTopic, ProgramTopic, Shape
from actors.devnode.pubsub.writes import SlotWrites
from tests.devnode.local_node import LocalNode

KEY, OTHER = Pubkey.new_unique(), Pubkey.new_unique()


def account(lamports: int) -> Account:
    return Account(lamports, b"", SYSTEM_PROGRAM, False, 0)


def test_the_last_contents_of_a_slot_count() -> None:
    """One notification for each account and slot, as upstream, however often it was written."""
    writes = SlotWrites()
    writes.note(5, KEY, account(1), is_wanted=True)
    writes.note(5, KEY, account(2), is_wanted=True)
    writes.note(6, KEY, account(3), is_wanted=True)
    assert writes.at(5) == {KEY: account(2)} and writes.at(6) == {KEY: account(3)}


def test_what_nobody_wants_is_not_kept() -> None:
    """Memory is that of what is listened to."""
    writes = SlotWrites()
    writes.note(5, KEY, account(1), is_wanted=False)
    assert writes.at(5) == {}


def test_a_write_nobody_wants_hides_an_earlier_one() -> None:
    """An account that a program owned and gave away within the slot is not told as it was in between."""
    writes = SlotWrites()
    writes.note(5, KEY, account(1), is_wanted=True)
    writes.note(5, KEY, None, is_wanted=False)
    assert writes.at(5) == {KEY: None}


def test_slots_are_forgotten_once_final() -> None:
    """After the last level there is nobody left to tell."""
    writes = SlotWrites()
    for slot in (5, 6, 7):
        writes.note(slot, KEY, account(slot), is_wanted=True)
    writes.forget_up_to(6)
    assert writes.at(6) == {} and writes.at(7) == {KEY: account(7)}
    writes.clear()
    assert writes.at(7) == {}


@pytest.mark.parametrize("level", Commitment)
def test_looking_back_finds_what_is_still_to_come(local: LocalNode, level: Commitment) -> None:
    """A subscription hears of earlier writes that reach its level after it, as they were at the end of their slot."""
    payer, to = local.wallet(), Pubkey.new_unique()
    first = local.land(local.transfer(payer, to, 2_000_000)).slot
    local.beat()
    second = local.land(local.transfer(payer, to, 1_000_000)).slot
    local.land(local.transfer(payer, to, 500_000))
    writes = SlotWrites()
    writes.look_back(local.chain, AccountTopic(to, level, Shape("base64")))
    earlier = writes.at(first).get(to)
    assert (earlier and earlier.lamports) == (2_000_000 if level is Commitment.FINALIZED else None)
    later = writes.at(second)[to]
    assert later is not None and later.lamports == 3_500_000
    assert payer.pubkey() not in writes.at(second)


def test_looking_back_goes_by_owner_for_programs(local: LocalNode) -> None:
    """Accounts of the program, and no others of the same transactions."""
    local.wallet()
    owner = Pubkey.new_unique()
    local.faucet.fund(owner, 10**9, 5_000_000)
    slot = local.chain.levels.building.slot
    writes = SlotWrites()
    writes.look_back(local.chain, ProgramTopic(TOKEN_PROGRAM, Commitment.CONFIRMED, Shape("base64"), ()))
    owners = {found.owner for found in writes.at(slot).values() if found is not None}
    assert owners == {TOKEN_PROGRAM} and owner not in writes.at(slot)
