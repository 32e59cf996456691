"""Both stores: named keys and what they have spent, written with their account's groups. PostgreSQL: facts, audit."""

import asyncpg
import msgspec
import pytest

from actors.accounts.account import Account, NamedKeySet
from actors.accounts.admission import decide_hold
from actors.accounts.audit import audit
from actors.accounts.core import decide_adjust, decide_settle, decide_void
from actors.accounts.named_keys import KeyLimits, KeyProfile, KeySpending, StoredKey, write_limits
from actors.accounts.store import AccountStore, PostgresAccountStore
from actors.accounts.stored import StoreUnavailable
from actors.calls import KeyProof
from actors.clock import ManualClock
from actors.units import routing_bytes
from tests.accounts.making import ALICE, BOB, START, group_of, hold, opened, opening_group, settle, take
from tests.accounts.shards import SHARDS

DAY = START.wall_ms // 86_400_000
PROFILE = KeyProfile(1, "bot", b"\1" * 32, "srpc_live_abcd", write_limits(KeyLimits(credits_total=100)), 17)
CHILD = KeyProfile(2, "child", b"\2" * 32, "c", "{}", 18, parent=1)
PROOF, CHILD_PROOF = (KeyProof(each.key_hash, routing_bytes(ALICE)) for each in (PROFILE, CHILD))


async def with_keys(store: AccountStore) -> tuple[int, Account]:
    epoch = await store.take_over("me", SHARDS, False)
    account = opened()
    await store.write(epoch, opening_group(account, decide_adjust(account, 500, "", b"opening", START)))
    await store.write(epoch, group_of(account, NamedKeySet(PROFILE), NamedKeySet(CHILD)))
    return epoch, account


async def paid(store: AccountStore, epoch: int, account: Account, number: int, credits: int, proof: KeyProof) -> None:
    take(account, decide_hold(account, hold(number, credits, proof=proof), START).event)
    debit = decide_settle(account, settle(number, credits), START).event
    assert debit is not None
    await store.write(epoch, group_of(account, debit))


async def stored_keys(store: AccountStore) -> list[StoredKey]:
    stored = await store.load(ALICE, 0)
    assert stored is not None
    return stored.keys


async def test_a_key_is_kept_and_found_by_its_hashes(store: AccountStore) -> None:
    epoch, account = await with_keys(store)
    assert await stored_keys(store) == [StoredKey(PROFILE, KeySpending()), StoredKey(CHILD, KeySpending())]
    assert await store.find_key(b"\1" * 32) == ALICE
    rotated = msgspec.structs.replace(PROFILE, key_hash=b"\3" * 32, old_hash=b"\1" * 32, old_until=60, status="frozen")
    await store.write(epoch, group_of(account, NamedKeySet(rotated)))
    assert (await stored_keys(store))[0].profile == rotated
    for known in (b"\1" * 32, b"\3" * 32):
        assert await store.find_key(known) == ALICE
    assert await store.find_key(b"\4" * 32) is None


async def test_a_named_key_is_found_by_its_public_keys_and_a_child_is_not(store: AccountStore) -> None:
    """A child's own texts prove what they were made from; nothing is made from it alone."""
    epoch, account = await with_keys(store)
    former, today, child = (bytes([number]) * 32 for number in (7, 8, 9))
    root = msgspec.structs.replace(PROFILE, public=today, old_public=former)
    made = KeyProfile(
        *(3, "made", b"\4" * 32, "c", "{}", 18),
        parent=1,
        public=child,
        old_public=b"o" * 32,
        signed_by=today,
        block=b"b" * 32,
    )
    await store.write(epoch, group_of(account, NamedKeySet(root), NamedKeySet(made)))
    found = [await store.find_root(public) for public in (today, former, child, b"o" * 32, b"x" * 32)]
    assert found == [ALICE, ALICE, None, None, None]


async def test_spending_is_written_with_its_entries(store: AccountStore) -> None:
    epoch, account = await with_keys(store)
    await paid(store, epoch, account, 1, 7, PROOF)
    await paid(store, epoch, account, 2, 20, CHILD_PROOF)
    spent = [key.spending for key in await stored_keys(store)]
    assert spent == [KeySpending(27, DAY, 27), KeySpending(20, DAY, 20)]
    refund = decide_void(account, settle(2, 20), START, asked_store=True).event
    assert refund is not None
    await store.write(epoch, group_of(account, refund))
    assert [key.spending.total for key in await stored_keys(store)] == [7, 0]
    entries = await store.entries(ALICE, 0, 10, False)
    assert [entry.description for entry in entries] == ["|2", "|2", "|1", ""]


async def test_a_hash_is_one_keys_for_ever(store: AccountStore) -> None:
    epoch, _ = await with_keys(store)
    other = opened(BOB)
    await store.write(epoch, opening_group(other))
    with pytest.raises((StoreUnavailable, asyncpg.PostgresError)):
        await store.write(epoch, group_of(other, NamedKeySet(PROFILE)))


async def test_usage_by_key_is_the_ledgers(store: AccountStore) -> None:
    """Whatever part of it was rolled up, and the account's own calls are those without a number."""
    epoch, account = await with_keys(store)
    own = KeyProof(b"own" + bytes(29), PROOF.routing)
    account.profile = msgspec.structs.replace(account.profile, key_hash=own.key_hash)
    hour = START.wall_ms // 3_600_000
    await paid(store, epoch, account, 1, 7, PROOF)
    await paid(store, epoch, account, 2, 20, CHILD_PROOF)
    for rolled in (0, 2, 10):
        if rolled:
            await store.usage.roll(ALICE, rolled)
        lines = await store.usage.read(ALICE, hour, hour + 1, ("key",))
        assert {(line.key, line.calls, line.credits) for line in lines} == {(1, 1, 7), (2, 1, 20)}
    await paid(store, epoch, account, 3, 5, own)
    for _ in range(2):
        lines = await store.usage.read(ALICE, hour, hour + 1, ("key", "method"))
        assert {(line.key, line.credits) for line in lines} == {(0, 5), (1, 7), (2, 20)}
        await store.usage.roll(ALICE, 10)
    (total,) = await store.usage.read(ALICE, hour, hour + 1, ("method",))
    assert (total.calls, total.credits, total.key) == (3, 32, 0)


CHANGES = {
    "UPDATE account_keys SET limits = '{}' WHERE number = 1": "named key 1: limits is",
    "UPDATE account_keys SET status = 'deleted' WHERE number = 2": "named key 2: status is 'deleted'",
    "UPDATE account_keys SET key_hash = decode(repeat('09', 32), 'hex') WHERE number = 1": "named key 1: key_hash is",
    "DELETE FROM account_keys WHERE number = 2": "named key 2 is gone",
    "UPDATE account_key_spending SET total = 1 WHERE number = 1": "a named key has spent other credits",
    "DELETE FROM account_key_spending WHERE number = 2": "a named key has spent other credits",
    "UPDATE account_key_usage SET calls = 9": "the usage of a named key in an hour",
}


@pytest.mark.parametrize("change", ["", *CHANGES])
async def test_the_audit_names_what_was_changed(
    postgres_pool: asyncpg.Pool, owner_url: str, clock: ManualClock, change: str
) -> None:
    """Threat 56: by whoever owns the tables."""
    store = PostgresAccountStore(postgres_pool)
    await store.prepare(clock.now_ms())
    epoch, account = await with_keys(store)
    await paid(store, epoch, account, 1, 7, PROOF)
    await paid(store, epoch, account, 2, 20, CHILD_PROOF)
    await store.usage.roll(ALICE, 10)
    owner = await asyncpg.connect(owner_url)
    try:
        if change:
            await owner.execute(change)
        report = await audit(owner)
    finally:
        await owner.close()
        await store.close()
    found = "\n".join(str(fault) for fault in report.faults)
    assert (CHANGES[change] in found) if change else (report.faults_total == 0), found
