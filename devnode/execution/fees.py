"""The cost of a transaction: signature fees, priority fee and compute budget.

Implements: 5,000 lamports a signature (signatures of the precompiles included); priority fee = price times limit,
rounded up, or the inline total of v1 in lamports; the price for getRecentPrioritizationFees, recomputed from the fee;
limits of compute units, heap and loaded account data. A v1 transaction states its limits in its header; a missing unit
or data limit is zero, and its compute budget instructions have no effect.
Pure. Not here: charging (the VM charges; execution.py adds the inline fee of v1, which this VM lacks).
"""

import msgspec
from solders.message import MessageV1
from solders.pubkey import Pubkey

from devnode.encoding.addresses import (
    COMPUTE_BUDGET_PROGRAM,
    PRECOMPILES,
    SYSTEM_PROGRAM,
    UPGRADEABLE_LOADER,
    VOTE_PROGRAM,
)
from devnode.encoding.wire import Decoded

LAMPORTS_PER_SIGNATURE = 5_000
COMPUTE_UNITS_PER_INSTRUCTION = 200_000  # Default for an instruction of an ordinary program.
COMPUTE_UNITS_PER_BUILTIN = 3_000  # Default for an instruction of a builtin program.
COMPUTE_UNITS_MAX = 1_400_000
HEAP_BYTES = 32_768
LOADED_DATA_BYTES_MAX = 64 * 1024 * 1024
MICRO_LAMPORTS_PER_LAMPORT = 1_000_000
_REQUEST_HEAP_FRAME = 1
_SET_COMPUTE_UNIT_LIMIT = 2
_SET_COMPUTE_UNIT_PRICE = 3
_SET_LOADED_DATA_LIMIT = 4
_BUILTINS = PRECOMPILES | {
    SYSTEM_PROGRAM,
    COMPUTE_BUDGET_PROGRAM,
    VOTE_PROGRAM,
    UPGRADEABLE_LOADER,
    Pubkey.from_string("BPFLoader1111111111111111111111111111111111"),
    Pubkey.from_string("BPFLoader2111111111111111111111111111111111"),
    Pubkey.from_string("LoaderV411111111111111111111111111111111111"),
}


class ComputeBudget(msgspec.Struct, frozen=True):
    signature_fee_lamports: int
    priority_fee_lamports: int
    compute_unit_limit: int
    heap_bytes: int = HEAP_BYTES
    loaded_data_bytes_max: int = LOADED_DATA_BYTES_MAX

    @property
    def fee_lamports(self) -> int:
        return self.signature_fee_lamports + self.priority_fee_lamports

    @property
    def price_micro_lamports(self) -> int:
        """Micro-lamports per unit, recomputed from the priority fee as a node's fee cache does."""
        if self.compute_unit_limit == 0:
            return 0
        return self.priority_fee_lamports * MICRO_LAMPORTS_PER_LAMPORT // self.compute_unit_limit


def compute_budget(decoded: Decoded) -> ComputeBudget:
    keys = decoded.keys
    signatures = decoded.message.header.num_required_signatures
    limit: int | None = None
    price = default_limit = 0
    heap, loaded = HEAP_BYTES, LOADED_DATA_BYTES_MAX
    for instruction in decoded.message.instructions:
        program = keys[instruction.program_id_index]
        data = instruction.data
        if program == COMPUTE_BUDGET_PROGRAM:
            if len(data) >= 5 and data[0] == _SET_COMPUTE_UNIT_LIMIT:
                limit = int.from_bytes(data[1:5], "little")
            elif len(data) >= 9 and data[0] == _SET_COMPUTE_UNIT_PRICE:
                price = int.from_bytes(data[1:9], "little")
            elif len(data) >= 5 and data[0] == _REQUEST_HEAP_FRAME:
                heap = int.from_bytes(data[1:5], "little")
            elif len(data) >= 5 and data[0] == _SET_LOADED_DATA_LIMIT:
                loaded = min(int.from_bytes(data[1:5], "little"), LOADED_DATA_BYTES_MAX)
        elif program in PRECOMPILES and data:
            signatures += data[0]
        default_limit += COMPUTE_UNITS_PER_BUILTIN if program in _BUILTINS else COMPUTE_UNITS_PER_INSTRUCTION
    signature_fee = signatures * LAMPORTS_PER_SIGNATURE
    if isinstance(decoded.message, MessageV1):
        config = decoded.message.config
        units = min(config.compute_unit_limit or 0, COMPUTE_UNITS_MAX)
        loaded = min(config.loaded_accounts_data_size_limit or 0, LOADED_DATA_BYTES_MAX)
        return ComputeBudget(signature_fee, config.priority_fee or 0, units, config.heap_size or HEAP_BYTES, loaded)
    units = min(default_limit if limit is None else limit, COMPUTE_UNITS_MAX)
    priority_fee = -(-price * units // MICRO_LAMPORTS_PER_LAMPORT)
    return ComputeBudget(signature_fee, min(priority_fee, 2**64 - 1), units, heap, loaded)
