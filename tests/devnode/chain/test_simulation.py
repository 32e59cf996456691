import pytest
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import Message, MessageV0, MessageV1, TransactionConfig
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from devnode.chain.simulation import preflight, rehearsing, sees_the_present, simulate, with_blockhash
from devnode.encoding.addresses import UPGRADEABLE_LOADER
from devnode.encoding.wire import Decoded, decode
from devnode.execution.execution import Execution, Refused
from devnode.records.commitment import Commitment
from tests.devnode.encoding.test_wire import MEMO, memo
from tests.devnode.local_node import LocalNode, decoded, give


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


def test_a_simulation_changes_nothing(local: LocalNode) -> None:
    payer, to = local.wallet(), Pubkey.new_unique()
    transaction = decoded(local.transfer(payer, to, 2_000_000))
    done = simulate(local.chain, transaction, Commitment.PROCESSED, verify_signatures=True, fresh=False)
    assert done.err is None and done.fee_lamports == 5_000
    assert [account and account.lamports for account in done.before[:2]] == [10**9, None]
    assert [account and account.lamports for account in done.after[:2]] == [10**9 - 2_005_000, 2_000_000]
    assert preflight(local.chain, transaction, Commitment.PROCESSED) is None
    assert local.chain.vm.account(to) is None and list(local.chain.open_transactions()) == []


def test_each_level_runs_on_its_own_accounts(local: LocalNode) -> None:
    """A simulation at finalized cannot spend lamports that are only processed; afterwards they are still there."""
    payer = Keypair()
    hash_known_everywhere = local.chain.blockhashes.entries()[0].blockhash
    local.faucet.airdrop(payer.pubkey(), 10**9)
    spend = decoded(local.signed(payer, give(payer, Pubkey.new_unique(), 2_000_000), blockhash=hash_known_everywhere))
    assert preflight(local.chain, spend, Commitment.PROCESSED) is None
    failure = preflight(local.chain, spend, Commitment.FINALIZED)
    assert failure is not None and failure.err == "AccountNotFound"
    done = simulate(local.chain, spend, Commitment.FINALIZED, verify_signatures=False, fresh=False)
    assert done.err == "AccountNotFound"
    account = local.chain.vm.account(payer.pubkey())
    assert account is not None and account.lamports == 10**9
    local.finalize()
    assert preflight(local.chain, spend, Commitment.FINALIZED) is None


def test_a_new_hash_is_unknown_to_the_finalized_bank(local: LocalNode) -> None:
    payer = local.wallet()
    transaction = decoded(local.transfer(payer, Pubkey.new_unique(), 2_000_000))
    assert preflight(local.chain, transaction, Commitment.CONFIRMED) is None
    failure = preflight(local.chain, transaction, Commitment.FINALIZED)
    assert failure is not None and failure.err == "BlockhashNotFound"


def test_signatures_are_checked_only_on_request(local: LocalNode) -> None:
    payer = local.wallet()
    good = local.transfer(payer, Pubkey.new_unique(), 2_000_000)
    forged = decoded(VersionedTransaction.populate(good.message, [Signature.default()]))
    chain = local.chain
    assert simulate(chain, forged, Commitment.PROCESSED, verify_signatures=False, fresh=False).err is None
    checked = simulate(chain, forged, Commitment.PROCESSED, verify_signatures=True, fresh=False)
    assert checked.err == "SignatureFailure"
    failure = preflight(chain, forged, Commitment.PROCESSED)
    assert failure is not None and failure.err == "SignatureFailure"


def test_preflight_refuses_a_landed_transaction(local: LocalNode) -> None:
    payer = local.wallet()
    transaction = local.transfer(payer, Pubkey.new_unique(), 2_000_000)
    local.land(transaction)
    failure = preflight(local.chain, decoded(transaction), Commitment.PROCESSED)
    assert failure is not None and failure.err == "AlreadyProcessed"


def test_the_blockhash_can_be_replaced_in_every_version(local: LocalNode) -> None:
    payer = local.wallet()
    instruction = give(payer, Pubkey.new_unique(), 2_000_000)
    stale = local.chain.blockhashes.entries()[0].blockhash
    config = TransactionConfig(compute_unit_limit=1_000, loaded_accounts_data_size_limit=1_000)
    messages = [
        Message.new_with_blockhash([instruction], payer.pubkey(), stale),
        MessageV0.try_compile(payer.pubkey(), [instruction], [], stale),
        MessageV1.try_compile(payer.pubkey(), [instruction], stale, config=config),
    ]
    for message in messages:
        before = decoded(VersionedTransaction(message, [payer]))
        after = with_blockhash(before, local.blockhash())
        assert after.blockhash == local.blockhash() and after.message.recent_blockhash == local.blockhash()
        assert after.keys == before.keys and decode(after.raw) == after
        done = simulate(local.chain, after, Commitment.PROCESSED, verify_signatures=False, fresh=True)
        assert done.err is None


def test_a_simulation_weighs_what_it_loads(local: LocalNode) -> None:
    """Each existing account counts 64 bytes and its data: here the payer and the system program."""
    transaction = decoded(local.transfer(local.wallet(), Pubkey.new_unique(), 2_000_000))
    done = simulate(local.chain, transaction, Commitment.PROCESSED, verify_signatures=False, fresh=False)
    system_program = local.chain.vm.account(Pubkey.default())
    assert system_program is not None
    assert done.loaded_data_bytes == 2 * 64 + len(system_program.data)


def test_a_simulated_v1_pays_its_inline_fee_before_it_runs(local: LocalNode) -> None:
    """A simulated transaction cannot transfer the lamports it owes, exactly as when it lands."""
    payer = local.wallet()
    config = TransactionConfig(priority_fee=777, compute_unit_limit=1_000, loaded_accounts_data_size_limit=1_000)

    def giving(lamports: int) -> Decoded:
        instruction = give(payer, Pubkey.new_unique(), lamports)
        message = MessageV1.try_compile(payer.pubkey(), [instruction], local.blockhash(), config=config)
        return decoded(VersionedTransaction(message, [payer]))

    all_but_fees = 10**9 - 5_000 - 777
    assert preflight(local.chain, giving(all_but_fees), Commitment.PROCESSED) is None
    failure = preflight(local.chain, giving(all_but_fees + 1), Commitment.PROCESSED)
    assert failure is not None and failure.err == {"InstructionError": [0, {"Custom": 1}]}
    done = simulate(local.chain, giving(all_but_fees), Commitment.PROCESSED, verify_signatures=True, fresh=False)
    assert (done.err, done.fee_lamports) == (None, 5_777)
    assert done.after[0] is None  # Nothing is left of the payer.


def test_a_level_sees_the_present_until_an_account_changes(local: LocalNode) -> None:
    """Preflight and landing may be one run where the level knows the hash and no account changed after it."""
    payer, to = local.wallet(), Pubkey.new_unique()
    payment = decoded(local.transfer(payer, to, 2_000_000))
    assert sees_the_present(local.chain, payment, Commitment.PROCESSED)
    assert not sees_the_present(local.chain, payment, Commitment.FINALIZED)  # Its hash is too new there.
    local.finalize()
    assert sees_the_present(local.chain, payment, Commitment.FINALIZED)
    local.faucet.airdrop(to, 10**9)
    assert sees_the_present(local.chain, payment, Commitment.PROCESSED)
    assert not sees_the_present(local.chain, payment, Commitment.CONFIRMED)
    local.chain.levels.lag(1)
    assert not sees_the_present(local.chain, payment, Commitment.PROCESSED)
