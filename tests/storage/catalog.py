"""What a database consists of, read from PostgreSQL's own catalog, and which changes the release before cannot bear.

Two databases with equal catalogs are the same to every statement, however their tables came to be. Left out are the
records of migrations, and partitions, which the product makes while it runs.
"""

from dataclasses import dataclass
from typing import Any

# Each gives a kind of thing, the relation or function it belongs to, its name, and all that is to be known of it.
_QUERIES = (
    """SELECT 'table', c.relname, '', concat_ws(' ', c.relkind, c.relpersistence, c.reloptions::text,
              (SELECT reloptions::text FROM pg_class t WHERE t.oid = c.reltoastrelid), pg_get_partkeydef(c.oid))
       FROM mine c WHERE c.relkind IN ('r', 'p', 'c', 'S')""",
    """SELECT 'column', c.relname, a.attname, concat_ws(' ', row_number() OVER (PARTITION BY c.oid ORDER BY a.attnum),
              format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN 'required' END, a.attidentity,
              a.attgenerated, 'default ' || pg_get_expr(d.adbin, d.adrelid))
       FROM mine c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
       LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum WHERE c.relkind IN ('r', 'p', 'c')""",
    """SELECT 'constraint', c.relname, n.conname, pg_get_constraintdef(n.oid)
       FROM mine c JOIN pg_constraint n ON n.conrelid = c.oid AND n.contype <> 'n'""",
    """SELECT CASE WHEN x.indisunique THEN 'unique index' ELSE 'index' END, c.relname, i.relname,
              concat_ws(' ', pg_get_indexdef(i.oid), CASE WHEN NOT x.indisvalid THEN 'invalid' END)
       FROM mine c JOIN pg_index x ON x.indrelid = c.oid JOIN pg_class i ON i.oid = x.indexrelid""",
    """SELECT 'trigger', c.relname, t.tgname, concat_ws(' ', pg_get_triggerdef(t.oid), t.tgenabled)
       FROM mine c JOIN pg_trigger t ON t.tgrelid = c.oid AND NOT t.tgisinternal""",
    """SELECT 'function', p.proname, pg_get_function_identity_arguments(p.oid), concat_ws(' ',
              pg_get_function_result(p.oid), p.prosecdef, p.proconfig::text, p.provolatile, p.pronargdefaults)
       FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace""",
    """SELECT 'body', p.proname, pg_get_function_identity_arguments(p.oid), p.prosrc
       FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace""",
    """SELECT 'right', c.relname, concat_ws(' ', r.grantee::regrole, r.privilege_type), ''
       FROM mine c, aclexplode(c.relacl) r WHERE r.grantee <> c.relowner""",
    """SELECT 'right', c.relname || '.' || a.attname, concat_ws(' ', r.grantee::regrole, r.privilege_type), ''
       FROM mine c JOIN pg_attribute a ON a.attrelid = c.oid, aclexplode(a.attacl) r WHERE r.grantee <> c.relowner""",
    """SELECT 'right', p.proname, concat_ws(' ', r.grantee::regrole, r.privilege_type), ''
       FROM pg_proc p, aclexplode(p.proacl) r
       WHERE p.pronamespace = 'public'::regnamespace AND r.grantee <> p.proowner""",
)
_MINE = """WITH mine AS (SELECT * FROM pg_class WHERE relnamespace = 'public'::regnamespace AND NOT relispartition
    AND relname !~ '^schema_(contexts|migrations|version)') """
# What may be added to a table that the release before writes: rows that it writes must stay possible.
_REFUSES_ROWS = {"constraint", "unique index", "trigger"}


@dataclass(frozen=True, slots=True, order=True)
class Thing:
    kind: str
    of: str
    name: str


Catalog = dict[Thing, str]


async def catalog(connection: Any) -> Catalog:
    found = {}
    for query in _QUERIES:
        for kind, of, name, text in await connection.fetch(_MINE + query):
            found[Thing(kind, of, name)] = text
    return found


def differences(one: Catalog, other: Catalog) -> list[str]:
    """In words, and none for databases that are the same to every statement."""
    things = sorted(thing for thing in one.keys() | other.keys() if one.get(thing) != other.get(thing))
    return [f"{thing.kind} {thing.of} {thing.name}: {one.get(thing)} | {other.get(thing)}" for thing in things]


def broken_by(before: Catalog, after: Catalog) -> list[str]:
    """What a program that was written for `before` cannot bear in `after`: things that are gone or changed, but for the
    bodies of functions; rows that it writes and that are refused now; and attributes of types that it sends."""
    gone = [thing for thing, text in before.items() if thing.kind != "body" and after.get(thing) != text]
    tables = {thing.of for thing in before if thing.kind == "table"}
    types = {thing.of for thing, text in before.items() if thing.kind == "table" and text.startswith("c")}
    news = [thing for thing in after.keys() - before.keys() if thing.of in tables]
    refusing = [thing for thing in news if thing.kind in _REFUSES_ROWS]
    columns = [thing for thing in news if thing.kind == "column"]
    needed = [
        column
        for column in columns
        if column.of in types or (" required" in after[column] and " default " not in after[column])
    ]
    return [f"{thing.kind} {thing.of} {thing.name}" for thing in sorted([*gone, *refusing, *needed])]
