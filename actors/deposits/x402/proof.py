"""Whether a stored payment can be what this service checked and signed. The database alone proves no payment.

Implements: decisions, "Two ways to pay by x402". The product's database role can insert and change rows, so a row is
used only if its own transaction proves it: the same rules accept the transaction again, the row says what the
transaction says, and the sponsor's valid signature is on it. Only a process of this service has the sponsor's key.
Pure: takes a record and the rules in force.
"""

from actors.deposits.x402.rules import Payment, Rules, Unfit, check_relayed, check_standard
from actors.deposits.x402.states import PaymentKind, PaymentState, Record


def fault_of(record: Record, rules: Rules) -> str | None:
    """Return the reason why this record is not to be used. None: its transaction proves it, or it is not signed yet and
    nothing of it is ever sent or credited."""
    if record.state is PaymentState.CLAIMED and not record.signature:
        return None
    if record.kind is PaymentKind.STANDARD:
        payment = check_standard(record.transaction, rules, least_base_units=0)
    else:
        payment = check_relayed(record.transaction, rules)
    if isinstance(payment, Unfit):
        return f"its stored transaction is no payment: {payment.message}"
    return _difference(record, payment) or _sponsor_fault(payment, rules)


def _difference(record: Record, payment: Payment) -> str | None:
    said = {
        "signature": (record.signature, bytes(payment.transaction.signatures[0])),
        "message hash": (record.message_hash, payment.message_hash),
        "payer": (record.payer, bytes(payment.payer)),
        "source": (record.source, bytes(payment.source)),
        "amount": (record.amount_base_units, payment.amount_base_units),
        "kind": (record.kind is not PaymentKind.SELF_PAID, payment.sponsored),
    }
    wrong = [name for name, (stored, signed) in said.items() if stored != signed]
    return f"its stored transaction has another {', '.join(wrong)}" if wrong else None


def _sponsor_fault(payment: Payment, rules: Rules) -> str | None:
    """Check the sponsor's signature, which the rules do not: they judge a payment before the sponsor signs it."""
    if not payment.sponsored:
        return None
    assert rules.sponsor is not None, "a sponsored payment without a sponsor in the rules"
    valid = payment.transaction.signatures[0].verify(rules.sponsor, payment.message)
    return None if valid else "the sponsor's signature on its stored transaction is not valid"
