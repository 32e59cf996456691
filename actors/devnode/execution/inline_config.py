"""What this VM does not know of a transaction's own limits, and above all of v1, which states them in its header.

Implements: how many bytes a transaction loads (64 and the data for each account, a program's own data, 8,248 for each
lookup table), and the form in which a v1 transaction is given to the VM: there its compute budget instructions ask
for nothing, but this VM would heed them, so they are rewritten to ask for what changes nothing. Signatures, keys,
indexes and the other instructions stay; what is signed, stored and shown is always the transaction as it was sent.
Pure. Not here: reading the limits (fees.py), running (execution.py).
"""

from collections.abc import Callable, Iterable

from solders.account import Account
from solders.instruction import CompiledInstruction
from solders.message import MessageV0, MessageV1
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from actors.devnode.encoding.addresses import COMPUTE_BUDGET_PROGRAM, UPGRADEABLE_LOADER
from actors.devnode.encoding.wire import Decoded

ACCOUNT_BYTES = 64  # Charged for each account beside its data (SIMD-0186).
LOOKUP_TABLE_BYTES = 8_248  # Charged for each table, full or not.
_PROGRAM_DATA_KEY = slice(4, 36)  # In the account of an upgradeable program.

# Each kind may appear once, or the VM refuses: price 0, largest unit limit, usual heap, largest data size. The limits
# that count are set on the VM itself.
_HARMLESS = (
    b"\x03" + bytes(8),
    b"\x02" + (1_400_000).to_bytes(4, "little"),
    b"\x01" + (32_768).to_bytes(4, "little"),
    b"\x04" + (64 * 1024 * 1024).to_bytes(4, "little"),
)


def for_vm(decoded: Decoded) -> VersionedTransaction:
    """The transaction that the VM runs; another object than `decoded.transaction` where its signatures do not fit."""
    message = decoded.message
    if not isinstance(message, MessageV1) or COMPUTE_BUDGET_PROGRAM not in decoded.keys:
        return decoded.transaction
    program_index = decoded.keys.index(COMPUTE_BUDGET_PROGRAM)
    harmless = iter(_HARMLESS)
    instructions = [
        CompiledInstruction(
            program_id_index=program_index, data=next(harmless, instruction.data), accounts=instruction.accounts
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
    """accounts: of all keys of the transaction, looked-up ones included. Accounts that do not exist weigh nothing."""
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
