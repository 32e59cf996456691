"""Compares webhooks with the facts about them in the ledgers of their accounts; a part of `ledger-gateway audit`.

Implements: money rule 6; decisions, "One chain of facts"; threat 56 (a changed URL or filter of a webhook). Reads the
database and nothing else, in the snapshot of the audit of the ledger, which checks the chains of the facts. The queries
stand here as plain SQL, because the database's own functions may have been changed too.
"""

import json
from typing import Any

import asyncpg

from actors.accounts.audit_report import AuditReport
from actors.accounts.facts import FactKind, differences
from actors.accounts.ledger import EntryType

_ROWS_AHEAD = 2_000
_WAITS_MS_MAX = 3_600_000  # A backlog after an upgrade takes minutes.

# The newest fact about each webhook: the highest number, in the ledger or among those that wait.
_TOLD = (
    "SELECT DISTINCT ON (pubkey, body ->> 'id') pubkey, body ->> 'id' AS id, body - 'number' AS body FROM ("  # noqa: S608
    "SELECT pubkey, (description::jsonb ->> 'number')::numeric AS number, seq, description::jsonb AS body FROM ledger"
    f" WHERE type = {EntryType.FACT:d} AND method = '{FactKind.WEBHOOK}' UNION ALL"
    " SELECT pubkey, (description::jsonb ->> 'number')::numeric, seq, description::jsonb FROM ledger_kept_facts"
    f" WHERE method = '{FactKind.WEBHOOK}' UNION ALL"
    " SELECT pubkey, id, 0, body FROM webhook_facts) AS every"
    " WHERE NOT body ? 'rotated_ms' ORDER BY pubkey, body ->> 'id', number DESC NULLS LAST, seq DESC"
)
_STORED = (
    "SELECT pubkey, id, jsonb_build_object('id', id, 'url_hash', encode(sha256(convert_to(url, 'UTF8')), 'hex'),"
    " 'filter_type', filter_type, 'filter_value', filter_value, 'subject', subject, 'kinds', kinds,"
    " 'wallets', wallets, 'mint', mint, 'programs', programs, 'min_lamports', min_lamports) AS body"
    " FROM webhooks WHERE status <> 'deleted'"
)
_DIFFERING = (
    "SELECT COALESCE(f.pubkey, t.pubkey) AS pubkey, COALESCE(f.id, t.id) AS id, f.body::text AS told,"  # noqa: S608
    f" t.body::text AS stored FROM ({_TOLD}) AS f FULL JOIN ({_STORED}) AS t ON f.pubkey = t.pubkey AND f.id = t.id"
    " WHERE CASE WHEN COALESCE(f.body ? 'deleted', false) THEN t.id IS NOT NULL"
    " ELSE f.body IS DISTINCT FROM t.body END"
)
# The ledger's newest entry is its time: a copy of the database may be audited long after it was made.
_LATE = (
    "SELECT pubkey, webhook_id FROM webhook_facts WHERE (SELECT max(last_ms) FROM accounts) - at_ms > $1 ORDER BY id"
)


async def audit(connection: asyncpg.Connection, report: AuditReport) -> None:
    """Add a difference for each webhook that is not what the newest fact says, was put in or taken away, or whose facts
    are kept from the ledger."""
    async for row in connection.cursor(_DIFFERING, prefetch=_ROWS_AHEAD):
        stored, told, what = _parsed(row["stored"]), _parsed(row["told"]), f"webhook {row['id']}"
        if told is not None and told.get("deleted"):
            report.add(row["pubkey"], f"{what} is there: by the facts it was deleted")
        else:
            report.add(row["pubkey"], *differences(stored, told, what))
    async for row in connection.cursor(_LATE, _WAITS_MS_MAX, prefetch=_ROWS_AHEAD):
        report.add(row["pubkey"], f"webhook {row['webhook_id']}: a fact about it is not in the ledger after an hour")


def _parsed(text: str | None) -> Any:
    return None if text is None else json.loads(text)
