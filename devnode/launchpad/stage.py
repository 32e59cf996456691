"""The environment of one imitated instruction: accounts, calls to programs, logs, inner instructions, compute units.

Implements: calls to real programs, run on the VM, for which the program may sign with its own addresses; calls to
programs that are imitated too; Anchor's events; moving lamports out of accounts that the program owns; compute units.
A call runs as a separate transaction, a piece of the whole. The whole is charged and its signatures are checked
elsewhere, so here a sponsor pays the VM's fee, signatures are not checked, and the compute limit is the rest of the
whole's. Results are translated to the whole: account indexes, instruction numbers, call depth.
Changes the VM only; after a Fault, imitation.py restores the accounts.
Not here: the instructions (creating.py, trading.py, migrating.py), atomicity and fee of the whole (imitation.py).
"""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from solders.account import Account
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from actors.launch_programs.addresses import EVENT_AUTHORITY, PUMP
from actors.launch_programs.events import Event, log_line, self_cpi_data
from devnode.encoding.addresses import RENT_EPOCH_EXEMPT, SYSTEM_PROGRAM
from devnode.execution.vm import Vm
from devnode.launchpad.faults import Fault
from devnode.records.records import InnerInstruction, InnerInstructions, ReturnData

_SPONSOR_LAMPORTS = 10**12
# Never verified. Not all zeros, because the VM marks refused transactions with an all-zero signature.
_SOME_SIGNATURE = Signature.from_bytes(b"\x01" * 64)
_INVOKE = re.compile(r"(Program \w+ invoke \[)(\d+)\]")
EVENT_UNITS = 2_125  # The compute units of the self-CPI with an event, from samples of the chain.


@dataclass(frozen=True, slots=True)
class Whole:
    """The transaction that a piece is a part of."""

    keys: tuple[Pubkey, ...]
    positions: dict[Pubkey, int]
    sponsor: Pubkey  # An address that the transaction cannot contain.
    heap_bytes: int


@dataclass(frozen=True, slots=True)
class Piece:
    """The result of a piece. failed_at: the failed instruction of the piece; None without an instruction error."""

    err: Any
    failed_at: int | None
    landed: bool
    units: int
    logs: tuple[str, ...]
    inner: tuple[InnerInstructions, ...]  # With instruction numbers of the piece.
    return_data: ReturnData | None

    @property
    def cause(self) -> Any:
        """The error of the failed instruction."""
        assert self.failed_at is not None, self
        return self.err["InstructionError"][1]


def run_piece(vm: Vm, whole: Whole, instructions: Sequence[Instruction], units_left: int, depth: int = 0) -> Piece:
    """Run some instructions. depth: their call depth in the whole transaction; 0 for its own instructions.

    An account below its rent is already an error at the end of a piece, also if a later instruction would add to it.
    """
    message = MessageV0.try_compile(whole.sponsor, list(instructions), [], Hash.default())
    signatures = [_SOME_SIGNATURE] * message.header.num_required_signatures
    vm.put(whole.sponsor, Account(_SPONSOR_LAMPORTS, b"", SYSTEM_PROGRAM, False, RENT_EPOCH_EXEMPT))
    vm.limit(units_left, whole.heap_bytes)
    try:
        outcome = vm.execute_plain(VersionedTransaction.populate(message, signatures), verify_signatures=False)
    finally:
        vm.put(whole.sponsor, None)
    # The sponsor gets index 0, but no instruction uses it.
    keys = [whole.positions.get(key, 0) for key in message.account_keys]
    err, failed_at = _translated(outcome.err, keys)
    return Piece(
        err=err,
        failed_at=failed_at,
        landed=outcome.landed,
        units=outcome.compute_units,
        logs=tuple(_deeper(line, depth) for line in outcome.logs) if depth else outcome.logs,
        inner=tuple(_group(group, keys, depth) for group in outcome.inner),
        return_data=outcome.return_data,
    )


def _translated(err: Any, keys: list[int]) -> tuple[Any, int | None]:
    if not isinstance(err, dict):
        return err, None
    name, detail = next(iter(err.items()))
    if name == "InstructionError":
        return err, detail[0]
    if isinstance(detail, dict) and "account_index" in detail:
        return {name: {"account_index": keys[detail["account_index"]]}}, None
    return err, None


def _group(group: InnerInstructions, keys: list[int], depth: int) -> InnerInstructions:
    calls = tuple(
        InnerInstruction(
            program_index=keys[call.program_index],
            accounts=bytes(keys[index] for index in call.accounts),
            data=call.data,
            stack_height=call.stack_height + depth,
        )
        for call in group.instructions
    )
    return InnerInstructions(group.index, calls)


def _deeper(line: str, depth: int) -> str:
    return _INVOKE.sub(lambda found: f"{found[1]}{int(found[2]) + depth}]", line)


@dataclass(frozen=True, slots=True)
class Ref:
    """An account that the transaction passes to the instruction, with its flags."""

    pubkey: Pubkey
    signer: bool
    writable: bool


@dataclass(slots=True)
class Stage:
    vm: Vm
    whole: Whole
    refs: tuple[Ref, ...]
    data: bytes
    units_max: int
    program: Pubkey = PUMP
    depth: int = 1  # Of the instruction in the transaction; above 1 inside a router.
    units: int = 0
    logs: list[str] = field(default_factory=list)
    calls: list[InnerInstruction] = field(default_factory=list)
    return_data: ReturnData | None = None
    _placed: set[Pubkey] = field(default_factory=set)

    # Reading.

    def account(self, pubkey: Pubkey) -> Account | None:
        return self.vm.account(pubkey)

    def lamports(self, pubkey: Pubkey) -> int:
        account = self.vm.account(pubkey)
        return 0 if account is None else account.lamports

    def rent(self, data_bytes: int) -> int:
        return self.vm.rent_exempt_lamports(data_bytes)

    @property
    def timestamp(self) -> int:
        return self.vm.unix_time

    # Acting.

    def spend(self, units: int) -> None:
        self.units += units
        if self.units > self.units_max:
            self.units = self.units_max
            raise Fault("ComputationalBudgetExceeded", ("Program log: exceeded CUs meter",))

    def log(self, text: str) -> None:
        self.logs.append(f"Program log: {text}")

    def call(self, *instructions: Instruction, depth: int | None = None) -> None:
        """Run real instructions on the VM, in one piece. Signatures are not checked: the program signs for its own
        addresses. depth: of the caller; None: this instruction's."""
        if not instructions:
            return
        depth = depth or self.depth
        for instruction in instructions:
            self._check_privileges(instruction)
        piece = run_piece(self.vm, self.whole, instructions, self.units_max - self.units, depth)
        self.units += piece.units
        self.logs += piece.logs
        below = {group.index: group.instructions for group in piece.inner}
        reached = len(instructions) if piece.failed_at is None else piece.failed_at + 1
        for index, instruction in enumerate(instructions[:reached]):
            self.calls.append(self._inner(instruction, depth + 1))
            self.calls += below.get(index, ())
        if piece.failed_at is not None:
            raise Fault(piece.cause)
        if piece.err is not None:
            raise Fault(None, whole=piece.err)

    def pretend(
        self,
        instruction: Instruction,
        lines: Sequence[str],
        units: int,
        children: Sequence[Instruction] = (),
        event: tuple[Event, Pubkey] | None = None,
        returned: bytes = b"",
    ) -> None:
        """Record a call to a program that is imitated too. children: real calls that it makes; event: an event that it
        emits, with its event authority."""
        self._check_privileges(instruction)
        name = instruction.program_id
        depth = self.depth + 1
        self.calls.append(self._inner(instruction, depth))
        self.logs.append(f"Program {name} invoke [{depth}]")
        self.logs += [f"Program log: {line}" for line in lines]
        left = self.units_max - self.units
        if children:
            self.call(*children, depth=depth)
        if event is not None:
            self.emit(event[0], name, event[1], depth)
        self.spend(units)
        self.logs.append(f"Program {name} consumed {left - (self.units_max - self.units)} of {left} compute units")
        if returned:
            self.logs.append(f"Program return: {name} {base64.b64encode(returned).decode()}")
            self.return_data = ReturnData(str(name), returned)
        self.logs.append(f"Program {name} success")

    def emit(
        self, event: Event, program: Pubkey = PUMP, authority: Pubkey = EVENT_AUTHORITY, depth: int | None = None
    ) -> None:
        """Emit an event as Anchor does: a log line, and a call of the program to itself."""
        depth = depth or self.depth
        call = Instruction(program, self_cpi_data(event), [AccountMeta(authority, False, False)])
        self._check_privileges(call)
        self.logs.append(log_line(event))
        self.calls.append(self._inner(call, depth + 1))
        left = self.units_max - self.units
        self.logs.append(f"Program {program} invoke [{depth + 1}]")
        self.spend(EVENT_UNITS)
        self.logs.append(f"Program {program} consumed {EVENT_UNITS} of {left} compute units")
        self.logs.append(f"Program {program} success")

    def inner_stage(self, instruction: Instruction, refs: tuple[Ref, ...]) -> "Stage":
        """Call another imitated program, and return the environment of its instruction. `take` ends the call."""
        self._check_privileges(instruction)
        self.calls.append(self._inner(instruction, self.depth + 1))
        left = self.units_max - self.units
        return Stage(self.vm, self.whole, refs, bytes(instruction.data), left, instruction.program_id, self.depth + 1)

    def take(self, inner: "Stage", lines: Sequence[str]) -> None:
        """End a call of `inner_stage`. lines: its log, as the runtime wraps it."""
        self.calls += inner.calls
        self.logs += lines
        self.return_data = inner.return_data
        self.spend(inner.units)

    def write(self, pubkey: Pubkey, data: bytes) -> None:
        """Set the data of an account that the program owns, and keep its lamports."""
        account = self.vm.account(pubkey)
        assert account is not None, pubkey
        self._place(pubkey, Account(account.lamports, data, account.owner, False, account.rent_epoch))

    def move(self, source: Pubkey, target: Pubkey, lamports: int) -> None:
        """Move lamports out of an account that the program owns."""
        if lamports == 0 or source == target:
            return
        account = self.vm.account(source)
        if account is None or account.lamports < lamports:
            raise Fault("InsufficientFunds")
        self._place(source, _with_lamports(account, account.lamports - lamports))
        receiver = self.vm.account(target) or Account(0, b"", SYSTEM_PROGRAM, False, RENT_EPOCH_EXEMPT)
        self._place(target, _with_lamports(receiver, receiver.lamports + lamports))

    def finish(self) -> None:
        """Refuse accounts that the program wrote and that are not rent-exempt, as the runtime does."""
        for pubkey in self._placed:
            account = self.vm.account(pubkey)
            if account is not None and account.lamports < self.rent(len(account.data)):
                index = self.whole.positions[pubkey]
                raise Fault(None, whole={"InsufficientFundsForRent": {"account_index": index}})

    def _check_privileges(self, instruction: Instruction) -> None:
        """Refuse a call with an account that the instruction does not have, or with one that is read-only to write."""
        given = {ref.pubkey: ref.writable for ref in self.refs}
        for meta in instruction.accounts:
            if meta.pubkey not in given:
                raise Fault("MissingAccount")
            if meta.is_writable and not given[meta.pubkey]:
                raise Fault("PrivilegeEscalation")
        if instruction.program_id not in given:
            raise Fault("MissingAccount")

    def _place(self, pubkey: Pubkey, account: Account) -> None:
        self._placed.add(pubkey)
        self.vm.put(pubkey, account)

    def _inner(self, instruction: Instruction, stack_height: int) -> InnerInstruction:
        positions = self.whole.positions
        accounts = bytes(positions[meta.pubkey] for meta in instruction.accounts)
        return InnerInstruction(positions[instruction.program_id], accounts, bytes(instruction.data), stack_height)


def _with_lamports(account: Account, lamports: int) -> Account:
    return Account(lamports, account.data, account.owner, account.executable, account.rent_epoch)
