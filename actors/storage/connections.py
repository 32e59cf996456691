"""Opens connections to PostgreSQL and Redis.

Implements: design, "Layout" (storage); design, "What must survive what" (both may be away for a minute: every call here
has a deadline). Not here: the data (each context's store.py), the tables (schema.py), the embedded servers
(local_servers/).

Every statement has a time limit on both sides, so a lost server causes an exception within seconds and no call hangs.
Connections set session state when they are opened, so a pooler in transaction mode is not supported.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import redis.asyncio
import redis.exceptions
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff

from actors.clock import Clock, SystemClock
from actors.config import StorageConfig
from actors.storage.running_releases import ReleaseTooOld, application_name, refuse_old_release

logger = logging.getLogger(__name__)

POSTGRES_MAJOR_MIN = 14
REDIS_VERSION_MIN = (6, 2)
STATEMENT_SECONDS = 10.0  # Group commits take milliseconds; after this time the server counts as lost.
_CONNECT_SECONDS = 5.0
_CONNECTION_IDLE_SECONDS = (
    60.0  # A server process of PostgreSQL takes 3 MB; connections in use are used every few seconds.
)
_STATEMENTS_CACHED = 256  # More than all contexts have together.
_REDIS_CONNECTIONS_MAX = 64
_REDIS_SECONDS = 3.0
_REDIS_RETRIES = 2
_REDIS_CHECK_SECONDS = 15  # A connection unused for this long is probed before use.
_RETRY_SECONDS = (0.05, 0.1, 0.2, 0.5, 1.0)
# Errors that a retry cannot change: credentials, rights, names.
_POSTGRES_HOPELESS = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
)
_POSTGRES_AWAY = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)
# Errors of a connection in use. InternalClientError: a message of a server that ends came while none was expected.
AWAY_AT_WORK = (*_POSTGRES_AWAY, asyncpg.InternalClientError)
# The server ends a connection whose machine was silent for 11 s; by default after two hours. Nothing to a Unix socket.
_NOTICES_LOST_MACHINES = "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3"
_HAS_LOCK = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid())"
_REDIS_HOPELESS = (redis.exceptions.AuthenticationError, redis.exceptions.AuthorizationError)


class StoreUnreachable(Exception):
    """A store cannot be used. The text names the store, the reason and the next step, and contains no password."""


async def connect_postgres(
    url: str, *, connections_max: int, application: str, deadline_seconds: float = 30.0, clock: Clock | None = None
) -> asyncpg.Pool:
    """Connect to PostgreSQL, trying until the deadline, and return the pool.

    application: shown in pg_stat_activity, with this release. Raises StoreUnreachable, and ReleaseTooOld. Close it with
    `await pool.close()`.
    """
    clock = clock or SystemClock()
    where = describe_url(url)
    deadline = clock.monotonic() + deadline_seconds
    attempt = 0
    while True:
        try:
            return await _open_pool(url, connections_max, application, where)
        except ReleaseTooOld:
            raise
        except _POSTGRES_HOPELESS as error:
            raise StoreUnreachable(
                f"PostgreSQL at {where}: {error}; check DATABASE_URL and the user's rights"
            ) from error
        except ValueError as error:  # asyncpg's error for a malformed URL; its text may contain the password.
            raise StoreUnreachable(f"PostgreSQL at {where}: DATABASE_URL is not a PostgreSQL URL") from error
        except _POSTGRES_AWAY as error:
            pause_seconds = _RETRY_SECONDS[min(attempt, len(_RETRY_SECONDS) - 1)]
            attempt += 1
            if clock.monotonic() + pause_seconds > deadline:
                raise StoreUnreachable(
                    f"PostgreSQL at {where}: no connection within {deadline_seconds:g} s: {_reason(error)}; "
                    "start it, or correct DATABASE_URL"
                ) from error
            await asyncio.sleep(pause_seconds)


async def configured_postgres(storage: StorageConfig, connections_max: int, application: str) -> asyncpg.Pool:
    """As connect_postgres, by the settings of an actor."""
    assert storage.postgres_url is not None
    url = storage.postgres_url.get_secret_value()
    return await connect_postgres(url, connections_max=connections_max, application=application)


async def checked_postgres(url: str, *, connections_max: int, application: str) -> asyncpg.Pool:
    """Return a pool also while the server does not answer; the problem is logged.

    For processes that must start without PostgreSQL: a replica answers reads while it is away.
    """
    try:
        return await connect_postgres(
            url, connections_max=connections_max, application=application, deadline_seconds=_CONNECT_SECONDS
        )
    except StoreUnreachable as error:
        logger.error("%s", error)
        return await _make_pool(url, connections_max, application)


class Lock:
    """True where this process got it. The server holds it for a connection, so it is lost when the server restarts."""

    def __init__(self, connection: Any, is_taken: bool) -> None:
        self._connection, self._is_taken = connection, is_taken

    def __bool__(self) -> bool:
        return self._is_taken

    async def is_held(self) -> bool:
        """Return whether this process has it still; else another one may have it."""
        try:
            return bool(await self._connection.fetchval(_HAS_LOCK))
        except AWAY_AT_WORK:
            return False


@asynccontextmanager
async def alone(storage: StorageConfig, lock: int, application: str, away: type[Exception]) -> AsyncIterator[Lock]:
    """Whether no other process with this database has this lock; it is held while the block runs, by a connection. It
    ends with the process, and some seconds after the machine is lost. away: raised where the database does not answer.
    """
    assert storage.postgres_url is not None
    pool = await checked_postgres(storage.postgres_url.get_secret_value(), connections_max=1, application=application)
    try:
        with away_as(away):
            connection = await pool.acquire()
            await connection.execute(_NOTICES_LOST_MACHINES)
            is_alone = bool(await connection.fetchval("SELECT pg_try_advisory_lock($1)", lock))
        try:
            yield Lock(connection, is_alone)
        finally:  # The server would notice the end of the pool a little later.
            with contextlib.suppress(*AWAY_AT_WORK):
                await connection.execute("SELECT pg_advisory_unlock_all()")
    finally:
        pool.terminate()


async def _open_pool(url: str, connections_max: int, application: str, where: str) -> asyncpg.Pool:
    pool = await _make_pool(url, connections_max, application)
    try:
        await _check_server(pool, where)
    except BaseException:
        pool.terminate()
        raise
    return pool


async def _make_pool(url: str, connections_max: int, application: str) -> asyncpg.Pool:
    """Make a pool that connects when it is first used."""
    return await asyncpg.create_pool(
        url,
        min_size=0,  # With a minimum, the library logs many errors while the server is away.
        max_size=connections_max,
        timeout=_CONNECT_SECONDS,
        command_timeout=STATEMENT_SECONDS,
        statement_cache_size=_STATEMENTS_CACHED,
        max_inactive_connection_lifetime=_CONNECTION_IDLE_SECONDS,
        init=refuse_old_release,
        reset=_reset,
        server_settings={
            "application_name": application_name(application),
            # The server ends a statement a little earlier than the client, because its error message is clearer.
            "statement_timeout": str(round((STATEMENT_SECONDS - 1) * 1000)),
            "idle_in_transaction_session_timeout": str(round(STATEMENT_SECONDS * 1000)),
            "jit": "off",
        },
    )


async def _reset(connection: asyncpg.Connection) -> None:
    """Reset a connection only if its transaction is open; no other session state is ever left, and a reset costs a
    round trip."""
    if connection.is_in_transaction():
        await connection.reset()


async def _check_server(pool: asyncpg.Pool, where: str) -> None:
    async with pool.acquire() as connection:
        version = connection.get_server_version()
        read_only = await connection.fetchval("SELECT current_setting('transaction_read_only') = 'on'")
    if version.major < POSTGRES_MAJOR_MIN:
        raise StoreUnreachable(
            f"PostgreSQL at {where} is version {version.major}; {POSTGRES_MAJOR_MIN} or newer is needed"
        )
    if read_only:
        raise StoreUnreachable(f"PostgreSQL at {where} takes no writes (a replica?); set DATABASE_URL to the primary")


@contextmanager
def away_as(unavailable: type[Exception]) -> Iterator[None]:
    """Turn errors of a database that is away into a store's own exception."""
    try:
        yield
    except AWAY_AT_WORK as error:
        raise unavailable(f"{type(error).__name__}: {error}") from error


@asynccontextmanager
async def borrowed(pool: asyncpg.Pool, wait_seconds: float, unavailable: type[Exception]) -> AsyncIterator[Any]:
    """Lend a connection of the pool; one that lost its database is not returned to the pool."""
    with away_as(unavailable):
        async with pool.acquire(timeout=wait_seconds) as connection:
            try:
                yield connection
            except AWAY_AT_WORK:
                connection.terminate()  # The connection may be broken, and the pool cannot know that.
                raise


def open_redis(url: str) -> redis.asyncio.Redis:
    """Return a client that connects when it is first used; the library replaces a lost connection.

    The library tries a failed command twice more, and a command that raised may have been executed. So send only
    commands that may be repeated, or whose second answer shows that the first one was executed.
    """
    return redis.asyncio.Redis.from_url(
        url,
        max_connections=_REDIS_CONNECTIONS_MAX,
        socket_connect_timeout=_REDIS_SECONDS,
        socket_timeout=_REDIS_SECONDS,
        health_check_interval=_REDIS_CHECK_SECONDS,
        retry=Retry(ExponentialWithJitterBackoff(cap=0.5, base=0.05), _REDIS_RETRIES),
        retry_on_error=[redis.exceptions.ConnectionError, redis.exceptions.TimeoutError],
    )


async def connect_redis(url: str, *, deadline_seconds: float = 30.0, clock: Clock | None = None) -> redis.asyncio.Redis:
    """Connect to Redis, trying until the deadline, and return the client. Raises StoreUnreachable.

    Close it with `await client.aclose()`.
    """
    clock = clock or SystemClock()
    where = describe_url(url)
    deadline = clock.monotonic() + deadline_seconds
    try:
        client = open_redis(url)
    except ValueError as error:
        raise StoreUnreachable(f"Redis at {where}: REDIS_URL is not a redis://, rediss:// or unix:// URL") from error
    attempt = 0
    while True:
        try:
            about = await client.info()
        except (redis.exceptions.RedisError, OSError) as error:
            # While it connects, the library reports a refused password as a ConnectionError.
            if isinstance(error, _REDIS_HOPELESS) or isinstance(error.__cause__, _REDIS_HOPELESS):
                await client.aclose()
                raise StoreUnreachable(
                    f"Redis at {where}: {error}; check the user and password in REDIS_URL"
                ) from error
            pause_seconds = _RETRY_SECONDS[min(attempt, len(_RETRY_SECONDS) - 1)]
            attempt += 1
            if clock.monotonic() + pause_seconds > deadline:
                await client.aclose()
                raise StoreUnreachable(
                    f"Redis at {where}: no answer within {deadline_seconds:g} s: {_reason(error)}; "
                    "start it, or correct REDIS_URL"
                ) from error
            await asyncio.sleep(pause_seconds)
        else:
            return await _checked_redis(client, about, where)


async def checked_redis(url: str) -> redis.asyncio.Redis:
    """Return a client also while the server does not answer; the problem is logged.

    For processes that must start without Redis: calls by API key continue while it is away.
    """
    try:
        return await connect_redis(url, deadline_seconds=_REDIS_SECONDS)
    except StoreUnreachable as error:
        logger.error("%s", error)
        return open_redis(url)


async def _checked_redis(client: redis.asyncio.Redis, about: dict[str, object], where: str) -> redis.asyncio.Redis:
    text = str(about.get("redis_version", "0"))
    version = tuple(int(part) for part in text.split(".")[:2] if part.isdigit())
    if version < REDIS_VERSION_MIN:
        await client.aclose()
        needed = ".".join(map(str, REDIS_VERSION_MIN))
        raise StoreUnreachable(f"Redis at {where} is version {text}; {needed} or newer is needed")
    if about.get("maxmemory_policy", "noeviction") != "noeviction":
        logger.warning(
            "Redis at %s evicts keys (%s): an evicted nonce could be used again; set maxmemory-policy noeviction",
            where,
            about.get("maxmemory_policy"),
        )
    if about.get("aof_enabled") == 0:
        logger.warning("Redis at %s keeps no append-only file: nonces and sessions are lost when it stops", where)
    return client


def describe_url(url: str) -> str:
    """Return a store's URL without its password, for messages."""
    try:
        parts = urlsplit(url)
        user = f"{parts.username}@" if parts.username else ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "an unreadable URL"
    if parts.scheme == "unix":
        return parts.path
    host = parts.hostname or parse_qs(parts.query).get("host", [""])[0]  # asyncpg expects a socket's folder there.
    return f"{user}{host}{port}{parts.path}"


def _reason(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
