"""The SQL with which a racer writes and reads many races at once (store.py): each row of a group is about one race.

Implements: design, "Owners, for every kind of actor" (a write carries its epoch). Pure: texts. A group comes as
columns, one array for each, and calls the functions of functions.sql row by row, in the order of epochs and signatures:
so transactions that meet the same races, and claims, which lock epochs, never wait for each other in a circle.
"""

from collections.abc import Sequence

from actors.sends.core import HOLD_MS, LEGS_ROWS_MAX

Columns = Sequence[tuple[str, str]]  # Names and types, in the order in which they are given.

# In the order of the fields of core.Race, core.Ticket and LegReport.
RACE: Columns = (
    *(("signature", "bytea"), ("transaction", "bytea"), ("blockhash", "bytea"), ("nonce_account", "text")),
    *(("last_valid_height", "bigint"), ("started_at_ms", "bigint"), ("started_slot", "bigint")),
    *(("window_at_ms", "bigint"), ("window_slot", "bigint"), ("last_slot", "bigint"), ("broadcasts", "integer")),
    *(("retries", "integer"), ("sent", "boolean"), ("state", "smallint"), ("slot", "bigint"), ("error", "text")),
    ("ended_at_ms", "bigint"),
)
TICKET: Columns = (
    *(("operation", "bytea"), ("pubkey", "bytea"), ("epoch", "bigint"), ("method", "text"), ("landing", "bigint")),
    *(("base", "bigint"), ("signature", "bytea"), ("opened_at_ms", "bigint"), ("first", "boolean")),
    ("charged", "bigint"),
)
# The last field of core.Ticket is in a separate table (schema.sql).
_KEY = "coalesce((SELECT k.key FROM send_ticket_keys k WHERE k.operation = t.operation), 0) AS key"
_SCHEDULE: Columns = (("look_at_ms", "bigint"), ("settled", "boolean"))  # The last columns of send_races.
_EPOCH: Columns = (("my_epoch", "bigint"),)
REPORT_COLUMNS = ("broadcast", "leg", "submitted_ms", "acknowledged_ms", "error", "refused")


def _names(columns: Columns, prefix: str) -> str:
    return ", ".join(prefix + name for name, _ in columns)


def _group(columns: Columns) -> str:
    """Return the rows of a group as a table with `place`, which begins at 1."""
    arrays = ", ".join(f"${number}::{kind}[]" for number, (_, kind) in enumerate(columns, 1))
    return f"unnest({arrays}) WITH ORDINALITY AS g ({_names(columns, '')}, place)"


def _in_order(columns: Columns) -> str:
    return f"(SELECT * FROM {_group(columns)} ORDER BY my_epoch, signature) AS g"  # noqa: S608


def _prefixed(columns: Columns, prefix: str) -> Columns:
    return [(prefix + name, kind) for name, kind in columns]


RACES = _names(RACE, "")
_OPENED = (*_EPOCH, ("open_max", "integer"), *RACE, *_SCHEDULE, *_prefixed(TICKET, "ticket_"), ("key", "integer"))
OPEN = (
    f"SELECT g.place, {_names(RACE, 'r.')} FROM {_in_order(_OPENED)}, LATERAL sends_open_keyed("  # noqa: S608
    f"g.my_epoch, ROW ({_names((*RACE, *_SCHEDULE), 'g.')})::send_races,"
    f" ROW ({_names(TICKET, 'g.ticket_')})::send_tickets, g.open_max, {HOLD_MS}, g.key) AS r"
)
_BEGUN: Columns = (
    *(*_EPOCH, ("signature", "bytea"), ("window_before", "bigint"), ("broadcasts_before", "integer")),
    *(("window_at_ms", "bigint"), ("window_slot", "bigint"), ("last_slot", "bigint"), ("broadcasts", "integer")),
    *(("retries", "integer"), ("look_at_ms", "bigint")),
)
BROADCAST = f"SELECT g.place, sends_broadcast({_names(_BEGUN, 'g.')}) AS done FROM {_in_order(_BEGUN)}"  # noqa: S608
# The reports of all races come in six more arrays; a race has those from `lowest` to `highest`.
_REPORTED: Columns = (
    *(*_EPOCH, ("signature", "bytea"), ("is_sent", "boolean"), ("lowest", "integer"), ("highest", "integer")),
)
_REPORT_TYPES = ("integer", "text", "bigint", "bigint", "text", "boolean")
_PARTS = ", ".join(
    f"(${number}::{kind}[])[g.lowest:g.highest]" for number, kind in enumerate(_REPORT_TYPES, len(_REPORTED) + 1)
)
REPORT = (
    "SELECT g.place, sends_report(g.my_epoch, g.signature, g.is_sent, "  # noqa: S608
    f"{_PARTS}) FROM {_in_order(_REPORTED)}"
)
_ENDED: Columns = (
    *(*_EPOCH, ("signature", "bytea"), ("state", "smallint"), ("slot", "bigint"), ("error", "text")),
    ("ended_at_ms", "bigint"),
)
END = f"SELECT g.place, sends_end({_names(_ENDED, 'g.')}) AS done FROM {_in_order(_ENDED)}"  # noqa: S608
_SETTLED: Columns = (*_EPOCH, ("signature", "bytea"), ("operation", "bytea"), ("charged", "bigint"))
END_TICKET = f"SELECT g.place, sends_end_ticket_owned({_names(_SETTLED, 'g.')}) FROM {_in_order(_SETTLED)}"  # noqa: S608

# Reads. Each LATERAL part is looked up by an index, however many races the tables have.
RACE_OF = (
    f"SELECT g.place, {_names(RACE, 'r.')} FROM {_group((('signature', 'bytea'),))}, "  # noqa: S608
    "LATERAL (SELECT * FROM send_races WHERE send_races.signature = g.signature LIMIT 1) AS r"
)
_FOUND: Columns = (("signature", "bytea"), ("pubkey", "bytea"), ("operation", "bytea"))
FIND = (
    f"SELECT g.place, {_names(RACE, 'r.')}, {_names(TICKET, 't.')}, {_KEY}, "  # noqa: S608
    f"ARRAY (SELECT ROW ({', '.join(REPORT_COLUMNS)}) FROM send_reports WHERE send_reports.signature = g.signature"
    f" ORDER BY number DESC LIMIT {LEGS_ROWS_MAX}) AS reports FROM {_group(_FOUND)}, LATERAL ("
    "SELECT * FROM send_tickets s WHERE s.signature = g.signature AND s.pubkey = g.pubkey"
    " AND (g.operation IS NULL OR s.operation = g.operation)"
    " ORDER BY s.opened_at_ms DESC, s.operation DESC LIMIT 1) AS t, "
    "LATERAL (SELECT * FROM send_races WHERE send_races.signature = g.signature LIMIT 1) AS r"
)
_AWAITED: Columns = (("signature", "bytea"), ("after", "bytea"), ("most", "integer"))
WAITING = (
    f"SELECT g.place, {_names(TICKET, 't.')}, {_KEY} FROM {_group(_AWAITED)}, LATERAL ("  # noqa: S608
    "SELECT * FROM send_tickets s WHERE s.signature = g.signature AND s.charged IS NULL AND s.operation > g.after"
    " ORDER BY s.operation LIMIT g.most) AS t ORDER BY g.place, t.operation"
)
