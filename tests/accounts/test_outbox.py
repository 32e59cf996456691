"""Events that are written with their causes, and taken once. Both stores."""

from actors.accounts.core import decide_adjust, decide_key
from actors.accounts.deposits import decide_deposit, deposit_operation
from actors.accounts.hourly_limit import HourlyLimitSet, HourlySetting, HourStopped
from actors.accounts.outbox import announcement
from actors.accounts.store import AccountStore
from actors.events import ApiKeyRotated, CreditsAnomaly, CreditsExpiring, DepositCredited, LowBalance
from actors.units import base58_text
from tests.accounts.making import ALICE, START, START_MS, group_of, opened, opening_group
from tests.accounts.shards import SHARDS

YEAR_MS = 365 * 86_400_000
DAY_MS = 86_400_000


async def test_a_deposit_is_announced_by_the_write_that_makes_it(store: AccountStore) -> None:
    """And taken once."""
    epoch = await store.take_over("first", SHARDS, False)
    account = opened()
    operation = deposit_operation(b"s" * 64, 3)
    deposited = decide_deposit(account, operation, 10_000, 7, 100_000, START)
    assert deposited is not None
    await store.write(epoch, opening_group(account, deposited))
    (first,) = await store.outbox.take(10)
    event = first.event
    assert isinstance(event, DepositCredited)
    assert (event.transfer_index, event.base_units, event.credits, event.bonus, event.slot) == (3, 10_000, 1_000, 0, 7)
    assert await store.outbox.take(10) == []


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
        assert await store.outbox.take(10) == []
    for _ in range(2):
        await store.outbox.announce_expiring(SHARDS, ends_ms - DAY_MS)
    (told,) = await store.outbox.take(10)
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
    assert len(await store.outbox.take(1)) == 1
    await store.outbox.forget(START_MS)
    await store.outbox.forget(START_MS + YEAR_MS)
    assert len(await store.outbox.take(10)) == 1


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
    assert await store.outbox.take(10) == []
    assert await store.expired(SHARDS, (START_MS + YEAR_MS) // 1000, 10) == []


async def test_a_low_balance_and_a_new_key_are_written_with_their_causes(store: AccountStore) -> None:
    """Each once: a second event of one cause is not written."""
    epoch = await store.take_over("first", SHARDS, False)
    account = opened()
    await store.write(epoch, opening_group(account, decide_key(account, b"1" * 32, "one", START)))
    assert await store.outbox.take(10) == []  # The first key replaces none.
    group = group_of(
        account, decide_key(account, b"2" * 32, "two", START), decide_adjust(account, 1_005, "", b"g", START)
    )
    await store.write(epoch, group)
    (rotated,) = await store.outbox.take(10)
    assert rotated.event == ApiKeyRotated(base58_text(ALICE), "two", START.wall_ms // 1000)
    for number in (b"a", b"b"):
        spent = decide_adjust(account, -10, "", number, START)
        assert spent is not None
        group = group_of(account, spent)
        group.add_low_balance(account, spent.entry)
        await store.write(epoch, group)
    (low,) = await store.outbox.take(10)
    assert low.event == LowBalance(base58_text(ALICE), 995, START.wall_ms // 1000)


async def test_a_stopped_hour_is_written_once(store: AccountStore) -> None:
    """By whichever owner: account, hour and stage name the event."""
    epoch = await store.take_over("first", SHARDS, False)
    account = opened()
    await store.write(epoch, opening_group(account, HourlyLimitSet(HourlySetting(7))))
    for at_ms in (START_MS, START_MS + 1, START_MS + 3_600_000):
        await store.write(epoch, group_of(account, HourStopped(at_ms)))
    told = [row.event for row in await store.outbox.take(10)]
    assert [(event.at, event.stage) for event in told if isinstance(event, CreditsAnomaly)] == [
        (START_MS // 1000, "stopped"),
        (START_MS // 1000 + 3_600, "stopped"),
    ]


def test_a_row_is_told_as_it_was_written() -> None:
    body = '{"batch": 4, "source": "deposit", "remaining": 9, "expires_at": 1700000100}'
    event = announcement(3, ALICE, "credits.expiring", START_MS, body).event
    assert isinstance(event, CreditsExpiring) and (event.batch, event.source, event.remaining) == (4, "deposit", 9)
