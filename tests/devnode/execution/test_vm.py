import pytest
from solders.account import Account
from solders.clock import Clock
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from devnode.encoding.addresses import SYSTEM_PROGRAM
from devnode.execution.dumps import LOADER
from devnode.execution.vm import NotLoadable, Outcome, Vm
from tests.devnode.encoding.test_wire import GIVE, OTHER, PAYER, v0


def funded() -> Vm:
    vm = Vm()
    vm.put(PAYER.pubkey(), Account(10**9, b"", SYSTEM_PROGRAM, False, 0))
    vm.put(OTHER, Account(10**9, b"", SYSTEM_PROGRAM, False, 0))
    return vm


def unsigned() -> VersionedTransaction:
    return VersionedTransaction.populate(v0().message, [Signature.default()])


def lamports(vm: Vm, pubkey: Pubkey) -> int:
    account = vm.account(pubkey)
    return 0 if account is None else account.lamports


def test_a_landed_transaction_keeps_its_changes() -> None:
    """A landed transaction costs its fee, and later transactions see its transfer."""
    vm = funded()
    outcome = vm.execute(v0(GIVE), verify_signatures=True)
    assert outcome.landed and outcome.err is None and outcome.fee_lamports == 5_000 and outcome.compute_units == 150
    assert lamports(vm, OTHER) == 10**9 + 5


def test_a_program_error_lands_and_costs() -> None:
    vm = funded()
    vm.put(PAYER.pubkey(), Account(2_000_000, b"", SYSTEM_PROGRAM, False, 0))
    give_too_much = v0(type(GIVE)(GIVE.program_id, GIVE.data[:4] + (10**9).to_bytes(8, "little"), GIVE.accounts))
    outcome = vm.execute(give_too_much, verify_signatures=True)
    assert outcome.landed and outcome.err == {"InstructionError": [0, {"Custom": 1}]}
    assert lamports(vm, PAYER.pubkey()) == 2_000_000 - 5_000


def test_a_refusal_changes_nothing() -> None:
    vm = funded()
    refused = vm.execute(unsigned(), verify_signatures=True)
    assert not refused.landed and refused.err == "SignatureFailure" and refused.fee_lamports == 0
    poor = Vm().execute(v0(), verify_signatures=True)
    assert not poor.landed and poor.err == "AccountNotFound"
    assert lamports(vm, PAYER.pubkey()) == 10**9


def test_signature_checks_are_on_again_after_a_run_without() -> None:
    """A run without signature checks must not switch them off for the next run."""
    vm = funded()
    assert vm.execute(unsigned(), verify_signatures=False).err is None
    assert vm.execute(unsigned(), verify_signatures=True).err == "SignatureFailure"
    assert vm.would_fail(unsigned()) is not None


def test_a_trial_run_keeps_nothing() -> None:
    vm = funded()
    assert vm.would_fail(v0()) is None
    assert lamports(vm, OTHER) == 10**9


def test_an_account_can_be_removed() -> None:
    vm = funded()
    vm.put(OTHER, None)
    assert vm.account(OTHER) is None


def test_rent_is_that_of_the_network() -> None:
    assert Vm().rent_exempt_lamports(165) == 2_039_280


def test_a_second_signer_is_checked_too() -> None:
    assert funded().would_fail(VersionedTransaction.populate(v0().message, [Keypair().sign_message(b"x")])) is not None


def test_limits_hold_until_they_are_set_again() -> None:
    vm = funded()
    vm.limit(10, 32_768)
    assert vm.execute(v0(), verify_signatures=True).err == {"InstructionError": [0, "ComputationalBudgetExceeded"]}
    vm.limit(1_000, 32_768)
    assert vm.would_fail(v0()) is None


def test_an_executable_account_must_be_a_program() -> None:
    """Invalid code is refused, and the account does not change."""
    vm = Vm()
    with pytest.raises(NotLoadable):
        vm.put(OTHER, Account(10**9, b"no program", LOADER, True, 0))
    assert vm.account(OTHER) is None


def test_the_time_is_that_of_the_open_slot() -> None:
    vm = Vm()
    vm.set_time(Clock(5, 0, 0, 1, 1_795_000_000), [])
    assert vm.unix_time == 1_795_000_000


def test_an_imitation_runs_only_transactions_it_handles() -> None:
    """The VM does not run a transaction that the imitation handles; `would_fail` asks it to keep no changes."""
    kept: list[bool] = []

    class OneInstruction:
        def handles(self, transaction: VersionedTransaction) -> bool:
            return len(transaction.message.instructions) == 1

        def run(self, transaction: VersionedTransaction, verify_signatures: bool, keep: bool) -> Outcome:
            kept.append(keep)
            return Outcome(True, None if keep else "SomeError", 1, 2, (), (), None)

    vm = funded()
    vm.imitation = OneInstruction()
    assert vm.execute(v0(GIVE), verify_signatures=True).compute_units == 2
    failure = vm.would_fail(v0(GIVE))
    assert failure is not None and failure.err == "SomeError" and kept == [True, False]
    assert lamports(vm, OTHER) == 10**9
    assert vm.execute(v0(GIVE, GIVE), verify_signatures=True).compute_units == 300
    assert vm.execute_plain(v0(GIVE), verify_signatures=True).compute_units == 150
