"""The record of nonces between memory and the store: claims, writes and their unknown ends."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from actors.accounts.api import OwnerUnavailable
from actors.accounts.nonce_writer import WAITING_MAX, NonceWriter
from actors.accounts.nonces import NONCE_SECONDS, PROOF_SECONDS, SLACK_SECONDS, Signed, signed_request
from actors.calls import WalletProof
from actors.clock import ManualClock
from actors.errors import Err
from actors.identity.store import IdentityStoreUnavailable, NotTheOwner
from tests.accounts.making import ALICE, BOB, operation
from tests.accounts.shards import SHARDS, FailingIdentityStore, run_ready

RATE = 100
UNAVAILABLE, REUSED = Err.SERVICE_TEMPORARILY_UNAVAILABLE, Err.NONCE_REUSED
LOST_SECONDS = 2 * SLACK_SECONDS + PROOF_SECONDS  # From a loss until a message signed now is judged again.


class Ledger:
    """What a log asks of the group commit: the epoch, and whether anybody had the shards before."""

    def __init__(self, epoch: int, inherited: bool = True) -> None:
        self.epoch, self.inherited = epoch, inherited
        self.is_ours, self.asked = True, 0

    async def confirm(self) -> int:
        self.asked += 1
        await asyncio.sleep(0)
        if not self.is_ours:
            raise OwnerUnavailable("another owner")
        return self.epoch


class Owner:
    """A log and what is around it."""

    def __init__(self, store: FailingIdentityStore, clock: ManualClock, epoch: int, inherited: bool = True) -> None:
        self.ledger: Any = Ledger(epoch, inherited)
        self.clock = clock
        self.log = NonceWriter(store, clock, self.ledger, SHARDS)

    def signed(self, nonce: str, pubkey: bytes = ALICE, at: int | None = None) -> Signed:
        return signed_request(WalletProof(pubkey, nonce, self.clock.now() if at is None else at))

    async def use(self, signed: Signed | str, number: int, undo: Callable[[], None] | None = None) -> Err | None:
        """As the owner of an account does: open, decide, take, wait."""
        signed = self.signed(signed) if isinstance(signed, str) else signed
        try:
            await self.log.open()
            refusal = self.log.refusal(signed, operation(number), RATE)
            if refusal is None:
                kept = self.log.take(signed, operation(number), undo)
                if kept is not None:
                    await asyncio.shield(kept)
        except IdentityStoreUnavailable:
            return UNAVAILABLE
        return refusal


@pytest.fixture
def store(clock: ManualClock) -> FailingIdentityStore:
    return FailingIdentityStore(clock)


@pytest.fixture
def owner(store: FailingIdentityStore, clock: ManualClock) -> Owner:
    return Owner(store, clock, 1, inherited=False)


async def test_all_that_wait_go_together(owner: Owner, store: FailingIdentityStore) -> None:
    assert await owner.use("first", 1) is None
    assert await asyncio.gather(*(owner.use(f"n{number}", number) for number in range(20))) == [None] * 20
    assert store.pipelines <= 3
    await owner.log.stop()


async def test_the_record_is_claimed_once_however_many_wait(owner: Owner, store: FailingIdentityStore) -> None:
    """And no nonce costs a second round trip."""
    assert await asyncio.gather(*(owner.use(f"n{number}", number) for number in range(20))) == [None] * 20
    assert (store.claims, owner.ledger.asked) == (len(SHARDS) // 128, 1)
    assert (await owner.use("later", 30), store.claims, store.pipelines) == (None, len(SHARDS) // 128, 2)


async def test_a_successor_knows_every_nonce(owner: Owner, store: FailingIdentityStore, clock: ManualClock) -> None:
    """Money rule 11. The same operation is the same request still, another one is a replay."""
    asked = owner.signed("n")
    assert await owner.use(asked, 1) is None
    successor = Owner(store, clock, 2)
    assert await successor.use(asked, 2) is REUSED
    assert await successor.use(asked, 1) is None


async def test_a_former_owner_admits_nothing_more(
    owner: Owner, store: FailingIdentityStore, clock: ManualClock
) -> None:
    """Threats 40 and 55: its write was under way when the record was claimed; what it has is refused, and the
    nonce is the successor's to give."""
    assert await owner.use("before", 1) is None
    asked = owner.signed("n")
    way = store.gate = asyncio.Event()
    late = asyncio.ensure_future(owner.use(asked, 2))
    await run_ready()
    owner.ledger.is_ours = False
    successor = Owner(store, clock, 2)
    store.gate = None
    assert await successor.use(asked, 3) is None
    way.set()
    assert await late is UNAVAILABLE
    assert await owner.use("after", 4) is UNAVAILABLE
    assert await successor.use(asked, 5) is REUSED


async def test_a_failed_write_leaves_the_nonce_taken(owner: Owner, store: FailingIdentityStore) -> None:
    """Its end is not known: it may have been made, or may still be made. What else the request took is given back once,
    before anybody learns of it; only the operation that took the nonce may try again."""
    assert await owner.use("first", 1) is None
    undone: list[str] = []
    store.away = True
    asked = owner.signed("n")
    again = asyncio.gather(
        owner.use(asked, 2, lambda: undone.append("its hold")),
        owner.use(asked, 2),
        owner.use(asked, 2, lambda: undone.append("a hold of the same request on the account loaded anew")),
        owner.use(asked, 3, lambda: undone.append("nothing was taken")),
    )
    assert await again == [UNAVAILABLE, UNAVAILABLE, UNAVAILABLE, REUSED]
    assert undone == ["its hold", "a hold of the same request on the account loaded anew"]
    assert await owner.use(asked, 2) is UNAVAILABLE, "the store is not asked again at once"
    store.away = False
    owner.clock.advance(1)
    assert await owner.use(asked, 3) is REUSED
    assert await owner.use(asked, 2) is None
    assert len(undone) == 2


async def test_asked_again_while_the_write_is_under_way_waits_for_it(owner: Owner, store: FailingIdentityStore) -> None:
    """Threat 55: the link broke, and the same operation comes over the next one."""
    assert await owner.use("first", 1) is None
    asked = owner.signed("n")
    first = asyncio.ensure_future(owner.use(asked, 2))
    second = asyncio.ensure_future(owner.use(asked, 2))
    await asyncio.sleep(0)
    first.cancel()
    assert not second.done()
    assert await second is None
    assert await owner.use(asked, 3) is REUSED
    assert store.pipelines == 2


async def test_while_the_store_is_away_no_nonce_is_lost(owner: Owner, store: FailingIdentityStore) -> None:
    """Threat 2 in spirit: who is refused at once, as the store is known to be away, may send the same again."""
    assert await owner.use("first", 1) is None
    store.away = True
    assert await owner.use("the one that finds it out", 2) is UNAVAILABLE
    assert not owner.log.available
    asked = owner.signed("n")
    assert await owner.use(asked, 3) is UNAVAILABLE
    assert await owner.use(owner.signed("first"), 1) is None, "this was admitted before, and its answer stands"
    store.away = False
    owner.clock.advance(1)
    assert await owner.use(asked, 4) is None


async def test_what_waits_is_bounded(owner: Owner, store: FailingIdentityStore) -> None:
    await owner.log.open()
    futures = [owner.log.take(owner.signed(str(number)), operation(number)) for number in range(WAITING_MAX)]
    assert not owner.log.available
    assert owner.log.refusal(owner.signed("more"), operation(1), 10**6) is UNAVAILABLE
    assert futures[-1] is not None
    await futures[-1]
    assert owner.log.available


async def test_a_store_that_was_emptied_makes_nobody_forget(
    owner: Owner, store: FailingIdentityStore, clock: ManualClock
) -> None:
    """The owner lives, so memory knows all that was lost: signed requests go on, and replays are refused."""
    asked, fresh = owner.signed("n"), owner.signed("m")
    assert await owner.use(asked, 1) is None
    store._records.clear()
    assert await owner.use(fresh, 2) is None
    assert await owner.use(asked, 3) is REUSED
    # But its successor knows that something is missing, however much later it comes.
    clock.advance(5)
    successor = Owner(store, clock, 2)
    assert await successor.use(asked, 4) is UNAVAILABLE
    assert await successor.use(fresh, 4) is REUSED
    assert await successor.use(successor.signed("signed after the loss"), 5) is UNAVAILABLE
    clock.advance(LOST_SECONDS - 5)
    assert await successor.use(asked, 6) is UNAVAILABLE
    assert await successor.use(successor.signed("a second too early"), 6) is UNAVAILABLE
    clock.advance(1)
    assert await successor.use(successor.signed("in time"), 6) is None


@pytest.mark.parametrize("first", ["the store", "the owner"])
async def test_a_store_lost_together_with_its_owner_admits_nothing_twice(
    store: FailingIdentityStore, clock: ManualClock, first: str
) -> None:
    """Inside the 130 seconds: whatever may have been used before is refused until it is no longer good, and messages
    signed later are admitted 90 seconds after the loss."""
    owner = Owner(store, clock, 1)
    await owner.use("the loss before this test", 0)
    clock.advance(LOST_SECONDS + PROOF_SECONDS + 1)
    messages = [owner.signed(f"n{off}", at=clock.now() + off) for off in (-60, 0, 60)]
    assert [await owner.use(asked, 1) for asked in messages] == [None] * 3
    successor = Owner(store, clock, 2)
    if first == "the owner":
        await run_ready()
    store._records.clear()
    for _ in range(0, 300, 10):
        for asked in messages:
            assert await successor.use(asked, 2) in (UNAVAILABLE, REUSED)
        clock.advance(10)
    assert await successor.use("new", 3) is None


async def test_the_clocks_of_two_owners_may_differ_by_the_slack(store: FailingIdentityStore) -> None:
    """The bound that holds when store and owner are lost together: by more than SLACK_SECONDS it is not promised."""
    first = Owner(store, ManualClock(), 1, inherited=False)
    asked = first.signed("n", at=first.clock.now() + PROOF_SECONDS + SLACK_SECONDS)
    assert await first.use(asked, 1) is None
    store._records.clear()
    behind = ManualClock()
    behind._now_ms -= SLACK_SECONDS * 1000
    successor = Owner(store, behind, 2)
    for _ in range(0, 400, 5):
        assert await successor.use(asked, 2) is UNAVAILABLE
        behind.advance(5)


async def test_nothing_can_be_lost_where_nobody_was_before(owner: Owner, store: FailingIdentityStore) -> None:
    """A fresh database: the first signed request of all is admitted at once, though the store has no record."""
    assert await owner.use("first of all", 1) is None
    assert not any(record.lost_until for record in store._records.values())


async def test_a_record_left_by_an_older_database_is_taken_over(
    store: FailingIdentityStore, clock: ManualClock
) -> None:
    """Its epochs may be greater than any of ours; the database says whose the shards are."""
    older = Owner(store, clock, 70)
    await older.log.open()
    newer = Owner(store, clock, 1, inherited=False)
    assert await newer.use(newer.signed("n", BOB), 1) is UNAVAILABLE, "the older one found its own record missing"
    assert newer.ledger.asked == 2
    clock.advance(LOST_SECONDS + 1)
    assert await newer.use(newer.signed("m", BOB), 2) is None


async def test_a_database_that_is_away_lets_nobody_claim(
    owner: Owner, store: FailingIdentityStore, clock: ManualClock
) -> None:
    assert await owner.use("first", 1) is None
    owner.ledger.is_ours = False
    store._records.clear()
    asked = owner.signed("n")
    assert await owner.use(asked, 2) is UNAVAILABLE
    owner.ledger.is_ours = True
    clock.advance(1)
    assert await owner.use(asked, 2) is None


async def test_old_nonces_leave_memory_and_store(owner: Owner, store: FailingIdentityStore, clock: ManualClock) -> None:
    """Threat 4. A failing store is asked again later; one that has another owner is not ours to clear."""
    for number in range(100):
        assert await owner.use(owner.signed(f"n{number}"), number) is None
    clock.advance(NONCE_SECONDS + SLACK_SECONDS)
    store.away = True
    await owner.log.tick()
    assert owner.log._nonces.count == 0
    store.away = False
    assert sum(len(record.nonces) for record in store._records.values()) == 100
    clock.advance(60)
    await owner.log.tick()
    assert sum(len(record.nonces) for record in store._records.values()) == 0
    assert await Owner(store, clock, 2).use(owner.signed("n", at=clock.now() - 130), 3) is UNAVAILABLE


async def test_clearing_a_record_of_somebody_else_closes_this_one(
    owner: Owner, store: FailingIdentityStore, clock: ManualClock
) -> None:
    assert await owner.use("n", 1) is None
    await Owner(store, clock, 2).log.open()
    owner.ledger.is_ours = False
    clock.advance(NONCE_SECONDS + SLACK_SECONDS + 60)
    await owner.log.tick()
    assert not owner.log.is_open
    assert await owner.use("m", 2) is UNAVAILABLE


async def test_a_bug_in_the_store_reaches_whoever_waits(
    owner: Owner, store: FailingIdentityStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for ever, and nothing is admitted."""

    async def broken(*_: object) -> None:
        raise KeyError("a bug")

    await owner.log.open()
    monkeypatch.setattr(store, "take_nonces", broken)
    assert await asyncio.wait_for(owner.use("n", 1), 5) is UNAVAILABLE
    monkeypatch.setattr(store, "take_nonces", _never_ours)
    owner.clock.advance(1)
    assert await asyncio.wait_for(owner.use("m", 2), 5) is UNAVAILABLE


async def _never_ours(*_: object) -> None:
    raise NotTheOwner
