"""PostgreSQL killed under load, for real: paid calls pause, then all resumes by itself, and the audit balances."""

import asyncio
import os
import secrets
import signal
import time
from collections.abc import Iterator

import asyncpg
import pytest

from actors.accounts.actor import AccountShard
from actors.accounts.api import AdjustCredits, IssueKey, OwnerUnavailable
from actors.accounts.audit import audit
from actors.accounts.store import PostgresAccountStore
from actors.calls import HoldItem, HoldRequest, KeyProof, SettleRequest, WalletProof
from actors.clock import SystemClock
from actors.config import AccountsConfig, IdentityConfig, PaymentsConfig
from actors.identity.credentials import parse_api_key
from actors.local_servers.child_processes import Supervisor
from actors.local_servers.embedded_postgres import EmbeddedPostgres
from actors.storage.connections import connect_postgres
from tests.accounts.making import ALICE, pubkey_of
from tests.accounts.shards import SHARDS, answered
from tests.conftest import a_server_of_its_own
from tests.databases import bring_up
from tests.identity.memory_store import MemoryIdentityStore

CLIENTS = 8
OPENING = 100_000


@pytest.fixture
def own_server() -> Iterator[tuple[EmbeddedPostgres, Supervisor]]:
    """A PostgreSQL that no other test uses, because it is killed."""
    with a_server_of_its_own() as started:
        yield started


class Replicas:
    """Clients that call as fast as they are answered, until told to stop."""

    def __init__(self, shard: AccountShard, proofs: list[tuple[bytes, KeyProof]]) -> None:
        self.shard, self.proofs = shard, proofs
        self.replica, self.counter = secrets.token_bytes(8), 0
        self.answered: dict[bytes, int] = {}
        self.given_up: set[bytes] = set()
        self.refused = 0
        self.stopping = False
        self.goal, self.reached = 0, asyncio.Event()

    async def client(self) -> None:
        while not self.stopping:
            self.counter += 1
            operation = self.replica + self.counter.to_bytes(8, "big")
            pubkey, proof = self.proofs[self.counter % len(self.proofs)]
            held = await answered(self.shard.hold_now(HoldRequest(operation, proof, (HoldItem("getSlot", 3),))))
            if held.verdicts != (None,):
                self.refused += 1
                await asyncio.sleep(0.02)
                continue
            request = SettleRequest(operation, pubkey, held.epoch, "getSlot", 3, 3, 0, int(time.time()))
            if await self.settled(request):
                self.answered[operation] = 3
                if len(self.answered) >= self.goal:
                    self.reached.set()
            else:
                self.given_up.add(operation)

    async def settled(self, request: SettleRequest) -> bool:
        """As the hot link does it: asked again by operation id until the owner can say."""
        while True:
            try:
                return bool((await answered(self.shard.settle_now(request))).ok)
            except OwnerUnavailable:
                await asyncio.sleep(0.02)

    async def calls(self, more: int) -> None:
        """Until so many more calls were answered."""
        self.goal = len(self.answered) + more
        self.reached.clear()
        async with asyncio.timeout(30):
            await self.reached.wait()


async def test_postgres_killed_under_load(own_server: tuple[EmbeddedPostgres, Supervisor]) -> None:
    """Threat 44, money rules 2 and 9: no restart of the owner, no answered call lost, none charged twice."""
    server, supervisor = own_server
    await bring_up(server)
    pool = await connect_postgres(server.url, connections_max=4, application="owner")
    shard = AccountShard(
        AccountsConfig(requests_per_second=100_000),
        IdentityConfig(),
        PaymentsConfig(),
        PostgresAccountStore(pool),
        MemoryIdentityStore(),
        SystemClock(),
        "owner",
        SHARDS,
    )
    await shard.start()
    proofs = []
    for pubkey in (ALICE, pubkey_of("second"), pubkey_of("third")):
        await shard.ask(AdjustCredits(pubkey, OPENING, "opening", "opening"))
        issued = await shard.ask(IssueKey(WalletProof(pubkey, "nonce", int(time.time()))))
        assert issued.value is not None
        proof = parse_api_key(issued.value)
        assert proof is not None
        proofs.append((pubkey, proof))
    replicas = Replicas(shard, proofs)
    clients = [asyncio.ensure_future(replicas.client()) for _ in range(CLIENTS)]
    for _ in range(2):
        await replicas.calls(100)
        pid = supervisor.pid("postgres")
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await replicas.calls(100)
    replicas.stopping = True
    await asyncio.gather(*clients)
    await shard.stop()

    assert not (await shard.health())["fenced"]
    connection = await asyncpg.connect(server.url)
    report = await audit(connection)
    assert report.faults == []
    charged = {
        row[0]: -row[1] for row in await connection.fetch("SELECT operation_id, amount FROM ledger WHERE type = 2")
    }
    assert charged == replicas.answered
    assert report.balance == 3 * OPENING - sum(replicas.answered.values())
    await connection.close()
    await pool.close()
