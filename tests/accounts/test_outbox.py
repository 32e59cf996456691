"""Events that must be told at least once. Both stores."""

from actors.accounts.core import decide_adjust
from actors.accounts.deposits import decide_deposit, deposit_operation
from actors.accounts.outbox import announcement
from actors.accounts.store import AccountStore
from actors.events import CreditsExpiring, DepositCredited
from tests.accounts.making import ALICE, START, START_MS, group_of, opened, opening_group
from tests.accounts.shards import SHARDS

YEAR_MS = 365 * 86_400_000
DAY_MS = 86_400_000


async def test_a_deposit_is_announced_by_the_write_that_makes_it(store: AccountStore) -> None:
    """Told again until it is said to be told."""
    epoch = await store.take_over("first", SHARDS, False)
    account = opened()
    operation = deposit_operation(b"s" * 64, 3)
    deposited = decide_deposit(account, operation, 10_000, 7, 100_000, START)
    assert deposited is not None
    await store.write(epoch, opening_group(account, deposited))
    (first,) = await store.outbox.untold(SHARDS, 10)
    event = first.event
    assert isinstance(event, DepositCredited)
    assert (event.transfer_index, event.base_units, event.credits, event.bonus, event.slot) == (3, 10_000, 1_000, 0, 7)
    assert await store.outbox.untold(SHARDS, 10) == [first]
    assert await store.outbox.untold(SHARDS[:1], 10) == ([first] if account.shard == SHARDS[0] else [])
    await store.outbox.told([first.id])
    assert await store.outbox.untold(SHARDS, 10) == []


async def test_a_batch_near_its_expiry_is_announced_once(store: AccountStore) -> None:
    """Interface: within 24 hours of expiry, and never for a batch that is spent or gone."""
    epoch = await store.take_over("first", SHARDS, False)
    account = opened()
    grant = decide_adjust(account, 500, "grant", b"grant", START)
    assert grant is not None
    await store.write(epoch, opening_group(account, grant))
    ends_ms = START_MS + YEAR_MS
    for now_ms in (ends_ms - DAY_MS - 1_000, ends_ms):
        await store.outbox.announce_expiring(SHARDS, now_ms)
        assert await store.outbox.untold(SHARDS, 10) == []
    for _ in range(2):
        await store.outbox.announce_expiring(SHARDS, ends_ms - DAY_MS)
    (told,) = await store.outbox.untold(SHARDS, 10)
    assert isinstance(told.event, CreditsExpiring)
    assert (told.event.batch, told.event.remaining, told.event.expires_at) == (1, 500, ends_ms // 1000)


async def test_what_was_told_long_ago_is_forgotten(store: AccountStore) -> None:
    """The table does not grow for ever, and what nobody was told stays however old it is."""
    epoch = await store.take_over("first", SHARDS, False)
    account = opened()
    await store.write(epoch, opening_group(account))
    for number in (1, 2):
        operation = deposit_operation(bytes([number]) * 64, 0)
        deposited = decide_deposit(account, operation, 10_000, 7, 100_000, START)
        assert deposited is not None
        await store.write(epoch, group_of(account, deposited))
    first, second = await store.outbox.untold(SHARDS, 10)
    await store.outbox.told([first.id])
    await store.outbox.forget(START_MS)
    await store.outbox.forget(START_MS + YEAR_MS)
    assert await store.outbox.untold(SHARDS, 10) == [second]


async def test_a_spent_batch_does_not_expire(store: AccountStore) -> None:
    epoch = await store.take_over("first", SHARDS, False)
    account = opened()
    grant = decide_adjust(account, 500, "grant", b"grant", START)
    assert grant is not None
    await store.write(epoch, opening_group(account, grant))
    spent = decide_adjust(account, -500, "spent", b"spent", START)
    assert spent is not None
    await store.write(epoch, group_of(account, spent))
    await store.outbox.announce_expiring(SHARDS, START_MS + YEAR_MS - DAY_MS)
    assert await store.outbox.untold(SHARDS, 10) == []
    assert await store.expired(SHARDS, (START_MS + YEAR_MS) // 1000, 10) == []


def test_a_row_is_told_as_it_was_written() -> None:
    body = '{"batch": 4, "source": "deposit", "remaining": 9, "expires_at": 1700000100}'
    event = announcement(3, ALICE, "credits.expiring", START_MS, body).event
    assert isinstance(event, CreditsExpiring) and (event.batch, event.source, event.remaining) == (4, "deposit", 9)
