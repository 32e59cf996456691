"""A router: a program of devnode's own that calls other programs from inside one instruction.

Implements: trades that arrive as inner instructions, as those of real routers do. A route is a list of legs; each leg
names its program by the first of its accounts. Every account of a leg keeps the flags that the router was given.
No real router is imitated, so the layout is this module's: `Routed` plus a count, and for each leg the number of its
accounts (u8), the length of its data (u16) and the data.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence

from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey

from devnode.launchpad.faults import Fault
from devnode.launchpad.stage import Ref, Stage

# An address without a private key.
ROUTER = Pubkey.find_program_address([b"devnode router"], Pubkey.default())[0]
DISCRIMINATOR = hashlib.sha256(b"global:route").digest()[:8]
_OWN_UNITS = 2_000
Perform = Callable[[Stage], tuple[Fault | None, Sequence[str]]]  # The failure, and the log lines.


def route_instruction(legs: Sequence[Instruction]) -> Instruction:
    """Build a route of these instructions, in their order."""
    assert 0 < len(legs) < 256
    data, metas = DISCRIMINATOR + bytes((len(legs),)), []
    for leg in legs:
        metas += [AccountMeta(leg.program_id, False, False), *leg.accounts]
        data += bytes((len(leg.accounts),)) + len(leg.data).to_bytes(2, "little") + bytes(leg.data)
    return Instruction(ROUTER, data, metas)


def route(stage: Stage, perform: Perform, is_performed: Callable[[Pubkey], bool]) -> None:
    """Perform all legs. perform: performs an inner instruction of an imitated program; other programs run on the VM."""
    stage.spend(_OWN_UNITS)
    for program, refs, data in _legs(stage):
        metas = [AccountMeta(ref.pubkey, ref.signer, ref.writable) for ref in refs]
        instruction = Instruction(program, data, metas)
        if not is_performed(program):
            stage.call(instruction)
            continue
        inner = stage.inner_stage(instruction, refs)
        fault, lines = perform(inner)
        stage.take(inner, lines)
        if fault is not None:
            raise Fault(fault.cause, whole=fault.whole)


def _legs(stage: Stage) -> Iterator[tuple[Pubkey, tuple[Ref, ...], bytes]]:
    data, refs = stage.data, stage.refs
    if data[:8] != DISCRIMINATOR or len(data) < 9:
        raise Fault.number(101)
    offset, taken = 9, 0
    for _ in range(data[8]):
        if offset + 3 > len(data):
            raise Fault.number(102)
        count, size = data[offset], int.from_bytes(data[offset + 1 : offset + 3], "little")
        offset += 3
        if offset + size > len(data):
            raise Fault.number(102)
        if taken + 1 + count > len(refs):
            raise Fault.number(3005)
        yield refs[taken].pubkey, refs[taken + 1 : taken + 1 + count], data[offset : offset + size]
        offset, taken = offset + size, taken + 1 + count
