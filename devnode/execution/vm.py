"""The virtual machine: a LiteSVM, whose limits and differences from a node no other module needs to know.

Implements: execution, a trial run without changes, accounts and sysvars. LiteSVM's blockhash check, history and
duplicate check are off, because the chain has its own; its other differences are corrected here or in chain/chain.py.
One thread owns it: a call from a second thread raises. Not here: slots, blocks, statuses, the inline fee of v1.
"""

from collections.abc import Callable
from typing import Any, Protocol

import msgspec
import orjson
from solders.account import Account
from solders.clock import Clock
from solders.compute_budget import ComputeBudget as VmBudget
from solders.epoch_schedule import EpochSchedule
from solders.hash import Hash
from solders.litesvm import LiteSVM
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction
from solders.transaction_metadata import FailedTransactionMetadata, TransactionMetadata

from devnode.encoding.addresses import SYSTEM_PROGRAM
from devnode.records.records import InnerInstruction, InnerInstructions, ReturnData

_NO_SIGNATURE = Signature.default()


class Outcome(msgspec.Struct, frozen=True):
    """The result of a run. landed: the fee was charged and the transaction belongs in a block; otherwise the
    transaction had no effect."""

    landed: bool
    err: Any
    fee_lamports: int
    compute_units: int
    logs: tuple[str, ...]
    inner: tuple[InnerInstructions, ...]
    return_data: ReturnData | None


# A call of an account that is not there, as the VM refuses it.
_NO_PROGRAM = Outcome(False, "InvalidProgramForExecution", 0, 0, (), (), None)


class NotLoadable(Exception):
    """An executable account whose data is not a valid program."""


class Imitation(Protocol):
    """Runs transactions in place of the VM: those that call a program that is imitated."""

    def handles(self, transaction: VersionedTransaction) -> bool: ...
    def run(self, transaction: VersionedTransaction, verify_signatures: bool, keep: bool) -> Outcome: ...


class Vm:
    def __init__(self) -> None:
        self._svm = LiteSVM().with_transaction_history(0).with_blockhash_check(False)
        self._svm.set_epoch_schedule(EpochSchedule.without_warmup())
        self.imitation: Imitation | None = None
        # The present account; None if absent. Bound to LiteSVM's method, without a wrapper, because it is called most.
        self.account: Callable[[Pubkey], Account | None] = self._svm.get_account
        self._limits: tuple[int, int] | None = None
        self._verifies = True
        self._removed_programs: set[Pubkey] = set()  # LiteSVM keeps their code, and panics when one is called.

    def put(self, pubkey: Pubkey, account: Account | None) -> None:
        """Set an account to any content; None removes it. Raises NotLoadable for an invalid program."""
        if account is None:
            held = self.account(pubkey)
            if held is not None and held.executable:
                self._removed_programs.add(pubkey)
        elif self._removed_programs:
            self._removed_programs.discard(pubkey)
        try:
            self._svm.set_account(pubkey, Account(0, b"", SYSTEM_PROGRAM, False, 0) if account is None else account)
        except BaseException as error:
            # solders exports neither class; a panic of Rust code is no Exception.
            if type(error).__name__ not in ("LiteSVMError", "PanicException"):
                raise
            raise NotLoadable(str(error)) from None

    def rent_exempt_lamports(self, data_bytes: int) -> int:
        return self._svm.minimum_balance_for_rent_exemption(data_bytes)

    def set_time(self, clock: Clock, slot_hashes: list[tuple[int, Hash]]) -> None:
        """Open a slot: set Clock and SlotHashes (newest first), and expire the VM's own blockhash."""
        self._svm.set_clock(clock)
        self._svm.expire_blockhash()
        self._svm.set_slot_hashes(slot_hashes)

    def limit(self, compute_units: int, heap_bytes: int) -> None:
        """Set compute units and heap for the next runs. The VM does not read them from a v1 transaction, and after
        the first call of this method it reads them from no transaction: so call it before every run."""
        if (compute_units, heap_bytes) == self._limits:
            return
        self._limits = (compute_units, heap_bytes)
        budget = VmBudget(True)
        budget.compute_unit_limit, budget.heap_size = compute_units, heap_bytes
        self._svm.with_compute_budget(budget)

    @property
    def unix_time(self) -> int:
        return self._svm.get_clock().unix_timestamp

    def execute(self, transaction: VersionedTransaction, verify_signatures: bool) -> Outcome:
        if self.imitation is not None and self.imitation.handles(transaction):
            return self.imitation.run(transaction, verify_signatures, keep=True)
        return self.execute_plain(transaction, verify_signatures)

    def execute_plain(self, transaction: VersionedTransaction, verify_signatures: bool) -> Outcome:
        """Run the transaction on the VM itself, without the imitation."""
        if self._removed_programs and self._calls_a_removed_program(transaction):
            return _NO_PROGRAM
        return _outcome(self._run(self._svm.send_transaction, transaction, verify_signatures))

    def would_fail(self, transaction: VersionedTransaction, verify_signatures: bool = True) -> Outcome | None:
        """Run without keeping changes. Returns the failure, or None for success (reading its results costs time)."""
        if self.imitation is not None and self.imitation.handles(transaction):
            outcome = self.imitation.run(transaction, verify_signatures, keep=False)
            return None if outcome.err is None else outcome
        if self._removed_programs and self._calls_a_removed_program(transaction):
            return _NO_PROGRAM
        result = self._run(self._svm.simulate_transaction, transaction, verify_signatures)
        return _outcome(result) if isinstance(result, FailedTransactionMetadata) else None

    def _run(self, call: Callable[[VersionedTransaction], Any], transaction: VersionedTransaction, verify: bool) -> Any:
        if verify != self._verifies:
            self._svm.with_sigverify(verify)
            self._verifies = verify
        return call(transaction)

    def _calls_a_removed_program(self, transaction: VersionedTransaction) -> bool:
        keys = transaction.message.account_keys
        programs = {keys[one.program_id_index] for one in transaction.message.instructions}
        return not self._removed_programs.isdisjoint(programs)


def _outcome(result: TransactionMetadata | FailedTransactionMetadata) -> Outcome:
    err: Any = None
    if isinstance(result, FailedTransactionMetadata):
        # RPC's form of the error is in the JSON of the whole object; the JSON of the error object differs.
        err = orjson.loads(result.to_json())["err"]
        meta = result.meta()
    else:
        meta = result
    landed = err is None or meta.signature() != _NO_SIGNATURE
    returned = meta.return_data()
    return Outcome(
        landed=landed,
        err=err,
        fee_lamports=meta.fee() if landed else 0,
        compute_units=meta.compute_units_consumed(),
        logs=tuple(meta.logs()),
        inner=_inner(meta.inner_instructions()),
        return_data=ReturnData(str(returned.program_id), bytes(returned.data)) if returned.data else None,
    )


def _inner(groups: list[list[Any]]) -> tuple[InnerInstructions, ...]:
    found = []
    for index, group in enumerate(groups):
        if group:
            calls = []
            for call in group:
                instruction = call.instruction()
                calls.append(
                    InnerInstruction(
                        instruction.program_id_index, instruction.accounts, instruction.data, call.stack_height()
                    )
                )
            found.append(InnerInstructions(index, tuple(calls)))
    return tuple(found)
