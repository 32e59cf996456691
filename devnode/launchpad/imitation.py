"""Runs transactions that call imitated programs, from their fee to their outcome.

Implements: a transaction with real and imitated instructions, executed in order, all or nothing. The VM charges the fee
for the transaction without these instructions; real instructions run on the VM in pieces; this package applies the
imitated ones; after a failure every account is restored and only the fee stays charged.
The VM cannot run programs written in Python, and the programs' binaries may not be shipped here. A real program at its
address ends its imitation.
Changes the VM only. Not here: the imitated programs and their instructions (programs.py).
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from solders.account import Account
from solders.instruction import AccountMeta, CompiledInstruction, Instruction
from solders.message import Message, MessageV0, MessageV1
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from devnode.encoding.addresses import COMPUTE_BUDGET_PROGRAM, PRECOMPILES
from devnode.encoding.wire import AnyMessage, Decoded
from devnode.execution.execution import LoadedKeys, load_keys
from devnode.execution.fees import compute_budget
from devnode.execution.vm import Outcome, Vm
from devnode.launchpad.programs import PERFORMED_BYTES, is_performed, lines_of, perform
from devnode.launchpad.stage import Ref, Stage, Whole, run_piece
from devnode.records.records import InnerInstructions, ReturnData

# Instructions that determine the fee: signature checks cost a fee each, and the compute budget sets limits and price.
_CHARGED = PRECOMPILES | {COMPUTE_BUDGET_PROGRAM}
_COMPUTE_BUDGET_UNITS = 150  # The compute units of one compute-budget instruction.


class LaunchImitation:
    """Runs transactions that call an imitated program; the VM calls it first (`Vm.imitation`)."""

    def __init__(self, vm: Vm) -> None:
        self._vm = vm

    def handles(self, transaction: VersionedTransaction) -> bool:
        """Whether the transaction calls an imitated program; a real program at its address ends the imitation."""
        raw = bytes(transaction)
        if not any(program in raw for program in PERFORMED_BYTES):
            return False
        message = transaction.message
        keys = message.account_keys
        called = {keys[instruction.program_id_index] for instruction in message.instructions}
        return any(is_performed(self._vm, program) for program in called)

    def run(self, transaction: VersionedTransaction, verify_signatures: bool, keep: bool) -> Outcome:
        """Run a transaction. keep: keep its changes; otherwise undo all of them."""
        if verify_signatures and not all(transaction.verify_with_results()):
            return Outcome(False, "SignatureFailure", 0, 0, (), (), None)
        return _Run(self._vm, transaction).finished(keep)


@dataclass(slots=True)
class _Progress:
    units_left: int
    units: int = 0
    logs: list[str] = field(default_factory=list)
    inner: list[InnerInstructions] = field(default_factory=list)
    return_data: ReturnData | None = None

    def spend(self, units: int) -> None:
        self.units += units
        self.units_left = max(self.units_left - units, 0)


class _Run:
    """The run of one transaction."""

    def __init__(self, vm: Vm, transaction: VersionedTransaction) -> None:
        message = transaction.message
        decoded = _decoded(transaction, message)
        budget = compute_budget(decoded)
        self._vm, self._transaction, self._message = vm, transaction, message
        self._keys: LoadedKeys = load_keys(decoded, vm.account)
        self._writable = frozenset(self._keys.writable)
        self._instructions = decoded.instructions()
        self._imitated = {program for program in self._keys.all if is_performed(vm, program)}
        self._whole = Whole(
            keys=self._keys.all,
            positions={pubkey: index for index, pubkey in reversed(list(enumerate(self._keys.all)))},
            # Derived from the signature, which depends on the message, so no message can contain this address.
            sponsor=Pubkey.from_bytes(hashlib.sha256(b"sponsor" + bytes(decoded.signature)).digest()),
            heap_bytes=budget.heap_bytes,
        )
        self._progress = _Progress(budget.compute_unit_limit)

    def finished(self, keep: bool) -> Outcome:
        before = self._accounts()
        charged = self._charge()
        if not charged.landed or charged.err is not None:
            # The transaction is refused, or its compute budget is invalid (which costs the fee): nothing else ran.
            if not keep:
                self._put_back(before)
            return charged
        paid = self._accounts()
        err, landed = self._run_all()
        if not landed or not keep:
            self._put_back(before)
        elif err is not None:
            self._put_back(paid)
        return self._outcome(err, landed, charged.fee_lamports)

    def _outcome(self, err: Any, landed: bool, fee_lamports: int) -> Outcome:
        done = self._progress
        return Outcome(
            landed=landed,
            err=err,
            fee_lamports=fee_lamports if landed else 0,
            compute_units=done.units,
            logs=tuple(done.logs),
            inner=tuple(done.inner),
            return_data=done.return_data,
        )

    # The whole transaction.

    def _charge(self) -> Outcome:
        """Let the VM check and charge the transaction, with only the instructions that determine its fee."""
        kept = [index for index, one in enumerate(self._instructions) if self._program(one) in _CHARGED]
        message = _with_instructions(self._message, [self._instructions[index] for index in kept])
        stripped = VersionedTransaction.populate(message, self._transaction.signatures)
        outcome = self._vm.execute_plain(stripped, verify_signatures=False)
        return _renumbered(outcome, kept)

    def _run_all(self) -> tuple[Any, bool]:
        """Run all instructions. Returns the error, and whether the transaction belongs in a block."""
        for first, group in self._groups():
            program = self._program(group[0])
            if program in _CHARGED:
                self._note(program)
                continue
            imitated = program in self._imitated
            err, landed = self._imitate(first, group[0]) if imitated else self._run_real(first, group)
            if err is not None:
                return err, landed
        return None, True

    def _groups(self) -> Iterator[tuple[int, list[CompiledInstruction]]]:
        """Groups of instructions, each with the number of its first. Consecutive real instructions are one group."""
        group: list[CompiledInstruction] = []
        for index, instruction in enumerate(self._instructions):
            if self._program(instruction) in self._imitated or self._program(instruction) in _CHARGED:
                if group:
                    yield index - len(group), group
                    group = []
                yield index, [instruction]
            else:
                group.append(instruction)
        if group:
            yield len(self._instructions) - len(group), group

    def _note(self, program: Pubkey) -> None:
        """Log an instruction that `_charge` has already run."""
        done = self._progress
        done.logs += [f"Program {program} invoke [1]", f"Program {program} success"]
        if program == COMPUTE_BUDGET_PROGRAM:
            done.spend(_COMPUTE_BUDGET_UNITS)

    def _run_real(self, first: int, group: list[CompiledInstruction]) -> tuple[Any, bool]:
        done = self._progress
        piece = run_piece(self._vm, self._whole, [self._whole_instruction(one) for one in group], done.units_left)
        done.spend(piece.units)
        done.logs += piece.logs
        done.inner += [InnerInstructions(first + below.index, below.instructions) for below in piece.inner]
        done.return_data = piece.return_data
        if piece.failed_at is None:
            return piece.err, piece.landed
        return {"InstructionError": [first + piece.failed_at, piece.cause]}, piece.landed

    def _imitate(self, index: int, instruction: CompiledInstruction) -> tuple[Any, bool]:
        done = self._progress
        refs = tuple(self._ref(position) for position in instruction.accounts)
        program = self._program(instruction)
        stage = Stage(self._vm, self._whole, refs, bytes(instruction.data), done.units_left, program)
        fault = perform(stage)
        done.logs += lines_of(stage, fault)
        done.spend(stage.units)
        if stage.calls:
            done.inner.append(InnerInstructions(index, tuple(stage.calls)))
        done.return_data = stage.return_data
        if fault is None:
            return None, True
        return (fault.whole or {"InstructionError": [index, fault.cause]}), True

    # Accounts.

    def _program(self, instruction: CompiledInstruction) -> Pubkey:
        return self._keys.all[instruction.program_id_index]

    def _ref(self, position: int) -> Ref:
        signed = position < self._message.header.num_required_signatures
        return Ref(self._keys.all[position], signed, position in self._writable)

    def _whole_instruction(self, compiled: CompiledInstruction) -> Instruction:
        refs = [self._ref(position) for position in compiled.accounts]
        metas = [AccountMeta(ref.pubkey, ref.signer, ref.writable) for ref in refs]
        return Instruction(self._program(compiled), bytes(compiled.data), metas)

    def _accounts(self) -> list[tuple[Pubkey, Account | None]]:
        """The present write-locked accounts; the transaction can change no others."""
        return [(self._keys.all[index], self._vm.account(self._keys.all[index])) for index in self._keys.writable]

    def _put_back(self, accounts: list[tuple[Pubkey, Account | None]]) -> None:
        for pubkey, account in accounts:
            if account is None or not account.executable:
                self._vm.put(pubkey, account)


def _decoded(transaction: VersionedTransaction, message: AnyMessage) -> Decoded:
    return Decoded(
        raw=b"",  # Not needed here.
        transaction=transaction,
        message=message,
        signature=transaction.signatures[0],
        keys=tuple(message.account_keys),
        blockhash=message.recent_blockhash,
        version=None,
    )


def _with_instructions(message: AnyMessage, instructions: list[CompiledInstruction]) -> AnyMessage:
    header, keys, blockhash = message.header, message.account_keys, message.recent_blockhash
    if isinstance(message, MessageV0):
        return MessageV0(header, keys, blockhash, instructions, message.address_table_lookups)
    if isinstance(message, MessageV1):
        return MessageV1(header, message.config, blockhash, keys, instructions)
    return Message.new_with_compiled_instructions(
        header.num_required_signatures,
        header.num_readonly_signed_accounts,
        header.num_readonly_unsigned_accounts,
        keys,
        blockhash,
        instructions,
    )


def _renumbered(outcome: Outcome, kept: list[int]) -> Outcome:
    """The outcome with instruction numbers of the whole transaction."""
    err = outcome.err
    if isinstance(err, dict):
        name, detail = next(iter(err.items()))
        if name == "InstructionError":
            err = {name: [kept[detail[0]], detail[1]]}
        elif name == "DuplicateInstruction":
            err = {name: kept[detail]}
    return Outcome(outcome.landed, err, outcome.fee_lamports, outcome.compute_units, outcome.logs, outcome.inner, None)
