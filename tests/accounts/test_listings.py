"""Places in a ledger, and its entries as customers see them."""

import pickle

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.accounts.account import Moved
from actors.accounts.api import ReadLedger
from actors.accounts.core import decide_settle, decide_void
from actors.accounts.ledger import Entry, EntryType
from actors.accounts.listings import LedgerFilter, LedgerLine, line_of, parse_cursor
from actors.accounts.store import AccountStore
from actors.calls import Outcome
from tests.accounts.making import ALICE, START, group_of, key_proof, later, settle
from tests.accounts.test_store import SHARDS, opened_in

DEBIT = Entry(7, 1_700_000_000_123, EntryType.DEBIT, -5, 95, b"o" * 16, "getSlot", Outcome.UPSTREAM_ERROR, "", "1:-5")


@given(st.integers(0, 7_258_118_400_000), st.integers(1, 10**18 - 1))
def test_a_cursor_names_its_place(at_ms: int, number: int) -> None:
    line = LedgerLine("debit", "getSlot", -1, 1, "", at_ms, number)
    assert parse_cursor(line.cursor) == (at_ms, number)


@pytest.mark.parametrize(
    "text", ["", "-", "5", "5-", "-5", "5-5-5", "5-x", " 5-5", "٣-٣", "9" * 15 + "-1", "1-" + "9" * 19]
)
def test_what_is_no_cursor_is_none(text: str) -> None:
    assert parse_cursor(text) is None


def test_details_are_told_to_those_who_ask_for_them() -> None:
    """A replica of release 0.1.0 asks for none, and reads a reply without the new fields."""
    detailed, plain = line_of(DEBIT, detailed=True), line_of(DEBIT, detailed=False)
    assert (detailed.number, detailed.outcome, detailed.operation) == (7, "upstream_error", b"o" * 16)
    assert plain == LedgerLine("debit", "getSlot", -5, 95, plain.description, DEBIT.at_ms)
    assert plain.__reduce__()[1] == ("debit", "getSlot", -5, 95, plain.description, DEBIT.at_ms)
    assert ReadLedger(key_proof(), 0, 5).__reduce__()[1] == (key_proof(), 0, 5)
    asked = ReadLedger(key_proof(), 0, 5, filter=LedgerFilter(before=(5, 5)))
    assert pickle.loads(pickle.dumps(asked)) == asked


async def test_a_listing_goes_on_behind_a_place_and_takes_what_was_asked_for(store: AccountStore) -> None:
    """Also while new entries are written before it; entries of one millisecond are in the order of their numbers."""
    epoch = await store.take_over("first", SHARDS, False)
    account = await opened_in(store, epoch)
    for number in range(1, 8):
        moment = later(START, number // 3)
        decided = decide_settle(account, settle(number, number, held_at=moment.wall_ms // 1000), moment, True)
        assert isinstance(decided.event, Moved)
        await store.write(epoch, group_of(account, decided.event))
    whole = await store.entries(ALICE, 0, 50, False)
    seen, before = list[int](), None
    while page := await store.entries(ALICE, 0, 3, False, LedgerFilter(before)):
        before = (page[-1].at_ms, page[-1].seq)
        seen += [entry.seq for entry in page]
        late = decide_settle(account, settle(90 + len(seen), 1), later(START, 60), True)
        assert isinstance(late.event, Moved)
        await store.write(epoch, group_of(account, late.event))
    assert seen == [entry.seq for entry in whole]
    refunded = decide_void(account, settle(3, 0), later(START, 90), True)
    assert isinstance(refunded.event, Moved)
    await store.write(epoch, group_of(account, refunded.event))
    operation = refunded.event.entry.operation
    paid = await store.entries(ALICE, 0, 50, False, LedgerFilter(operation=operation))
    assert [(entry.type, entry.amount) for entry in paid] == [(EntryType.REFUND, 3), (EntryType.DEBIT, -3)]
    for wanted in (
        LedgerFilter(operation=b"?" * 16),
        LedgerFilter(operation=operation, kind=int(EntryType.DEBIT)),
        LedgerFilter(operation=whole[1].operation, method="getBalance"),
        LedgerFilter(from_ms=START.wall_ms + 1_000, to_ms=START.wall_ms + 2_000),
        LedgerFilter(kind=int(EntryType.ADJUSTMENT)),
        LedgerFilter(kind=int(EntryType.DEBIT), method="getBalance", to_ms=START.wall_ms + 1_000),
        LedgerFilter(before=(START.wall_ms + 1_000, 4), method="getBalance"),
        LedgerFilter(method="getSlot"),
    ):
        found = await store.entries(ALICE, 0, 50, False, wanted)
        assert found == [entry for entry in await store.entries(ALICE, 0, 50, False) if wanted.takes(entry)], wanted


async def test_a_page_of_a_rare_kind_has_what_the_whole_ledger_has(store: AccountStore) -> None:
    """Rule: whatever was rolled up by then, and wherever a page begins: charges of the hour of the mark, entries of one
    millisecond, a refund in a later hour than its charge, a method that was never called."""
    epoch = await store.take_over("first", SHARDS, False)
    account = await opened_in(store, epoch)
    methods = ("getSlot", "getBlock", "getSlot", "getBalance")
    for number in range(1, 25):
        moment = later(START, number // 2 * 1_500)
        asked = settle(number, 1, held_at=moment.wall_ms // 1000)
        decided = decide_settle(account, msgspec.structs.replace(asked, method=methods[number % 4]), moment, True)
        assert isinstance(decided.event, Moved)
        await store.write(epoch, group_of(account, decided.event))
        if number in (9, 18):
            # The second one in the hour after its charge's.
            refunded = decide_void(account, settle(number, 0), later(moment, 200), True)
            assert isinstance(refunded.event, Moved)
            await store.write(epoch, group_of(account, refunded.event))
    whole = await store.entries(ALICE, 0, 100, False, LedgerFilter(with_facts=True))
    hour = whole[0].at_ms // 3_600_000 * 3_600_000
    filters = [
        LedgerFilter(method=method, kind=kind, from_ms=from_ms, to_ms=to_ms, with_facts=with_facts)
        for method, kind in (
            *(("getSlot", None), ("getBlock", None), ("getBlock", int(EntryType.DEBIT)), ("never", None)),
            *(("getBalance", int(EntryType.REFUND)), (None, int(EntryType.REFUND)), (None, int(EntryType.FACT))),
            *((None, int(EntryType.ADJUSTMENT)), (None, int(EntryType.DEPOSIT)), ("batch", None), (None, None)),
        )
        for from_ms, to_ms in ((None, None), (hour - 7_200_000, hour + 1), (START.wall_ms + 1, hour - 1))
        for with_facts in (False, True)
    ]
    for rolled in (0, 6, 5, 100):  # One after the other: nothing, a part, a part more, all.
        if rolled:
            await store.usage.roll(ALICE, rolled)
        for wanted in filters:
            expected, found, before = [entry for entry in whole if wanted.takes(entry)], list[Entry](), None
            while page := await store.entries(ALICE, 0, 4, False, msgspec.structs.replace(wanted, before=before)):
                before = (page[-1].at_ms, page[-1].seq)
                found += page
            assert found == expected, (rolled, wanted)
            assert await store.entries(ALICE, 0, 100, False, wanted) == expected, (rolled, wanted)
            assert await store.entries(ALICE, 1, 100, False, wanted) == expected[1:], (rolled, wanted)
