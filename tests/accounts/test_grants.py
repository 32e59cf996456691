"""Rights of the product's role on the tables of accounts: enough for every test of the store, and no more.

money rule 6: the ledger is append-only, also for a process whose connection a stranger has got hold of.
"""

import asyncpg
import pytest

from actors.accounts.store import PostgresAccountStore
from tests.accounts.making import START
from tests.accounts.test_store import SHARDS, opened_in
from tests.databases import as_role

PARTITION = "ledger_2023_11"  # Of START's month.


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger SET amount = 2",
        "DELETE FROM ledger",
        "TRUNCATE ledger",
        f"UPDATE {PARTITION} SET amount = 2",
        f"DELETE FROM {PARTITION}",
        f"TRUNCATE {PARTITION}",
        f"DROP TABLE {PARTITION}",
        f"ALTER TABLE ledger DETACH PARTITION {PARTITION}",
        "SET session_replication_role = replica",
        "ALTER TABLE ledger DISABLE TRIGGER append_only",
        "ALTER TABLE ledger DISABLE TRIGGER ALL",
        "DROP TRIGGER append_only ON ledger",
        "DROP TABLE ledger",
        "ALTER TABLE ledger OWNER TO ledger_gateway",
        "GRANT ledger_owner TO ledger_gateway",
        "SET ROLE ledger_owner",
        "SET ROLE postgres",
        "CREATE OR REPLACE FUNCTION ledger_is_append_only() RETURNS trigger LANGUAGE sql AS 'SELECT NULL'",
        "CREATE FUNCTION mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
        "CREATE TABLE mine (id integer)",
        "COPY ledger TO PROGRAM 'cat'",
        "UPDATE account_operations SET amount = 2",
        "DELETE FROM account_operations",
        "DELETE FROM accounts",
        "UPDATE accounts SET ref_bonus_bps = 10000",
        "DELETE FROM credit_batches",
        "UPDATE credit_batches SET expires_at = expires_at + 1",
        "DELETE FROM account_deposits",
        "UPDATE account_deposits SET bonus = 2",
        "DELETE FROM account_usage",
        "UPDATE account_usage SET method = ''",
        "DELETE FROM account_usage_marks",
        "INSERT INTO ledger_cuts VALUES (1, 0, 0, 0, '', '', '', '')",
        "UPDATE ledger_carried SET consumed = 2",
        "DELETE FROM ledger_kept_facts",
        "UPDATE schema_version SET functions = ''",
    ],
)
async def test_the_product_cannot_change_what_must_stay(postgres_pool: asyncpg.Pool, statement: str) -> None:
    """Each is refused by the database itself, and the account is as it was."""
    store = PostgresAccountStore(postgres_pool)
    await store.prepare(START.wall_ms)
    await opened_in(store, await store.take_over("me", SHARDS, False))
    read = "SELECT (SELECT array_agg(l::text) FROM ledger l), (SELECT array_agg(b::text) FROM credit_batches b)"
    before = await postgres_pool.fetchrow(read)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await postgres_pool.execute(statement)
    assert await postgres_pool.fetchrow(read) == before
    await store.close()


async def test_a_role_of_nobody_has_no_rights_at_all(postgres_pool: asyncpg.Pool, owner_url: str) -> None:
    """Rights are given to the product's role by name, and none to everybody; the function that makes tables too."""
    open_to_all = await postgres_pool.fetchval(
        "SELECT count(*) FROM pg_class c, aclexplode(c.relacl) a"
        " WHERE c.relnamespace = 'public'::regnamespace AND a.grantee = 0"
    )
    assert open_to_all == 0
    definers = await postgres_pool.fetch(
        "SELECT proname, proconfig, proacl::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prosecdef"
    )
    assert {row["proname"] for row in definers} == {"accounts_partition", "signals_partitions"}
    for row in definers:
        assert row["proconfig"] == ["search_path=public, pg_temp"]
        assert "{=" not in row["proacl"] and ",=" not in row["proacl"], "everybody may call it"
    await as_role(owner_url, "SELECT accounts_partition(1735689600000)")
