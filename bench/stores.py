"""PostgreSQL and Redis of a measurement without the whole product, and an account owner on them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from actors.accounts.actor import AccountShard
from actors.accounts.store import PostgresAccountStore
from actors.clock import SystemClock
from actors.config import AccountsConfig, Config, IdentityConfig, PaymentsConfig, StorageConfig
from actors.identity.store import RedisIdentityStore
from actors.launch.assembly.migrations import migrate_all
from actors.local_servers.child_processes import Supervisor
from actors.local_servers.datadir import DataDir
from actors.local_servers.embedded_postgres import EmbeddedPostgres
from actors.local_servers.embedded_redis import EmbeddedRedis
from actors.storage.connections import connect_postgres, connect_redis
from actors.units import VIRTUAL_SHARDS, VirtualShard


@dataclass(frozen=True, slots=True)
class Stores:
    """Addresses. owner: PostgreSQL as the user who owns the tables."""

    postgres: str
    owner: str
    redis: str

    async def migrate(self) -> None:
        urls = SecretStr(self.postgres), SecretStr(self.owner)
        await migrate_all(Config(storage=StorageConfig(postgres_url=urls[0], postgres_migrations_url=urls[1])))


@contextmanager
def running(folder: Path) -> Iterator[Stores]:
    """Run both in this folder for as long as the block runs; the tables are still to be made by `migrate`."""
    with DataDir(folder / "data") as data, Supervisor() as supervisor:
        postgres, redis = EmbeddedPostgres(data), EmbeddedRedis(data)
        supervisor.start(postgres.child, redis.child)
        yield Stores(postgres.url, postgres.migrations_url, redis.url)


async def account_owner(
    postgres_url: str, redis_url: str, payments: PaymentsConfig, accounts: AccountsConfig | None = None
) -> AccountShard:
    """Start the owner of all accounts in this process. The caller stops it."""
    shard = AccountShard(
        accounts or AccountsConfig(),
        IdentityConfig(),
        payments,
        PostgresAccountStore(await connect_postgres(postgres_url, connections_max=4, application="bench")),
        RedisIdentityStore(await connect_redis(redis_url), SystemClock()),
        SystemClock(),
        "bench",
        tuple(map(VirtualShard, range(VIRTUAL_SHARDS))),
    )
    await shard.start()
    return shard
