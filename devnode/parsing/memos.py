"""The memo of a transaction, as getSignaturesForAddress shows it.

Implements: `[length] text` for each memo instruction, joined by "; ". Pure.
"""

from devnode.encoding.addresses import MEMO_PROGRAMS
from devnode.records.records import TransactionRecord

_PROGRAMS = frozenset(map(str, MEMO_PROGRAMS))


def memo_text(record: TransactionRecord) -> str | None:
    """Memos of the outer instructions; None if there is none."""
    if _PROGRAMS.isdisjoint(record.keys):  # True for most transactions, which need no parsing.
        return None
    memos = []
    for instruction in record.transaction().message.instructions:
        if record.keys[instruction.program_id_index] in _PROGRAMS:
            data = instruction.data
            try:
                text = data.decode()
            except UnicodeDecodeError:
                text = "(unparseable)"
            memos.append(f"[{len(data)}] {text}")
    return "; ".join(memos) or None
