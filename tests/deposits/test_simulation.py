"""A chain that forks, lags and goes away, a watcher and owners that die in the middle of anything, and customers who
report whatever they like, all from one seed. The auditor asks the chain alone what everybody is owed.
"""

import asyncio
import contextlib
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from actors.accounts.actor import AccountShard
from actors.accounts.ledger import EntryType
from actors.deposits.usdc.actor import AWAY
from actors.deposits.usdc.chain import DepositChain
from actors.deposits.usdc.confirmation import Confirming
from actors.deposits.usdc.core import FindingStatus
from actors.deposits.usdc.crediting import Crediting
from actors.errors import Refusal
from tests.accounts.moody_store import MoodyStore
from tests.accounts.shards import World as AccountsWorld
from tests.accounts.shards import run_ready
from tests.deposits.memory_stores import MemoryDepositStore
from tests.deposits.world import ACCOUNT, MINIMUM, RATE, Crash, FakeChain, Sent, Tripwire, World, key_of

NAMES = ("alice", "bob", "carol", "dave")
STEPS = 250


class Owners:
    """The owner of all accounts, which may be replaced at any moment; calls to a dead one are lost."""

    def __init__(self, shard: AccountShard) -> None:
        self.shard = shard

    def __getattr__(self, name: str) -> Any:
        return getattr(self.shard, name)


def owed(chain: FakeChain) -> dict[bytes, int]:
    """The credits of each wallet by the auditor's own reading of the final chain, without any code of the product."""
    credits: Counter[bytes] = Counter()
    for _, sent in chain.final:
        if sent.failed or not sent.signed or sent.unexplained < 0:
            continue
        totals: Counter[str] = Counter()
        for name, amount in sent.payments:
            totals[name] += amount
        for name, amount in sent.payments:
            if totals[name] >= MINIMUM:
                credits[key_of(name)] += amount * RATE // 1_000_000
    return {pubkey: amount for pubkey, amount in credits.items() if amount}


@dataclass
class Simulation:
    seed: int
    chance: random.Random = field(init=False)
    accounts: AccountsWorld = field(init=False)
    world: World = field(init=False)
    owners: Owners = field(init=False)
    tasks: set["asyncio.Task[None]"] = field(default_factory=set)
    told: Counter[bytes] = field(default_factory=Counter)  # Credits that confirmations said they added.

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.accounts = AccountsWorld(store=MoodyStore(self.chance))
        self.world = World(MemoryDepositStore(), clock=self.accounts.clock)

    async def run(self) -> None:
        self.owners = Owners(await self.accounts.shard())
        self.world.accounts = self.owners
        for _ in range(STEPS):
            await self.step()
            self.check_nobody_has_too_much()
        await self.heal()

    async def step(self) -> None:
        await self.chance.choice(
            (
                self.somebody_pays,
                self.somebody_pays,
                self.something_becomes_final,
                self.something_becomes_final,
                self.a_fork_is_lost,
                self.the_node_has_a_mood,
                self.the_watcher_lives,
                self.the_watcher_lives,
                self.somebody_confirms,
                self.the_owner_is_replaced,
                self.time_passes,
            )
        )()
        for _ in range(self.chance.randrange(20)):
            await asyncio.sleep(0)

    # --- what may happen

    async def somebody_pays(self) -> None:
        payments = tuple(
            (self.chance.choice(NAMES), self.chance.choice((9, 5_000, 10_000, 10_001, 25_000, 999_999)))
            for _ in range(self.chance.randrange(4))
        )
        how: dict[str, Any] = self.chance.choice(
            ({}, {}, {}, {}, {"failed": True}, {"signed": False}, {"unexplained": -1}, {"unexplained": 7})
        )
        self.world.chain.slot += 1
        self.world.chain.pending.append((self.world.chain.slot, self.world.chain.make(*payments, **how)))

    async def something_becomes_final(self) -> None:
        """Transactions become final in the order of slots."""
        chain = self.world.chain
        chain.slot += 1
        for _ in range(self.chance.randrange(1, 4)):
            if chain.pending:
                chain.final.append(chain.pending.pop(0))
        if self.chance.random() < 0.2 and chain.final:
            chain.hidden.add(chain.final[-1][1].signature)

    async def a_fork_is_lost(self) -> None:
        """Its transactions are gone, or land again later under the same signature."""
        chain = self.world.chain
        lost, chain.pending = chain.pending, []
        for _, sent in lost:
            if self.chance.random() < 0.5:
                chain.slot += 1
                chain.pending.append((chain.slot, sent))

    async def the_node_has_a_mood(self) -> None:
        chain = self.world.chain
        chain.away = self.chance.random() < 0.3
        chain.lag = self.chance.choice((0, 0, 0, 3, 40))
        if self.chance.random() < 0.5:
            chain.hidden.clear()

    async def the_watcher_lives(self) -> None:
        """One life of a watcher, which may end at any step; two may live at the same time."""
        wire = Tripwire(self.chance.choice((-1, self.chance.randrange(60))))

        async def life() -> None:
            with contextlib.suppress(Crash, *AWAY):
                await self.world.watcher(wire).round()

        self._begin(life())

    async def somebody_confirms(self) -> None:
        """Report any transaction that was ever sent, several times at once."""
        known = self.world.chain.final + self.world.chain.pending
        if not known:
            return
        sent: Sent = self.chance.choice(known)[1]
        chain, crediting = DepositChain(self.world.chain), Crediting(self.owners)
        confirming = Confirming(
            ACCOUNT.address, self.world.watcher(), chain, self.world.store, crediting, self.world.clock
        )

        async def confirm() -> None:
            outcome, _ = await confirming.confirm(sent.signature)
            if not isinstance(outcome, Refusal):
                for part in outcome:
                    self.told[part.pubkey] += part.added

        for _ in range(self.chance.randrange(1, 4)):
            self._begin(confirm())

    async def the_owner_is_replaced(self) -> None:
        """The former owner lives on for a while, and its writes are refused."""
        if self.chance.random() < 0.3:
            with contextlib.suppress(Exception):
                self.owners.shard = await self.accounts.shard()

    async def time_passes(self) -> None:
        self.accounts.clock.advance(self.chance.choice((1, 30, 3_600)))
        await self.accounts.pauses.end()

    def _begin(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    # --- the end

    async def heal(self) -> None:
        """Everything works again; after one undisturbed round all deposits must be credited."""
        store = self.accounts.store
        assert isinstance(store, MoodyStore)
        store.kind = True
        chain = self.world.chain
        chain.away, chain.lag = False, 0
        chain.hidden.clear()
        for _ in range(30):
            await self.accounts.pauses.end()
            await run_ready()
        await asyncio.gather(*self.tasks)
        self.owners.shard = await self.accounts.shard()
        await self.world.watcher().round()

    # --- the auditor

    def credited(self) -> dict[bytes, int]:
        found: Counter[bytes] = Counter()
        for pubkey, row in self.accounts.store.rows.items():
            for entry, _ in row.entries:
                if entry.type == EntryType.DEPOSIT:
                    found[pubkey] += entry.amount
        return dict(found)

    def check_nobody_has_too_much(self) -> None:
        due = owed(self.world.chain)
        for pubkey, amount in self.credited().items():
            assert amount <= due.get(pubkey, 0), (self.seed, pubkey.hex())

    async def check_everybody_has_what_is_due(self) -> None:
        assert self.credited() == owed(self.world.chain), self.seed
        totals = await self.world.store.totals(ACCOUNT.address)
        assert (totals.waiting, totals.gaps) == (0, []), self.seed
        rows = await self.world.store.listing(ACCOUNT.address, FindingStatus.CREDITED, 10_000, 0)
        explained: Counter[bytes] = Counter()
        for row in rows:
            assert row.pubkey is not None
            explained[row.pubkey] += row.credits
        assert dict(explained) == owed(self.world.chain), self.seed
        for pubkey, amount in self.told.items():
            assert amount <= explained[pubkey], (self.seed, "more was told than credited")


@pytest.mark.parametrize("seed", range(25))
async def test_everybody_gets_what_the_chain_says_and_nobody_more(seed: int) -> None:
    """Money rule 4 holds under kills, lag, forks and repeated requests."""
    simulation = Simulation(seed)
    await simulation.run()
    await simulation.check_everybody_has_what_is_due()


async def test_the_simulation_is_not_idle() -> None:
    """The simulated runs contain credits, refusals and deaths, so the test above can fail."""
    simulation = Simulation(1)
    await simulation.run()
    totals = (await simulation.world.store.totals(ACCOUNT.address)).counts
    assert all(totals[status] for status in (FindingStatus.CREDITED, FindingStatus.LISTED, FindingStatus.IGNORED))
    assert sum(simulation.credited().values()) > 10_000
