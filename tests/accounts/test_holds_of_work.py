"""Guards holds of work that no call waits for: by the credits alone, once for an operation, ended by post, release or
time."""

from hypothesis import given
from hypothesis import strategies as st

from actors.accounts.account import Admitted, apply
from actors.accounts.admission import decide_hold
from actors.accounts.core import decide_hold_expiry, decide_settle
from actors.accounts.holds_of_work import decide_release, decide_work
from tests.accounts.making import START, hold, later, opened, operation, settle

WORK = tuple(operation(100 + number) for number in range(6))


def test_as_much_work_is_held_as_the_credits_cover() -> None:
    account = opened(credits=3)
    verdicts, events = decide_work(account, WORK[:5], 1, START)
    assert verdicts == (True, True, True, False, False)
    for event in events:
        apply(account, event)
    assert account.purse.available == 0 and account.purse.balance == 3
    assert decide_work(account, WORK[3:], 1, START) == ((False, False, False), ())


def test_a_hold_of_work_takes_no_slot_and_no_unit_from_calls() -> None:
    account = opened(credits=1_000)
    for event in decide_work(account, [operation(1_000 + number) for number in range(200)], 1, START)[1]:
        apply(account, event)
    admission = decide_hold(account, hold(1, *[1] * 64), START)
    assert admission.verdicts == (None,) * 64
    account.check()


def test_a_hold_that_is_asked_for_again_lasts_its_whole_time_anew() -> None:
    account = opened(credits=1)
    for at in (START, later(START, 59)):
        verdicts, events = decide_work(account, WORK[:1], 1, at)
        assert verdicts == (True,)
        for event in events:
            apply(account, event)
    assert decide_hold_expiry(account, later(START, 118)) == ()
    assert len(decide_hold_expiry(account, later(START, 119))) == 1
    account.check()


@given(
    credits=st.integers(0, 4),
    steps=st.lists(st.tuples(st.sampled_from(["hold", "post", "release", "wait"]), st.integers(0, 5)), max_size=40),
)
def test_each_hold_of_work_is_posted_or_released_and_credits_are_neither_made_nor_lost(
    credits: int, steps: list[tuple[str, int]]
) -> None:
    """Money rules 1 and 3: posted is charged once for ever, released can be held again, nothing goes below zero."""
    account, moment, posted = opened(credits=credits), START, set[int]()
    for step, number in steps:
        for expired in decide_hold_expiry(account, moment):
            apply(account, expired)
        if step == "hold":
            before = account.purse.available
            (verdict,), events = decide_work(account, (WORK[number],), 1, moment)
            assert verdict == (
                account.purse.balance > 0 if number in posted else WORK[number] in account.holds or before > 0
            )
            assert all(not isinstance(event, Admitted) or number not in posted for event in events)
            for event in events:
                apply(account, event)
        elif step == "post":
            was_held = WORK[number] in account.holds
            settlement = decide_settle(account, settle(100 + number, 1), moment, asked_store=True)
            if settlement.event is not None:
                apply(account, settlement.event)
                posted.add(number)
            assert settlement.ok or not was_held
        elif step == "release":
            for ended in decide_release(account, (WORK[number], WORK[number]), moment):
                apply(account, ended)
            assert WORK[number] not in account.holds
        else:
            moment = later(moment, 10 * number)
        account.check()
        assert account.purse.balance == credits - len(posted) and account.purse.available >= 0
