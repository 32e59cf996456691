import pytest
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from devnode.chain.rehearsal import rehearsing
from devnode.encoding.addresses import UPGRADEABLE_LOADER
from devnode.encoding.wire import Decoded, decode
from devnode.execution.execution import Execution, Refused
from devnode.records.commitment import Commitment
from tests.devnode.encoding.test_wire import MEMO, memo
from tests.devnode.local_node import LocalNode, give


def decoded(transaction: VersionedTransaction) -> Decoded:
    found = decode(bytes(transaction))
    assert isinstance(found, Decoded)
    return found


def test_each_run_sees_the_one_before_and_all_are_undone(local: LocalNode) -> None:
    """A wallet that was funded in the rehearsal can spend there; afterwards neither wallet nor payment exists."""
    payer, middle, last = local.wallet(), Keypair(), Pubkey.new_unique()
    first = decoded(local.transfer(payer, middle.pubkey(), 5_000_000))
    second = decoded(local.transfer(middle, last, 2_000_000))
    with rehearsing(local.chain, local.chain.levels.building.slot) as rehearsal:
        assert isinstance(rehearsal.run(second, True), Refused)
        assert isinstance(rehearsal.run(first, True), Execution)
        assert isinstance(rehearsal.run(second, True), Execution)
        inside = rehearsal.read(last)
        assert inside is not None and inside.lamports == 2_000_000
    vm = local.chain.vm
    assert vm.account(last) is None and vm.account(middle.pubkey()) is None
    before = vm.account(payer.pubkey())
    assert before is not None and before.lamports == 10**9
    assert list(local.chain.open_transactions()) == []


def test_accounts_are_restored_after_an_exception(local: LocalNode) -> None:
    payer, to = local.wallet(), Pubkey.new_unique()
    payment = decoded(local.transfer(payer, to, 5_000_000))
    with pytest.raises(ZeroDivisionError), rehearsing(local.chain, local.chain.levels.building.slot) as rehearsal:
        rehearsal.run(payment, True)
        raise ZeroDivisionError
    assert local.chain.vm.account(to) is None


def test_a_rehearsal_of_an_older_slot_uses_its_accounts(local: LocalNode) -> None:
    payer, to = local.wallet(), Pubkey.new_unique()
    then = local.chain.levels.at(Commitment.FINALIZED).slot
    local.land(local.transfer(payer, to, 5_000_000))
    with rehearsing(local.chain, then) as rehearsal:
        assert rehearsal.read(to) is None
        richer = rehearsal.read(payer.pubkey())
        assert richer is not None and richer.lamports == 10**9
        assert isinstance(rehearsal.run(decoded(local.transfer(payer, to, 7_000_000)), True), Execution)
    now = local.chain.vm.account(to)
    assert now is not None and now.lamports == 5_000_000


def test_a_program_still_runs_after_it_was_restored(local: LocalNode) -> None:
    """A transaction that names the loader may write-lock a program; after the rehearsal the program still runs."""
    payer = local.wallet()
    extra = [AccountMeta(MEMO, False, True), AccountMeta(UPGRADEABLE_LOADER, False, False)]
    instruction = give(payer, Pubkey.new_unique(), 5_000_000)
    locking = Instruction(instruction.program_id, bytes(instruction.data), [*instruction.accounts, *extra])
    with rehearsing(local.chain, local.chain.levels.building.slot) as rehearsal:
        done = rehearsal.run(decoded(local.signed(payer, locking)), True)
        assert isinstance(done, Execution) and done.meta.err is None
        assert MEMO in {done.keys.all[index] for index in done.keys.writable}
    assert local.land(local.signed(payer, memo(5))).meta.err is None
