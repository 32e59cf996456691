"""What the audit asks the database about all accounts at once: entries, marks, deposits and usage that disagree.

Implements: money rule 6. Faults that one pass over an account's entries finds only if it keeps them all; the database
sorts instead. Each query gives the public key and what the fault is about. Not here: running them (audit.py).
"""

from actors.accounts.account import MarkKind
from actors.accounts.audit_facts import OTHER_LAST_DEPOSITS
from actors.accounts.deposits import ASSIGN, DEPOSIT_OPERATION_BYTES, RETURN
from actors.accounts.ledger import EntryType
from actors.units import UNITS_PER_USDC

# Start of the entries still in the ledger; earlier ones are in exports.
_KEPT = "(SELECT COALESCE(max(next_ms), 0) FROM ledger_cuts)"
_KEYED = r"\|[0-9]{1,9}$"  # Suffix of a description that names a key (calls.with_key).
_KEY = r"substring(description FROM '\|([0-9]{1,9})$')::integer"


def _other_usage(table: str, *, of_keys: bool = False) -> str:
    """Return the query for hours of a usage table that differ from the ledger."""
    key, keyed, same_key, columns = "", "", "", "1, 2, 3"
    if of_keys:
        key, keyed, same_key = f", {_KEY} AS key", f" AND l.description ~ '{_KEYED}'", " AND r.key = u.key"
        columns = "1, 2, 3, 4"
    return (
        f"SELECT COALESCE(u.pubkey, r.pubkey), COALESCE(u.hour, r.hour) FROM {table} u FULL JOIN ("  # noqa: S608
        f"SELECT l.pubkey, (CASE l.type WHEN {EntryType.DEBIT:d} THEN l.at_ms ELSE d.at_ms END / 3600000)::integer"
        f" AS hour, l.method{key}, sum(CASE l.type WHEN {EntryType.DEBIT:d} THEN 1 ELSE -1 END) AS calls,"
        " -sum(l.amount) AS credits FROM ledger l"
        " JOIN account_usage_marks m ON m.pubkey = l.pubkey AND (l.at_ms, l.seq) <= (m.at_ms, m.seq)"
        f" LEFT JOIN account_debits d ON l.type = {EntryType.REFUND:d} AND d.operation = l.operation_id"
        f" WHERE l.type IN ({EntryType.DEBIT:d}, {EntryType.REFUND:d}){keyed} GROUP BY {columns}"
        f") r ON r.pubkey = u.pubkey AND r.hour = u.hour AND r.method = u.method{same_key}"
        " WHERE (r.calls IS DISTINCT FROM u.calls OR r.credits IS DISTINCT FROM u.credits)"
        f" AND COALESCE(u.hour, r.hour) >= {_KEPT} / 3600000"
    )


# Sentence of the report -> query.
ACROSS = {
    "an operation is debited more than once": (
        f"SELECT pubkey, operation_id FROM ledger WHERE type = {EntryType.DEBIT:d}"  # noqa: S608 - constants.
        " GROUP BY pubkey, operation_id HAVING count(*) > 1"
    ),
    "a debit could be made again: its mark is missing or differs": (
        "SELECT l.pubkey, l.operation_id FROM ledger l"  # noqa: S608
        f" WHERE l.type = {EntryType.DEBIT:d} AND NOT EXISTS (SELECT FROM account_debits d"
        " WHERE d.operation = l.operation_id AND d.at_ms = l.at_ms)"
    ),
    "an operation is marked as debited, and the ledger does not have it": (
        "SELECT ''::bytea, d.operation FROM account_debits d WHERE NOT EXISTS (SELECT FROM ledger l"  # noqa: S608
        f" WHERE l.at_ms = d.at_ms AND l.operation_id = d.operation AND l.type = {EntryType.DEBIT:d})"
        f" AND d.at_ms >= {_KEPT}"
    ),
    "an operation is refunded more than once": (
        f"SELECT pubkey, operation_id FROM ledger WHERE type = {EntryType.REFUND:d}"  # noqa: S608
        " GROUP BY pubkey, operation_id HAVING count(*) > 1"
    ),
    "a refund does not give back what was debited": (
        f"SELECT r.pubkey, r.operation_id FROM ledger r WHERE r.type = {EntryType.REFUND:d} AND NOT EXISTS ("  # noqa: S608
        f"SELECT FROM ledger d WHERE d.pubkey = r.pubkey AND d.type = {EntryType.DEBIT:d}"
        " AND d.operation_id = r.operation_id AND d.amount = -r.amount) AND NOT EXISTS (SELECT FROM account_debits m"
        f" WHERE m.operation = r.operation_id AND m.at_ms < {_KEPT})"
    ),
    "a refund or adjustment could be made again: its mark is missing or differs": (
        "SELECT l.pubkey, l.operation_id FROM ledger l"  # noqa: S608
        f" WHERE l.type IN ({EntryType.REFUND:d}, {EntryType.ADJUSTMENT:d}) AND NOT EXISTS ("
        "SELECT FROM account_operations o WHERE o.pubkey = l.pubkey AND o.operation = l.operation_id"
        f" AND o.amount = l.amount AND o.kind = CASE l.type WHEN {EntryType.REFUND:d} THEN {MarkKind.REFUND:d}"
        f" ELSE {MarkKind.ADJUST:d} END)"
    ),
    "an operation is marked as refunded or adjusted, and the ledger does not have it": (
        f"SELECT o.pubkey, o.operation FROM account_operations o WHERE o.kind <> {MarkKind.VOID:d}"  # noqa: S608
        " AND NOT EXISTS (SELECT FROM ledger l WHERE l.pubkey = o.pubkey AND l.operation_id = o.operation"
        f" AND l.type IN ({EntryType.REFUND:d}, {EntryType.ADJUSTMENT:d})) AND o.at_ms >= {_KEPT}"
    ),
    "a deposit or bonus is not what was received: its transfer is missing or earned other credits": (
        "SELECT l.pubkey, l.operation_id FROM ledger l LEFT JOIN account_deposits d"  # noqa: S608
        " ON d.operation = l.operation_id AND d.pubkey = l.pubkey AND NOT d.assigned"
        f" WHERE (l.type = {EntryType.DEPOSIT:d} AND l.amount IS DISTINCT FROM d.credits)"
        f" OR (l.type = {EntryType.BONUS:d} AND l.amount IS DISTINCT FROM d.bonus)"
    ),
    "a transfer was assigned that is not among those received": (
        "SELECT l.pubkey, l.operation_id FROM ledger l"  # noqa: S608
        f" WHERE l.type = {EntryType.ADJUSTMENT:d} AND length(l.operation_id) = {len(ASSIGN) + DEPOSIT_OPERATION_BYTES}"
        f" AND substr(l.operation_id, 1, {len(ASSIGN)}) = '\\x{ASSIGN.hex()}' AND NOT EXISTS ("
        f"SELECT FROM account_deposits d WHERE d.operation = substr(l.operation_id, {len(ASSIGN) + 1})"
        " AND d.pubkey = l.pubkey AND d.assigned)"
    ),
    "a transfer was credited, and the ledger does not have it once": (
        "SELECT d.pubkey, d.operation FROM account_deposits d LEFT JOIN ledger l ON l.pubkey = d.pubkey"  # noqa: S608
        " AND ((NOT d.assigned AND l.operation_id = d.operation"
        f" AND l.type IN ({EntryType.DEPOSIT:d}, {EntryType.BONUS:d}))"
        f" OR (d.assigned AND l.operation_id = '\\x{ASSIGN.hex()}'::bytea || d.operation"
        f" AND l.type = {EntryType.ADJUSTMENT:d}))"
        " GROUP BY d.pubkey, d.operation, d.credits, d.bonus, d.at_ms"
        " HAVING (COALESCE(sum(l.amount), 0) <> d.credits + d.bonus OR count(l.seq) <> 1 + (d.bonus > 0)::integer)"
        f" AND NOT (count(l.seq) = 0 AND d.at_ms < {_KEPT})"
    ),
    "a transfer earned other credits than its amount at the rate of its day": (
        "SELECT pubkey, operation FROM account_deposits"  # noqa: S608
        f" WHERE credits::numeric <> div(base_units::numeric * credits_per_usdc, {UNITS_PER_USDC})"
    ),
    "a payment was taken back, and the ledger does not have it": (
        "SELECT d.pubkey, d.operation FROM account_deposits d LEFT JOIN ledger l ON l.pubkey = d.pubkey"  # noqa: S608
        f" AND l.operation_id = '\\x{RETURN.hex()}'::bytea || d.operation AND l.type = {EntryType.ADJUSTMENT:d}"
        " WHERE d.returned_ms IS NOT NULL"
        " AND (l.amount IS DISTINCT FROM -d.taken OR d.taken + d.uncollected <> d.credits + d.bonus)"
        f" AND NOT (l.seq IS NULL AND d.returned_ms < {_KEPT} AND d.taken + d.uncollected = d.credits + d.bonus)"
    ),
    "an operation is debited although it was voided before": (
        "SELECT l.pubkey, l.operation_id FROM ledger l JOIN account_operations o"  # noqa: S608
        f" ON o.pubkey = l.pubkey AND o.operation = l.operation_id AND o.kind = {MarkKind.VOID:d}"
        f" WHERE l.type = {EntryType.DEBIT:d}"
    ),
    "the last deposit that it shows is not one of its newest": OTHER_LAST_DEPOSITS,
    "the usage of an hour (since 1970) is not what the ledger says": _other_usage("account_usage"),
    "a named key has spent other credits than the ledger says": (
        "WITH RECURSIVE up AS (SELECT pubkey, number, number AS payer, parent FROM account_keys UNION ALL"  # noqa: S608
        " SELECT u.pubkey, k.number, u.payer, k.parent FROM up u JOIN account_keys k"
        " ON k.pubkey = u.pubkey AND k.number = u.parent), paid AS (SELECT pubkey,"
        f" payer, sum(total) AS total FROM (SELECT pubkey, {_KEY} AS payer, -amount AS total FROM ledger WHERE type IN"
        f" ({EntryType.DEBIT:d}, {EntryType.REFUND:d}) AND description ~ '{_KEYED}' AND at_ms >= {_KEPT} UNION ALL"
        " SELECT pubkey, split_part(pair, ':', 1)::integer, split_part(pair, ':', 2)::bigint FROM ledger_carried,"
        " unnest(string_to_array(spent, ' ')) AS pair WHERE pair <> '') AS every GROUP BY 1, 2), due AS ("
        "SELECT paid.pubkey, COALESCE(up.number, paid.payer) AS number, sum(paid.total) AS total FROM paid LEFT JOIN up"
        " ON up.pubkey = paid.pubkey AND up.payer = paid.payer GROUP BY 1, 2)"
        " SELECT COALESCE(s.pubkey, due.pubkey), COALESCE(s.number, due.number) FROM account_key_spending s"
        " FULL JOIN due ON due.pubkey = s.pubkey AND due.number = s.number"
        " WHERE COALESCE(s.total, 0) <> COALESCE(due.total, 0)"
    ),
    "the usage of a named key in an hour (since 1970) is not what the ledger says": _other_usage(
        "account_key_usage", of_keys=True
    ),
    "the usage is marked as counted up to an entry that is not there": (
        "SELECT m.pubkey, m.seq FROM account_usage_marks m WHERE m.seq > 0 AND NOT EXISTS (SELECT FROM ledger l"
        " WHERE l.pubkey = m.pubkey AND l.at_ms = m.at_ms AND l.seq = m.seq) AND NOT EXISTS (SELECT FROM"
        " ledger_carried c WHERE c.pubkey = m.pubkey AND c.at_ms = m.at_ms AND c.seq = m.seq)"
    ),
    "its usage of all hours differs from what it has consumed, by so many credits": (
        "SELECT COALESCE(u.pubkey, t.pubkey), (COALESCE(u.credits, 0) - COALESCE(t.credits, 0))::bigint FROM ("  # noqa: S608
        "SELECT pubkey, sum(credits) AS credits FROM account_usage GROUP BY 1) AS u FULL JOIN ("
        "SELECT pubkey, sum(credits) AS credits FROM (SELECT pubkey, consumed AS credits FROM ledger_carried UNION ALL"
        " SELECT l.pubkey, -l.amount FROM ledger AS l JOIN account_usage_marks AS m ON m.pubkey = l.pubkey"
        f" AND (l.at_ms, l.seq) <= (m.at_ms, m.seq) WHERE l.type IN ({EntryType.DEBIT:d}, {EntryType.REFUND:d})"
        f" AND l.at_ms >= {_KEPT}) AS every GROUP BY 1) AS t ON t.pubkey = u.pubkey"
        f" WHERE COALESCE(u.credits, 0) <> COALESCE(t.credits, 0) AND {_KEPT} > 0"
    ),
}
