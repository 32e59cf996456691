"""Connections, against the real servers."""

import asyncio
import logging
import re
from pathlib import Path

import asyncpg
import pytest
import redis.asyncio

from actors.clock import ManualClock
from actors.release import RELEASE
from actors.storage import connections
from actors.storage.connections import StoreUnreachable


async def test_a_pool_works_and_says_who_it_is(pool: asyncpg.Pool) -> None:
    """The operator sees in the database which part of the product holds a connection."""
    assert await pool.fetchval("SELECT current_setting('application_name')") == f"tests @{RELEASE}"


async def test_a_statement_that_hangs_becomes_an_exception(pool: asyncpg.Pool) -> None:
    """Nothing waits for ever on a store: the server ends the statement before the client's own limit."""
    setting = await pool.fetchval("SELECT setting::int FROM pg_settings WHERE name = 'statement_timeout'")
    assert 0 < setting < connections.STATEMENT_SECONDS * 1000
    async with pool.acquire() as connection:
        await connection.execute("SET statement_timeout = 20")
        with pytest.raises(asyncpg.QueryCanceledError):
            await connection.execute("SELECT pg_sleep(30)")
        await connection.execute("RESET statement_timeout")


async def test_a_server_that_takes_no_writes_is_refused(pool: asyncpg.Pool, postgres_url: str) -> None:
    """A replica would fail at the first paid call instead of at the start."""
    name = await pool.fetchval("SELECT current_database()")
    await pool.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    try:
        with pytest.raises(StoreUnreachable, match="takes no writes"):
            await connections.connect_postgres(postgres_url, connections_max=1, application="tests", deadline_seconds=0)
    finally:
        await pool.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")


async def test_an_open_transaction_does_not_leak_to_the_next_user(pool: asyncpg.Pool) -> None:
    """The cheap reset still ends what a cancelled user left open."""
    async with pool.acquire() as connection:
        await connection.execute("BEGIN; CREATE TABLE half_made (id int)")
    assert await pool.fetchval("SELECT to_regclass('half_made')") is None


class Away(Exception):
    """What a store calls a database that is away."""


async def test_a_broken_connection_does_not_go_back_to_the_pool(pool: asyncpg.Pool) -> None:
    """Whoever borrows next gets one that works; its bugs stay what they are."""
    with pytest.raises(Away, match="Error: "):
        async with connections.borrowed(pool, 8, Away) as connection:
            await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    with pytest.raises(ZeroDivisionError):
        async with connections.borrowed(pool, 8, Away) as connection:
            before = await connection.fetchval("SELECT pg_backend_pid()")
            raise ZeroDivisionError
    async with connections.borrowed(pool, 8, Away) as connection:
        assert await connection.fetchval("SELECT pg_backend_pid()") == before


async def test_an_absent_server_is_named_at_the_deadline(tmp_path: Path) -> None:
    """What is wrong, where, and what to do; and no password."""
    url = f"postgresql://someone:geheim@/ledger?host={tmp_path}"
    with pytest.raises(StoreUnreachable) as caught:
        await connections.connect_postgres(
            url, connections_max=1, application="tests", deadline_seconds=0, clock=ManualClock()
        )
    text = str(caught.value)
    assert str(tmp_path) in text
    assert "someone@" in text
    assert "DATABASE_URL" in text
    assert "geheim" not in text


@pytest.mark.parametrize(
    ("part", "wrong"),
    [(r"@/\w+\?", "@/no_such_database?"), (r"//\w+:", "//nobody_known:"), (r":\w+@", ":wrong@")],
    ids=["database", "role", "password"],
)
async def test_what_waiting_cannot_mend_is_reported_at_once(postgres_url: str, part: str, wrong: str) -> None:
    """A wrong name or password is not retried until the deadline."""
    url = re.sub(part, wrong, postgres_url)
    async with asyncio.timeout(10):
        with pytest.raises(StoreUnreachable, match="check DATABASE_URL"):
            await connections.connect_postgres(url, connections_max=1, application="tests", deadline_seconds=3600)


async def test_a_url_of_something_else_is_refused_without_quoting_it() -> None:
    """The text of a URL may hold a password."""
    for url in ("mysql://root:geheim@localhost/db", "postgresql://root:geheim@localhost:port/db"):
        with pytest.raises(StoreUnreachable, match="not a PostgreSQL URL") as caught:
            await connections.connect_postgres(url, connections_max=1, application="tests", deadline_seconds=0)
        assert "geheim" not in str(caught.value)


async def test_redis_answers(redis_url: str) -> None:
    """The embedded Redis is new enough, keeps a file and evicts nothing, so nothing is warned about."""
    client = await connections.connect_redis(redis_url)
    assert await client.set("nonce", "1", nx=True, ex=130)
    assert not await client.set("nonce", "1", nx=True, ex=130)
    await client.aclose()


async def test_an_absent_redis_is_named_at_the_deadline(tmp_path: Path) -> None:
    """What is wrong, where, and what to do; and no password."""
    with pytest.raises(StoreUnreachable) as caught:
        await connections.connect_redis(
            f"unix://someone:geheim@{tmp_path}/redis.sock", deadline_seconds=0, clock=ManualClock()
        )
    assert f"{tmp_path}/redis.sock" in str(caught.value)
    assert "REDIS_URL" in str(caught.value)
    assert "geheim" not in str(caught.value)
    with pytest.raises(StoreUnreachable, match="is not a redis"):
        await connections.connect_redis("http://localhost", deadline_seconds=0)


async def test_a_redis_with_the_wrong_password_is_reported_at_once(redis_url: str) -> None:
    """A password that is refused is not retried until the deadline."""
    async with asyncio.timeout(10):
        with pytest.raises(StoreUnreachable, match="password"):
            await connections.connect_redis(redis_url.replace("unix://", "unix://u:geheim@"), deadline_seconds=3600)


async def test_a_redis_that_may_forget_nonces_is_warned_about(redis_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """An evicted nonce could be used again (money rule 11)."""
    client = await connections.connect_redis(redis_url)
    assert "evicts" not in caplog.text
    await client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with caplog.at_level(logging.WARNING):
            await (await connections.connect_redis(redis_url)).aclose()
    finally:
        await client.config_set("maxmemory-policy", "noeviction")
        await client.aclose()
    assert "evicts" in caplog.text


async def test_an_old_redis_is_refused() -> None:
    """Older servers lack commands that are used here."""
    client = redis.asyncio.Redis()
    with pytest.raises(StoreUnreachable, match=r"6\.2 or newer"):
        await connections._checked_redis(client, {"redis_version": "5.0.14"}, "here")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:geheim@db.example:5433/ledger", "me@db.example:5433/ledger"),
        ("postgresql://postgres@/postgres?host=%2Frun%2Fpg&port=5432", "postgres@/run/pg/postgres"),
        ("unix:///run/redis.sock?db=0", "/run/redis.sock"),
        ("redis://:geheim@cache:6379/0", "cache:6379/0"),
        ("redis://[geheim", "an unreadable URL"),
    ],
)
def test_urls_are_shown_without_their_password(url: str, shown: str) -> None:
    """Messages about a store end up in logs."""
    assert connections.describe_url(url) == shown


async def test_who_must_start_without_postgresql_starts(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica answers reads while the database is away, and uses it as soon as it is back."""
    monkeypatch.setattr(connections, "_CONNECT_SECONDS", 0.1)
    pool = await connections.checked_postgres(
        "postgresql://nobody@127.0.0.1:1/x", connections_max=1, application="tests"
    )
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    with pytest.raises(OSError):
        await pool.fetchval("SELECT 1")
    await pool.close()
