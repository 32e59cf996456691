"""Runs a part of a transaction's instructions on the VM, as a separate transaction.

Implements: the whole transaction is charged and its signatures are checked elsewhere, so here a sponsor pays the VM's
fee, signatures are not checked, and the compute limit is the rest of the whole's. Results are translated to the whole
transaction: account indexes, instruction numbers, call depth.
Changes the VM only. Not here: atomicity and fee of the whole (imitation.py).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from solders.account import Account
from solders.hash import Hash
from solders.instruction import Instruction
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from devnode.encoding.addresses import RENT_EPOCH_EXEMPT, SYSTEM_PROGRAM
from devnode.execution.vm import Vm
from devnode.records.records import InnerInstruction, InnerInstructions, ReturnData

_SPONSOR_LAMPORTS = 10**12
# Never verified. Not all zeros, because the VM marks refused transactions with an all-zero signature.
_SOME_SIGNATURE = Signature.from_bytes(b"\x01" * 64)
_INVOKE = re.compile(r"(Program \w+ invoke \[)(\d+)\]")


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
