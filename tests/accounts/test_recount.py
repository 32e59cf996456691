from dataclasses import replace

import msgspec
import pytest

from actors.accounts import ledger
from actors.accounts.account import Account, Moved
from actors.accounts.core import decide_adjust, decide_settle, decide_void
from actors.accounts.facts import ChainLink
from actors.accounts.ledger import Entry, EntryType
from actors.accounts.recount import FAULTS_MAX, Recount
from actors.accounts.writes import Head
from tests.accounts.making import ALICE, BOB, START, opened, settle, take

Written = list[tuple[Entry, bytes]]


@pytest.fixture
def written() -> tuple[Account, Written]:
    """An account with a grant, debits and a refund."""
    account, entries = opened(), []

    def record(event: object) -> None:
        assert isinstance(event, Moved)
        take(account, event)
        entries.append((event.entry, account.head))

    record(decide_adjust(account, 100, "one", b"one", START))
    record(decide_adjust(account, 50, "two", b"two", START))
    record(decide_settle(account, settle(1, 120), START, True).event)
    record(decide_settle(account, settle(2, 7), START, True).event)
    record(decide_void(account, settle(1, 120), START).event)
    return account, entries


def head_of(account: Account) -> Head:
    purse = account.purse
    return Head(
        account.pubkey,
        account.seq,
        account.seq,
        purse.balance,
        account.total_consumed,
        purse.last_batch,
        account.last_ms,
        account.head,
    )


def recounted(account: Account, entries: Written, head: Head | None = None, **batches: int) -> list[str]:
    recount = Recount(account.pubkey)
    for entry, after in entries:
        recount.feed(entry, after)
    left = {batch.id: batch.remaining for batch in account.purse.batches}
    spent = dict.fromkeys(range(1, account.purse.last_batch + 1), 0)
    named = {int(name.removeprefix("b")): value for name, value in batches.items()}
    return recount.close(head or head_of(account), spent | left | named)


def test_an_untouched_ledger_adds_up(written: tuple[Account, Written]) -> None:
    assert recounted(*written) == []


@pytest.mark.parametrize(
    "change",
    [
        {"amount": -6},
        {"balance": 24},
        {"at_ms": 1},
        {"operation": b"other"},
        {"method": "getSlot"},
        {"outcome": 1},
        {"parcels": "1:-7"},
        {"parcels": "nonsense"},
        {"type": EntryType.EXPIRY},
        {"type": 9},
        {"description": "x"},
        {"seq": 7},
    ],
)
def test_any_change_of_an_entry_is_found(written: tuple[Account, Written], change: dict[str, object]) -> None:
    """Threat 20, a bit flip: whatever is changed, the chain breaks there."""
    account, entries = written
    entry, after = entries[3]
    entries[3] = (msgspec.structs.replace(entry, **change), after)
    faults = recounted(account, entries)
    assert any("breaks the hash chain" in fault for fault in faults), faults


def test_a_changed_entry_with_a_fresh_hash_is_found_behind_it(written: tuple[Account, Written]) -> None:
    """Whoever can write the table must rewrite everything behind the entry, and the account's head."""
    account, entries = written
    entry, _ = entries[3]
    forged = msgspec.structs.replace(entry, method="getSlot")
    entries[3] = (forged, ledger.chain(entries[2][1], forged))
    assert recounted(account, entries) == [
        "entry 5 breaks the hash chain: it is not what was written, or stands elsewhere"
    ]


def test_entries_that_are_gone_from_the_end_are_found_by_what_was_kept_elsewhere(
    written: tuple[Account, Written],
) -> None:
    """Where the account's own row was changed with them, a checkpoint or a signed statement alone tells it."""
    account, entries = written
    elsewhere = ChainLink(account.seq, account.head)
    kept, head = entries[:3], entries[2][1]
    row = Head(account.pubkey, 3, 3, 30, 120, 2, START.wall_ms, head)
    for known, said in (({"then": elsewhere}, "at the checkpoint"), ({"signed": [elsewhere]}, "a signed statement")):
        recount = Recount(account.pubkey, **known)  # type: ignore[arg-type]
        for entry, after in kept:
            recount.feed(entry, after)
        (fault,) = recount.close(row, {1: 0, 2: 30})
        assert said in fault
    assert recounted(account, entries) == []


@pytest.mark.parametrize("index", range(5))
def test_a_missing_entry_is_found(written: tuple[Account, Written], index: int) -> None:
    account, entries = written
    del entries[index]
    assert recounted(account, entries)


def test_entries_of_another_account_do_not_fit(written: tuple[Account, Written]) -> None:
    account, entries = written
    other = replace(account, pubkey=BOB)
    assert any("entry 1 breaks" in fault for fault in recounted(other, entries))
    assert account.pubkey == ALICE


@pytest.mark.parametrize(
    "change",
    [{"balance": 1}, {"total_consumed": 0}, {"seq": 4}, {"last_ms": 5}, {"hash": b"x" * 32}, {"last_batch": 9}],
)
def test_any_difference_to_the_accounts_own_row_is_found(
    written: tuple[Account, Written], change: dict[str, object]
) -> None:
    account, entries = written
    assert recounted(account, entries, head_of(account)._replace(**change))


def test_a_batch_that_is_not_what_the_ledger_says_is_found(written: tuple[Account, Written]) -> None:
    account, entries = written
    assert recounted(account, entries, b2=49)
    assert recounted(account, entries, b7=1)


def test_faults_of_one_account_are_bounded(written: tuple[Account, Written]) -> None:
    account, entries = written
    assert len(recounted(account, [(entry, b"") for entry, _ in entries * 20])) == FAULTS_MAX
