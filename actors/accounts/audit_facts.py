"""Compares the tables of accounts with the facts about them, for the audit.

The newest fact about a row is the one that counts: among the entries of the account's ledger, and among the facts that
owners of release 0.1.0 wrote, which say behind which entry they stand.

Implements: money rule 6; threat 56. Reads the database and nothing else. The database joins and
sorts. The queries stand here as plain SQL, because the database's own functions may have been changed too.
"""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import asyncpg

from actors.accounts.facts import ChainLink, Fact, FactKind, ShardRecount, differences, genesis
from actors.accounts.ledger import EntryType
from actors.accounts.months.carried import CUT_BODY

_ROWS_AHEAD = 2_000
_FACTS = "SELECT virtual_shard, seq, kind, pubkey, body, hash FROM account_facts ORDER BY virtual_shard, seq"


def _compared(kind: FactKind, key: str, table: str, stored_key: str, stored: str, where: str = "") -> str:
    """Return SQL that gives the rows that differ from the newest fact about them.

    key and stored_key: of a fact and of a row, as JSON.
    """
    return (
        "SELECT COALESCE(f.pubkey, t.pubkey) AS pubkey, COALESCE(f.key, t.key) #>> '{}' AS key,"  # noqa: S608 - ours.
        " f.body::text AS told, t.body::text AS stored"
        f" FROM (SELECT DISTINCT ON (pubkey, {key}) pubkey, {key} AS key, body FROM ("
        f"SELECT pubkey, seq AS place, 0 AS seq, description::jsonb AS body FROM ledger"
        f" WHERE type = {EntryType.FACT:d} AND method = '{kind}' UNION ALL"
        f" SELECT pubkey, seq, 0, description::jsonb FROM ledger_kept_facts WHERE method = '{kind}' UNION ALL"
        " SELECT pubkey, COALESCE((body::jsonb ->> 'ledger_seq')::bigint, 0), seq, body::jsonb - 'ledger_seq'"
        f" FROM account_facts WHERE kind = '{kind}') AS every"
        f" ORDER BY pubkey, {key}, place DESC, seq DESC) AS f"
        f" FULL JOIN (SELECT {stored_key} AS key, {stored} AS body, pubkey FROM {table} {where}) AS t"
        " ON f.pubkey = t.pubkey AND f.key = t.key WHERE f.body IS DISTINCT FROM t.body"
    )


# For each kind of row, its name in the report and the SQL that finds differing rows.
_COMPARED = {
    "the account": _compared(
        FactKind.ACCOUNT,
        "'0'::jsonb",
        "accounts",
        "'0'::jsonb",
        "jsonb_build_object('created_at', created_at, 'status', status, 'api_key_hash', encode(api_key_hash, 'hex'),"
        " 'key_prefix', key_prefix, 'ref_code', ref_code, 'ref_bonus_bps', ref_bonus_bps,"
        " 'requests_per_second', requests_per_second, 'concurrency', concurrency)",
    ),
    "batch {key}": _compared(
        FactKind.BATCH,
        "body -> 'id'",
        "credit_batches",
        "to_jsonb(id)",
        "jsonb_build_object('id', id, 'source', source, 'credits', credits, 'created_at', created_at,"
        " 'expires_at', expires_at)",
    ),
    "the hourly limit": _compared(
        FactKind.HOURLY_LIMIT,
        "'0'::jsonb",
        "account_hourly_limits",
        "'0'::jsonb",
        "jsonb_build_object('credits', credits, 'lifted_until', lifted_until)",
    ),
    "the price list": _compared(
        FactKind.PRICE_LIST,
        "'0'::jsonb",
        "account_price_lists",
        "'0'::jsonb",
        "jsonb_build_object('name', name)",
    ),
    "named key {key}": _compared(
        FactKind.KEY,
        "body -> 'number'",
        "account_keys",
        "to_jsonb(number)",
        "jsonb_build_object('number', number, 'name', name, 'key_hash', encode(key_hash, 'hex'),"
        " 'key_prefix', key_prefix, 'limits', limits, 'created_at', created_at, 'status', status,"
        " 'old_hash', encode(old_hash, 'hex'), 'old_until', old_until, 'parent', parent,"
        " 'public', encode(public, 'hex'), 'old_public', encode(old_public, 'hex'),"
        " 'signed_by', encode(signed_by, 'hex'), 'block', encode(block, 'hex'))",
    ),
    "deposit {key}": _compared(
        FactKind.DEPOSIT,
        "body -> 'operation'",
        "account_deposits",
        "to_jsonb(encode(operation, 'hex'))",
        "jsonb_build_object('operation', encode(operation, 'hex'), 'base_units', base_units,"
        " 'credits_per_usdc', credits_per_usdc, 'credits', credits, 'bonus', bonus, 'slot', slot, 'at_ms', at_ms,"
        " 'assigned', assigned)",
    ),
    "return of deposit {key}": _compared(
        FactKind.RETURN,
        "body -> 'operation'",
        "account_deposits",
        "to_jsonb(encode(operation, 'hex'))",
        "jsonb_build_object('operation', encode(operation, 'hex'), 'returned_ms', returned_ms, 'taken', taken,"
        " 'uncollected', uncollected)",
        "WHERE returned_ms IS NOT NULL OR taken IS NOT NULL OR uncollected IS NOT NULL",
    ),
    "referral code {key}": _compared(
        FactKind.REFERRAL,
        "body -> 'code'",
        "(SELECT *, ''::bytea AS pubkey FROM referral_codes) AS codes",
        "to_jsonb(code)",
        "jsonb_build_object('code', code, 'bonus_bps', bonus_bps, 'created_at', created_at, 'expires_at', expires_at,"
        " 'note', note)",
    ),
    "cut of the ledger at {key}": _compared(
        FactKind.CUT,
        "body -> 'next_ms'",
        "(SELECT *, ''::bytea AS pubkey FROM ledger_cuts) AS cuts",
        "to_jsonb(next_ms)",
        CUT_BODY,
    ),
}


# Accounts whose last deposit, as stored, is not one of the newest; with its operation.
OTHER_LAST_DEPOSITS = (
    "SELECT a.pubkey, decode(a.last_deposit ->> 'operation', 'hex') FROM accounts a"
    " JOIN (SELECT pubkey, max(at_ms) AS at_ms FROM account_deposits GROUP BY pubkey) newest USING (pubkey)"
    " LEFT JOIN account_deposits d ON d.pubkey = a.pubkey AND d.at_ms = newest.at_ms"
    " AND d.operation = decode(a.last_deposit ->> 'operation', 'hex')"
    " AND jsonb_build_array(d.base_units, d.credits_per_usdc, d.credits, d.bonus, d.slot, d.at_ms)"
    " = jsonb_build_array(a.last_deposit -> 'base_units', a.last_deposit -> 'credits_per_usdc',"
    " a.last_deposit -> 'credits', a.last_deposit -> 'bonus', a.last_deposit -> 'slot', a.last_deposit -> 'at_ms')"
    " WHERE d.operation IS NULL"
)
_UNREGISTERED = (
    "SELECT a.pubkey FROM accounts AS a WHERE NOT EXISTS (SELECT FROM account_facts AS f"  # noqa: S608 - ours.
    f" WHERE f.kind = '{FactKind.ACCOUNT}' AND f.pubkey = a.pubkey)"
)


async def differing_rows(connection: asyncpg.Connection) -> AsyncIterator[tuple[bytes, list[str]]]:
    """Yield a public key and a sentence for each row that differs from the facts."""
    for name, query in _COMPARED.items():
        async for row in connection.cursor(query, prefetch=_ROWS_AHEAD):
            what = name.format(key=row["key"])
            yield row["pubkey"], differences(_parsed(row["stored"]), _parsed(row["told"]), what)

    async for row in connection.cursor(_UNREGISTERED, prefetch=_ROWS_AHEAD):
        yield row["pubkey"], ["the account is there, and the chain of its shard does not tell that it was opened"]


def _parsed(text: str | None) -> Any:
    return None if text is None else json.loads(text)


async def chains(
    connection: asyncpg.Connection, then: Mapping[int, ChainLink]
) -> AsyncIterator[tuple[int, ChainLink, list[str]]]:
    """For each shard with facts, yield its newest fact and the faults of its chain.

    then: each shard's newest fact when a checkpoint was written.
    """
    rows = await connection.fetch("SELECT virtual_shard, seq, hash FROM account_fact_heads")
    newest = {shard: ChainLink(seq, hash_) for shard, seq, hash_ in rows}
    recounts = {shard: ShardRecount(shard, then.get(shard)) for shard in newest.keys() | then.keys()}
    async for *fact, stored_hash in connection.cursor(_FACTS, prefetch=_ROWS_AHEAD):
        recount = recounts.get(fact[0])
        if recount is None:
            recount = recounts[fact[0]] = ShardRecount(fact[0])
        recount.feed(Fact(*fact), stored_hash)
    for shard, recount in sorted(recounts.items()):
        link = newest.get(shard, ChainLink(0, genesis(shard)))
        yield shard, link, recount.close(link)
