"""An auditor who trusts nobody: recomputes a ledger from its entries alone.

Written from the money rules and from the description of the hash chain, not from the code that it audits; it shares
with that code the names of entry types and nothing else. Gives sentences, an empty list when all is well.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

DEPOSIT, BONUS, DEBIT, REFUND, ADJUSTMENT, EXPIRY, FACT = range(7)
SIGN = {DEPOSIT: 1, BONUS: 1, DEBIT: -1, REFUND: 1, EXPIRY: -1}


@dataclass
class Line:
    """One entry as anybody reads it from the ledger."""

    seq: int
    at_ms: int
    type: int
    amount: int
    balance: int
    operation: bytes
    method: str
    outcome: int
    description: str
    parcels: str
    hash: bytes


@dataclass
class Audited:
    """What the entries say an account must be."""

    balance: int = 0
    consumed: int = 0
    seq: int = 0
    at_ms: int = 0
    hash: bytes = b""
    batches: dict[int, int] = field(default_factory=dict)
    charged: dict[bytes, int] = field(default_factory=dict)  # Operation to credits, refunds taken off.
    refunded: set[bytes] = field(default_factory=set)


def audit(pubkey: bytes, lines: Iterable[Line], expiries: Mapping[int, int]) -> tuple[Audited, list[str]]:
    """expiries: when each batch expires, to check that the oldest is spent first."""
    account = Audited(hash=hashlib.sha256(b"ledger-gateway account " + pubkey).digest())
    faults: list[str] = []
    for line in lines:
        faults += [f"entry {line.seq}: {fault}" for fault in _faults(account, line, expiries)]
    return account, faults


def _faults(account: Audited, line: Line, expiries: Mapping[int, int]) -> list[str]:
    faults = []
    if line.seq != account.seq + 1:
        faults.append(f"follows {account.seq}")
    if line.at_ms < account.at_ms:
        faults.append("is earlier than the entry before")
    if (line.amount == 0) != (line.type == FACT) or line.amount * SIGN.get(line.type, line.amount) < 0:
        faults.append(f"type {line.type} moves {line.amount}")
    if line.balance != account.balance + line.amount or line.balance < 0:
        faults.append(f"balance {line.balance} after {account.balance} and {line.amount}")
    text = ",".join(
        [
            str(line.seq),
            str(line.at_ms),
            str(int(line.type)),
            str(line.amount),
            str(line.balance),
            str(int(line.outcome)),
            line.operation.hex(),
            line.parcels,
            f"{len(line.method)}:{line.method}",
            line.description,
        ]
    )
    if hashlib.sha256(account.hash + text.encode()).digest() != line.hash:
        faults.append("breaks the chain")
    faults += _operation_faults(account, line)
    faults += _batch_faults(account, line, expiries)
    account.seq, account.at_ms, account.hash, account.balance = line.seq, line.at_ms, line.hash, line.balance
    return faults


def _operation_faults(account: Audited, line: Line) -> list[str]:
    faults = []
    if line.type == DEBIT:
        if line.operation in account.charged:
            faults.append("debits an operation again")
        account.charged[line.operation] = -line.amount
        account.consumed -= line.amount
    if line.type == REFUND:
        if account.charged.get(line.operation) != line.amount or line.operation in account.refunded:
            faults.append("refunds what was not charged")
        account.refunded.add(line.operation)
        account.charged[line.operation] = 0
        account.consumed -= line.amount
    return faults


def _batch_faults(account: Audited, line: Line, expiries: Mapping[int, int]) -> list[str]:
    faults = []
    before = dict(account.batches)
    touched = []
    for part in line.parcels.split():
        number, delta = (int(piece) for piece in part.split(":"))
        account.batches[number] = account.batches.get(number, 0) + delta
        touched.append(number)
        if account.batches[number] < 0:
            faults.append(f"overdraws batch {number}")
    moved = sum(account.batches.values()) - sum(before.values())
    if moved != line.amount:
        faults.append(f"moves {moved} between batches")
    if line.amount < 0 and touched:
        last = max((expiries[number], number) for number in touched)
        skipped = [number for number, left in account.batches.items() if left and (expiries[number], number) < last]
        if skipped:
            faults.append(f"passes over the older batches {skipped}")
    if line.type == EXPIRY and any(expiries[number] * 1000 > line.at_ms for number in touched):
        faults.append("expires credits before their time")
    return faults
