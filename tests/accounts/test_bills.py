"""Bills: every month's sums are those of its entries, by both stores, and months follow each other."""

import itertools
import random

import pytest

from actors.accounts.account import Account, Moment, Moved
from actors.accounts.bills import ReadBill, month_ms
from actors.accounts.core import decide_adjust, decide_settle, decide_void
from actors.accounts.ledger import EntryType
from actors.accounts.store import AccountStore
from actors.accounts.writes import Write
from actors.calls import SettleRequest
from tests.accounts.making import ALICE, BOB, group_of, opened, opening_group, take
from tests.accounts.memory_bills import MemoryBills
from tests.accounts.shards import SHARDS

DAY_MS = 86_400_000
NOVEMBER, _ = month_ms(2023, 11)
DECEMBER, JANUARY = month_ms(2023, 12)
METHODS = ("getSlot", "getBlock", "getBalance")


def at(at_ms: int) -> Moment:
    return Moment(at_ms, at_ms // 1000)


def events_of(account: Account, chance: random.Random) -> list[tuple[Account, Write]]:
    """Grants, charges and refunds over two months, at the very first and last milliseconds too."""
    times = sorted(chance.randrange(NOVEMBER, JANUARY) for _ in range(60))
    times = [NOVEMBER, *times, DECEMBER - 1, DECEMBER, JANUARY - 1]
    made = []
    for number, at_ms in enumerate(sorted(times)):
        moment = at(at_ms)
        operation = b"replica1" + account.pubkey[:4] + number.to_bytes(4, "big")
        settle = SettleRequest(
            operation, account.pubkey, 1, chance.choice(METHODS), 9, chance.randint(1, 9), 0, at_ms // 1000
        )
        events = [decide_adjust(account, chance.randint(20, 90), "grant", operation, moment)]
        for event in events:
            group = Write()
            take(account, event, group)
            group.cut({account.pubkey: account})
            made.append((account, group))
        charged = decide_settle(account, settle, moment, True).event
        assert isinstance(charged, Moved)
        made.append((account, group_of(account, charged)))
        if chance.random() < 0.3:
            refunded = decide_void(account, settle, moment, True).event
            assert isinstance(refunded, Moved)
            made.append((account, group_of(account, refunded)))
    return made


@pytest.mark.parametrize("by_day", [False, True])
async def test_the_lines_of_a_month_are_those_of_its_entries(store: AccountStore, by_day: bool) -> None:
    """As another way of adding says; each entry once; the closing balance of a month opens the next one."""
    epoch = await store.take_over("a", SHARDS, False)
    await store.prepare(NOVEMBER)
    chance = random.Random(7)
    for pubkey in (ALICE, BOB):
        account = opened(pubkey)
        await store.write(epoch, opening_group(account, now_ms=NOVEMBER))
        for _, group in events_of(account, chance):
            await store.write(epoch, group)
    chain = await store.entries(ALICE, 0, 1_000, False)
    bills = [await store.bills.read(ReadBill(ALICE, year, month, by_day)) for year, month in _MONTHS]
    for before, after in itertools.pairwise(bills):
        assert before.closing == after.opening
    assert bills[0].opening.number == 0 and bills[-1].closing.balance == chain[0].balance
    assert sum(line.entries for bill in bills for line in bill.lines) == len(chain)
    spent = sum(line.credits for bill in bills for line in bill.lines if line.type == EntryType.DEBIT)
    assert spent == sum(entry.amount for entry in chain if entry.type == EntryType.DEBIT)
    assert bills[3].lines == () and (await store.bills.read(ReadBill(b"c" * 32, 2023, 11))).lines == ()
    pairs = [(one.entry, one.hash) for one in await _whole(store)]
    other = MemoryBills(lambda: {ALICE: pairs})
    assert bills == [await other.read(ReadBill(ALICE, year, month, by_day)) for year, month in _MONTHS]


_MONTHS = ((2023, 10), (2023, 11), (2023, 12), (2024, 1))


async def _whole(store: AccountStore) -> list:  # type: ignore[type-arg]
    from actors.accounts.seals_store import Sealed

    return await store.seals.following(Sealed(ALICE, 0, 0), 1_000)


def test_months_are_of_the_calendar_in_utc() -> None:
    assert month_ms(2024, 2)[1] - month_ms(2024, 2)[0] == 29 * DAY_MS
    assert month_ms(2023, 12)[1] == month_ms(2024, 1)[0]
