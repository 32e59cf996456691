"""The hourly limit: what it is, and that no call begins above it. Rule: decisions, "Hourly limit"."""

import hypothesis
import pytest
from hypothesis import strategies as st

from actors.accounts.account import Account, Moment, apply
from actors.accounts.admission import decide_hold, figures, hour_left_of
from actors.accounts.core import decide_settle
from actors.accounts.holds_of_work import decide_work
from actors.accounts.hourly_limit import (
    CREDITS_MAX,
    HOUR_SECONDS,
    LEARNT_HOURS,
    LEARNT_HOURS_LEAST,
    NONE_SET,
    SLOWED_RATE,
    TIMES_USUAL,
    UNLIMITED,
    BegunHour,
    HourlyLimit,
    HourlyLimitSet,
    HourlySetting,
    HoursLearnt,
    Learnt,
    Stage,
    learnt_of,
    mistake_in_credits,
)
from actors.accounts.ledger import Entry, EntryType
from actors.accounts.outbox import ANOMALY
from actors.accounts.writes import Write
from actors.errors import Err
from tests.accounts.making import DEFAULTS, START, hold, later, opened, operation, settle, take

HOUR = START.wall_ms // 3_600_000
BEGINNING = Moment(HOUR * 3_600_000, 0)
SECOND = BEGINNING.wall_ms // 1000
STOPPED = Err.HOURLY_LIMIT_EXCEEDED.name


def limited(credits: int | None, *, balance: int = 100_000, usual: int | None = None, least: int = 0) -> Account:
    account = opened(credits=balance, defaults=DEFAULTS._replace(hourly_limit_least=least))
    apply(account, HourlyLimitSet(HourlySetting(credits)))
    apply(account, HoursLearnt(Learnt(HOUR, usual, 0)))
    return account


def spend(account: Account, number: int, credits: int, moment: Moment = BEGINNING) -> str | None:
    """One call that costs so much. Gives why it was refused, or None."""
    admission = decide_hold(account, hold(number, credits), moment)
    take(account, admission.event)
    (verdict,) = admission.verdicts
    if verdict is None:
        take(account, decide_settle(account, settle(number, credits), moment).event)
    assert admission.stopped is (verdict == STOPPED)
    return verdict


@hypothesis.given(st.integers(1, 60), st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=40))
def test_what_is_spent_and_held_in_an_hour_is_never_more_than_the_limit(
    limit: int, calls: list[tuple[int, bool]]
) -> None:
    """Whatever is under way; a call that fits the credits that are left is not refused by it."""
    account = limited(limit)
    spent = held = 0
    for number, (ceiling, ends) in enumerate(calls, 1):
        admission = decide_hold(account, hold(number, ceiling), later(BEGINNING, number))
        take(account, admission.event)
        (verdict,) = admission.verdicts
        assert (verdict == STOPPED) == (spent + held + ceiling > limit)
        if verdict is None and ends:
            take(account, decide_settle(account, settle(number, ceiling), BEGINNING).event)
            spent += ceiling
        elif verdict is None:
            held += ceiling
        assert spent + held <= limit
        account.check()


def test_a_batch_is_refused_item_by_item() -> None:
    account = limited(10)
    admission = decide_hold(account, hold(1, 6, 6, 4, 0), BEGINNING)
    assert admission.verdicts == (None, STOPPED, None, None) and admission.stopped


def test_each_hour_begins_anew_and_none_begins_again() -> None:
    account = limited(10)
    assert [spend(account, number, 5) for number in (1, 2, 3)] == [None, None, STOPPED]
    following = later(BEGINNING, HOUR_SECONDS)
    assert [spend(account, number, 5, following) for number in (4, 5, 6)] == [None, None, STOPPED]
    assert account.hourly.stage(account.total_consumed, following.wall_ms // 1000) == Stage.STOPPED
    assert spend(account, 7, 1, Moment(BEGINNING.wall_ms, following.steady)) == STOPPED, "the clock was set back"


def test_half_of_the_limit_slows_the_account() -> None:
    account = limited(100)
    assert spend(account, 1, 49) is None and figures(account, BEGINNING).rate_limit == DEFAULTS.requests_per_second
    assert spend(account, 2, 1) is None
    told = figures(account, BEGINNING)
    assert told.rate_limit == DEFAULTS.requests_per_second // SLOWED_RATE
    second = later(BEGINNING, 1)
    verdicts = [spend(account, 10 + number, 1, second) for number in range(told.rate_limit + 1)]
    assert verdicts == [None] * told.rate_limit + [Err.RATE_LIMITED.name]
    apply(account, HourlyLimitSet(HourlySetting(100, SECOND + 60)))
    assert figures(account, second).rate_limit == DEFAULTS.requests_per_second


def test_a_lifted_limit_limits_nothing_until_its_time_is_over() -> None:
    account = limited(10)
    assert [spend(account, 1, 10), spend(account, 2, 1)] == [None, STOPPED]
    apply(account, HourlyLimitSet(HourlySetting(10, SECOND + 60)))
    assert spend(account, 3, 500, later(BEGINNING, 59)) is None
    assert spend(account, 4, 1, later(BEGINNING, 60)) == STOPPED


def test_how_much_the_limit_leaves() -> None:
    """Held credits count as spent; the next hour begins with all of the limit but those."""
    account = limited(100)
    spend(account, 1, 30)
    take(account, decide_hold(account, hold(2, 20), BEGINNING).event)
    assert hour_left_of(account, BEGINNING) == 50
    assert hour_left_of(account, later(BEGINNING, HOUR_SECONDS)) == 80
    assert hour_left_of(limited(NONE_SET), BEGINNING) is None


def test_what_costs_nothing_and_work_of_webhooks() -> None:
    """Free calls go on; deliveries wait, as for the lack of credits."""
    account = limited(10)
    assert spend(account, 1, 10) is None
    assert decide_hold(account, hold(2, 0), BEGINNING).verdicts == (None,)
    assert decide_work(account, [operation(3)], 1, BEGINNING) == ((False,), ())


@pytest.mark.parametrize(
    ("setting", "least", "usual", "limit"),
    [
        (NONE_SET, 1, 50, UNLIMITED),
        (7, 1, 50, 7),
        (7, 1, None, 7),
        (None, 1, None, UNLIMITED),
        (None, 1, 50, TIMES_USUAL * 50),
        (None, 9_999, 50, 9_999),
        (None, 0, 50, UNLIMITED),  # The operator has none learnt.
    ],
)
def test_which_limit_is_in_force(setting: int | None, least: int, usual: int | None, limit: int) -> None:
    """Learnt now, or as the tables have it from before."""
    learning, restored = HourlyLimit(least), HourlyLimit(least)
    learning.set(HourlySetting(setting))
    learning.apply(HoursLearnt(Learnt(HOUR, usual, 0)))
    restored.restore(HourlySetting(setting), BegunHour(HOUR, 5, usual))
    for hourly in (learning, restored):
        assert hourly.credits == limit and hourly.basis == ("learnt" if setting is None else "set")
    assert restored.begun() == BegunHour(HOUR, 5, usual) and restored.spent(12, HOUR) == 7


def test_the_usual_hour_is_the_mean_of_hours_with_calls() -> None:
    few = {HOUR - number: 10 for number in range(1, LEARNT_HOURS_LEAST)}
    assert learnt_of({**few, HOUR: 99}, HOUR) == Learnt(HOUR, None, 230)
    enough = {**few, HOUR - LEARNT_HOURS: 250}
    assert learnt_of(enough, HOUR).usual == (230 + 250) // LEARNT_HOURS_LEAST
    too_old = {**few, HOUR - LEARNT_HOURS - 1: 250, HOUR - 50: 0}
    assert learnt_of(too_old, HOUR).usual is None


def test_each_is_told_once_in_an_hour() -> None:
    """Whether a debit has brought the account there, or a limit that was set when more was spent."""
    account, group = limited(100), Write()
    for number, credits in enumerate((40, 10, 10, 40), 1):
        assert spend(account, number, credits) is None
        entry = Entry(9, BEGINNING.wall_ms, int(EntryType.DEBIT), -credits, 0, b"", "", 0, "", "")
        group.tell(account, entry)
    assert [told.body["spent"] for told in group.events if told.kind == ANOMALY] == [50]
    late = limited(None)
    assert spend(late, 1, 90) is None
    apply(late, HourlyLimitSet(HourlySetting(100)))
    group.tell(late, entry)
    assert [told.body["spent"] for told in group.events if told.kind == ANOMALY] == [50, 90]
    apply(late, HourlyLimitSet(HourlySetting(100, SECOND + 10)))
    assert not late.hourly.slows(late.total_consumed, SECOND) and late.hourly.slows(late.total_consumed, SECOND + 10)


def test_the_first_debit_of_an_hour_writes_what_was_consumed_before_it() -> None:
    """So that a successor knows what the hour has cost; others write nothing of it."""
    account = limited(100)
    written = []
    for number, moment in enumerate((BEGINNING, later(BEGINNING, 1), later(BEGINNING, HOUR_SECONDS)), 1):
        group = Write()
        take(account, decide_hold(account, hold(number, 5), moment).event)
        take(account, decide_settle(account, settle(number, 5), moment).event, group)
        group.cut({account.pubkey: account})
        written.append(group.hours.get(account.pubkey))
    assert written == [BegunHour(HOUR, 0, None), None, BegunHour(HOUR + 1, 10, None)]


def test_limits_that_cannot_be_are_named() -> None:
    assert mistake_in_credits(None) is None and mistake_in_credits(CREDITS_MAX) is None
    for credits in (-1, CREDITS_MAX + 1):
        assert "credits_an_hour" in (mistake_in_credits(credits) or "")
