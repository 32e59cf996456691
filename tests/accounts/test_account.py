import copy

import pytest

from actors.accounts.account import (
    Account,
    Event,
    HoldEnded,
    Mark,
    MarkKind,
    Profile,
    ProfileSet,
    adjust_key,
    apply,
    new_account,
)
from actors.accounts.admission import decide_hold, decide_withdrawal
from actors.accounts.core import decide_adjust, decide_limits, decide_settle, decide_void
from actors.accounts.ends import VOIDED, End
from tests.accounts.making import ALICE, DEFAULTS, START, START_MS, hold, opened, operation, settle, take


def test_replaying_the_events_is_running_the_program() -> None:
    """House rule: the journal alone rebuilds the account."""
    account = new_account(ALICE, Profile(created_at=START_MS // 1000), DEFAULTS)
    journal: list[Event] = []

    def happened(event: Event | None) -> None:
        assert event is not None
        journal.append(copy.deepcopy(event))
        take(account, event)

    happened(decide_adjust(account, 500, "opening", b"one", START))
    for number in range(0, 60, 10):
        happened(decide_hold(account, hold(number, 5, 25, 900), START).event)
    happened(decide_settle(account, settle(0, 5), START, True).event)
    happened(decide_settle(account, settle(10, 0), START, True).event)
    happened(decide_void(account, settle(0, 5), START).event)
    happened(decide_void(account, settle(20, 5), START).event)
    happened(HoldEnded(operation(30), 61, expired=True))
    happened(decide_limits(account, 5, None))
    happened(decide_adjust(account, -100, "less", b"two", START))

    replayed = new_account(ALICE, Profile(created_at=START_MS // 1000), DEFAULTS)
    for event in journal:
        take(replayed, event)
    replayed.check()
    assert replayed == account


def test_a_withdrawn_admission_leaves_no_trace_but_its_rate_unit() -> None:
    """Nothing is held for what could not be made safe, and asked again it is judged anew."""
    account = opened(credits=100)
    event = decide_hold(account, hold(1, 25, 5), START).event
    assert event is not None
    take(account, event)
    assert account.purse.held == 30
    apply(account, decide_withdrawal(event))
    apply(account, decide_withdrawal(event))
    assert (account.purse.held, account.holds) == (0, {})
    assert decide_hold(account, hold(1, 25, 5), START).event == event


def test_a_void_and_an_expiry_are_remembered_differently() -> None:
    account = opened(credits=100)
    for number in (1, 2):
        take(account, decide_hold(account, hold(number, 25), START).event)
    apply(account, HoldEnded(operation(1), 0, mark=Mark(MarkKind.VOID, operation(1), START_MS, 0)))
    apply(account, HoldEnded(operation(2), 0, expired=True))
    assert account.operations.get(operation(1)) == VOIDED
    assert account.operations.get(operation(2)) is None
    assert account.purse.held == 0


def test_overrides_replace_the_defaults_and_go_back() -> None:
    account = opened()
    assert (account.rate_limit, account.concurrency_limit) == (100, 64)
    take(account, decide_limits(account, 7, 3))
    assert (account.rate_limit, account.concurrency_limit) == (7, 3)
    take(account, decide_limits(account, None, None))
    assert (account.rate_limit, account.concurrency_limit) == (100, 64)


def test_an_event_that_does_not_follow_is_a_broken_invariant() -> None:
    """An assertion: the account is loaded again rather than continued."""
    account = opened(credits=10)
    event = decide_settle(account, settle(1, 5), START, True).event
    take(account, event)
    with pytest.raises(AssertionError):
        take(account, event)


def test_an_operators_word_is_no_replicas_operation() -> None:
    account: Account = opened()
    take(account, decide_adjust(account, 5, "", operation(1), START))
    assert account.operations.get(operation(1)) is None
    ended = account.operations.get(adjust_key(operation(1)))
    assert ended is not None and ended.end is End.POSTED
    apply(account, ProfileSet(account.profile))


def test_what_is_loaded_reaches_back_as_far_as_operations_are_remembered() -> None:
    assert DEFAULTS.entries_since_ms(START.wall_ms) <= START.wall_ms - DEFAULTS.memory_seconds * 1000
