import pytest
from solders.account import Account
from solders.pubkey import Pubkey

from devnode.encoding.addresses import SYSTEM_PROGRAM, TOKEN_PROGRAM
from devnode.pubsub.topics import AccountTopic, ProgramTopic, Shape
from devnode.pubsub.writes import SlotWrites
from devnode.records.commitment import Commitment
from tests.devnode.local_node import LocalNode

KEY, OTHER = Pubkey.new_unique(), Pubkey.new_unique()


def account(lamports: int) -> Account:
    return Account(lamports, b"", SYSTEM_PROGRAM, False, 0)


def test_unwanted_writes_are_not_kept() -> None:
    """Memory holds only accounts with subscribers."""
    writes = SlotWrites()
    writes.note(5, KEY, account(1), is_wanted=False)
    assert writes.at(5) == {}


def test_an_unwanted_write_replaces_an_earlier_wanted_one() -> None:
    """If a program gives an account away within a slot, the notification does not show the contents in between."""
    writes = SlotWrites()
    writes.note(5, KEY, account(1), is_wanted=True)
    writes.note(5, KEY, None, is_wanted=False)
    assert writes.at(5) == {KEY: None}


def test_slots_are_forgotten_once_final() -> None:
    """Finalized is the last level, so no notification needs the writes afterwards."""
    writes = SlotWrites()
    for slot in (5, 6, 7):
        writes.note(slot, KEY, account(slot), is_wanted=True)
    writes.forget_up_to(6)
    assert writes.at(6) == {} and writes.at(7) == {KEY: account(7)}
    writes.clear()
    assert writes.at(7) == {}


@pytest.mark.parametrize("level", Commitment)
def test_look_back_finds_writes_that_have_not_reached_the_level(local: LocalNode, level: Commitment) -> None:
    """A new subscription gets earlier writes that reach its level later, with the contents at the end of their slot."""
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


def test_look_back_finds_accounts_of_a_program_by_owner(local: LocalNode) -> None:
    """Other accounts of the same transactions are not recorded."""
    local.wallet()
    owner = Pubkey.new_unique()
    local.faucet.fund(owner, 10**9, 5_000_000)
    slot = local.chain.levels.building.slot
    writes = SlotWrites()
    writes.look_back(local.chain, ProgramTopic(TOKEN_PROGRAM, Commitment.CONFIRMED, Shape("base64"), ()))
    owners = {found.owner for found in writes.at(slot).values() if found is not None}
    assert owners == {TOKEN_PROGRAM} and owner not in writes.at(slot)
