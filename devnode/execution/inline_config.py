"""Limits of a transaction that this VM does not apply itself: loaded data, and the limits in a v1 header.

Implements: the number of bytes a transaction loads (64 and the data for each account, a program's own data, 8,248 for
each lookup table), and the form of a v1 transaction for the VM. Compute budget instructions have no effect in v1, but
this VM would apply them, so they are replaced by instructions that set the defaults. Signatures, keys, indexes and the
other instructions stay. The chain verifies, stores and shows the transaction as it was sent.
Pure. Not here: reading the limits (fees.py), running (execution.py).
"""

from collections.abc import Callable, Iterable

from solders.account import Account
from solders.instruction import CompiledInstruction
from solders.message import MessageV0, MessageV1
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from devnode.encoding.addresses import COMPUTE_BUDGET_PROGRAM, UPGRADEABLE_LOADER
from devnode.encoding.wire import Decoded

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
