"""Parts of a transaction, run on the VM as transactions of their own.

Implements: a run of some instructions for a transaction that is charged and signed elsewhere: a sponsor pays the VM's
fee, signers are believed, the compute limit is what the whole has left. Results come back in the terms of the whole:
indexes into its accounts, its instruction numbers, its depth of calls.
Changes the VM only. Not here: atomicity and fees of the whole (imitation.py).
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

from actors.devnode.chain.records import InnerInstruction, InnerInstructions, ReturnData
from actors.devnode.encoding.addresses import RENT_EPOCH_EXEMPT, SYSTEM_PROGRAM
from actors.devnode.execution.vm import Vm

_SPONSOR_LAMPORTS = 10**12
# Not verified, and not all zeros: by that the VM marks what it has refused.
_SOME_SIGNATURE = Signature.from_bytes(b"\x01" * 64)
_INVOKE = re.compile(r"(Program \w+ invoke \[)(\d+)\]")


@dataclass(frozen=True, slots=True)
class Whole:
    """The transaction that the pieces belong to."""

    keys: tuple[Pubkey, ...]
    positions: dict[Pubkey, int]
    sponsor: Pubkey  # An address that the transaction cannot name.
    heap_bytes: int


@dataclass(frozen=True, slots=True)
class Piece:
    """failed_at: which of the piece's instructions; None where the error is not one instruction's."""

    err: Any
    failed_at: int | None
    landed: bool
    units: int
    logs: tuple[str, ...]
    inner: tuple[InnerInstructions, ...]  # By number of the piece's instruction.
    return_data: ReturnData | None

    @property
    def cause(self) -> Any:
        """What went wrong inside the failed instruction."""
        assert self.failed_at is not None, self
        return self.err["InstructionError"][1]


def run_piece(vm: Vm, whole: Whole, instructions: Sequence[Instruction], units_left: int, depth: int = 0) -> Piece:
    """depth: how many calls deep the instructions are in the whole; 0 for the transaction's own.

    An account left below its rent is an error here already, although the whole might still mend it.
    """
    message = MessageV0.try_compile(whole.sponsor, list(instructions), [], Hash.default())
    signatures = [_SOME_SIGNATURE] * message.header.num_required_signatures
    vm.put(whole.sponsor, Account(_SPONSOR_LAMPORTS, b"", SYSTEM_PROGRAM, False, RENT_EPOCH_EXEMPT))
    vm.limit(units_left, whole.heap_bytes)
    try:
        outcome = vm.execute_plain(VersionedTransaction.populate(message, signatures), verify_signatures=False)
    finally:
        vm.put(whole.sponsor, None)
    # The sponsor itself is named by no instruction.
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
