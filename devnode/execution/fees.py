"""The cost and the limits of a transaction.

Implements: 5,000 lamports a signature (signatures of the precompiles included); priority fee = price times limit,
rounded up, or the inline total of v1 in lamports; the price for getRecentPrioritizationFees, recomputed from the fee;
limits of compute units, heap and loaded account data. A v1 transaction states its limits in its header; a missing unit
or data limit is zero, and its compute budget instructions have no effect.
This VM does not apply all of it, so here are also the number of bytes a transaction loads (64 and the data for each
account, a program's own data, 8,248 for each lookup table), and the form of a v1 transaction for the VM: this VM would
apply its compute budget instructions, so they are replaced by instructions that set the defaults. Signatures, keys,
indexes and the other instructions stay. The chain verifies, stores and shows the transaction as it was sent.
Pure. Not here: charging (the VM charges; execution.py adds the inline fee of v1, which this VM lacks).
"""

from collections.abc import Callable, Iterable

import msgspec
from solders.account import Account
from solders.instruction import CompiledInstruction
from solders.message import MessageV0, MessageV1
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

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
ACCOUNT_BYTES = 64  # Charged for each account beside its data (SIMD-0186).
LOOKUP_TABLE_BYTES = 8_248  # Charged for each table, full or not.
_PROGRAM_DATA_KEY = slice(4, 36)  # In the account of an upgradeable program.
# Price 0, largest unit limit, default heap, largest data size. Each may appear once, or the VM refuses the
# transaction. The real limits are set on the VM itself.
_NEUTRAL = (
    b"\x03" + bytes(8),
    b"\x02" + (1_400_000).to_bytes(4, "little"),
    b"\x01" + (32_768).to_bytes(4, "little"),
    b"\x04" + (64 * 1024 * 1024).to_bytes(4, "little"),
)


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


def for_vm(decoded: Decoded) -> VersionedTransaction:
    """The transaction for the VM to run. If it is not the object `decoded.transaction`, its signatures are invalid."""
    message = decoded.message
    if not isinstance(message, MessageV1) or COMPUTE_BUDGET_PROGRAM not in decoded.keys:
        return decoded.transaction
    program_index = decoded.keys.index(COMPUTE_BUDGET_PROGRAM)
    neutral = iter(_NEUTRAL)
    instructions = [
        CompiledInstruction(
            program_id_index=program_index, data=next(neutral, instruction.data), accounts=instruction.accounts
        )
        if instruction.program_id_index == program_index
        else instruction
        for instruction in message.instructions
    ]
    rewritten = MessageV1(message.header, message.config, message.recent_blockhash, message.account_keys, instructions)
    return VersionedTransaction.populate(rewritten, decoded.transaction.signatures)


def loaded_data_bytes(
    decoded: Decoded, accounts: Iterable[Account | None], read: Callable[[Pubkey], Account | None]
) -> int:
    """The number of bytes that the transaction loads. Accounts that do not exist count as zero.

    accounts: those of all keys of the transaction, with the ones from lookup tables."""
    total = 0
    for account in accounts:
        if account is None:
            continue
        total += ACCOUNT_BYTES + len(account.data)
        if account.executable and account.owner == UPGRADEABLE_LOADER:
            program_data = read(Pubkey.from_bytes(account.data[_PROGRAM_DATA_KEY]))
            total += 0 if program_data is None else ACCOUNT_BYTES + len(program_data.data)
    if isinstance(decoded.message, MessageV0):
        total += LOOKUP_TABLE_BYTES * len(decoded.message.address_table_lookups)
    return total
