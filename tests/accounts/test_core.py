import msgspec
import pytest

from actors.accounts.account import Account, Mark, MarkKind, Moment, Moved, apply
from actors.accounts.admission import ANSWERS_MAX, decide_hold, figures
from actors.accounts.core import (
    Settlement,
    adjusted_before,
    decide_adjust,
    decide_credit_expiry,
    decide_hold_expiry,
    decide_key,
    decide_limits,
    decide_recall,
    decide_settle,
    decide_status,
    decide_void,
    is_due,
)
from actors.accounts.ends import End, posted
from actors.accounts.ledger import EntryType
from actors.accounts.stored import Past
from actors.accounts.writes import is_low_crossing
from actors.calls import HoldRequest
from tests.accounts.making import DEFAULTS, START, START_MS, hold, later, opened, operation, settle, take

RATE, SLOTS, CREDITS = "RATE_LIMITED", "CONCURRENCY_LIMITED", "INSUFFICIENT_CREDITS"


def admit(account: Account, request: HoldRequest, moment: Moment = START) -> tuple[str | None, ...]:
    admission = decide_hold(account, request, moment)
    assert admission.refusal is None
    take(account, admission.event)
    return admission.verdicts


def end(account: Account, settlement: Settlement) -> bool | None:
    take(account, settlement.event)
    account.check()
    return settlement.ok


def test_a_client_without_credits_hears_that_and_not_its_rate() -> None:
    """Threat 1: 499 refusals in one second are all 402."""
    account = opened(credits=26)
    verdicts = [admit(account, hold(number, 25))[0] for number in range(500)]
    assert verdicts == [None] + [CREDITS] * 499


def test_a_request_without_items_tells_figures_and_takes_nothing() -> None:
    account = opened(credits=7)
    admission = decide_hold(account, hold(1), START)
    assert (admission.refusal, admission.verdicts) == (None, ())
    take(account, admission.event)
    shown = figures(account, START)
    assert (shown.credits_remaining, shown.rate_limit, shown.rate_remaining) == (7, 100, 100)
    assert shown.rate_reset == START_MS // 1000 + 1


def test_memory_for_refusals_is_bounded() -> None:
    """A flood of refused calls costs memory once; a forgotten one is judged anew."""
    account = opened(credits=1)
    for number in range(ANSWERS_MAX + 50):
        assert admit(account, hold(number, 25)) == (CREDITS,)
    assert len(account.answers) == ANSWERS_MAX
    assert decide_hold(account, hold(ANSWERS_MAX + 60, 1, 25), START).event is not None


def test_at_most_the_held_amount_is_charged() -> None:
    """Money rule 1. A replica that charges more is broken: nothing is charged, and the state is unchanged."""
    account = opened(credits=100)
    admit(account, hold(1, 25))
    before = (account.purse.balance, account.purse.held, account.seq)
    assert not end(account, decide_settle(account, settle(1, 26, ceiling=50), START))
    assert not end(account, decide_settle(account, settle(1, -1, ceiling=50), START))
    assert (account.purse.balance, account.purse.held, account.seq) == before
    assert end(account, decide_settle(account, settle(1, 20, ceiling=25), START))
    assert (account.purse.balance, account.purse.held, account.total_consumed) == (80, 0, 20)


@pytest.mark.parametrize(("ceiling", "balance", "ok"), [(50, 60, True), (50, 49, False), (49, 60, False)])
def test_a_call_under_a_key_that_is_run_again_by_a_dearer_list_costs_what_it_said_then(
    ceiling: int, balance: int, ok: bool
) -> None:
    """Decisions, "Price lists". Its first run left the outcome open, and the hold. A send that landed was free."""
    account, name = opened(credits=balance), b"\xff" * 16
    admit(account, msgspec.structs.replace(hold(1, 25), operation=name))
    ending = msgspec.structs.replace(settle(1, 50, ceiling=ceiling), operation=name)
    assert end(account, decide_settle(account, ending, START)) is ok
    assert (account.purse.balance, account.purse.held) == ((balance - 50, 0) if ok else (balance, 25))


@pytest.mark.parametrize(("age", "balance", "ok"), [(120, 25, True), (121, 25, False), (0, 24, False), (-30, 25, True)])
def test_a_hold_of_a_predecessor_is_posted_if_recent_and_covered(age: int, balance: int, ok: bool) -> None:
    """Design, "One billed call". However recent it is, the store is asked first whether it was posted before."""
    account = opened(credits=balance)
    request = settle(1, 25, held_at=START_MS // 1000 - age)
    assert decide_settle(account, request, START) == Settlement(None)
    assert end(account, decide_settle(account, request, START, True)) is ok


def test_an_expired_hold_is_judged_like_a_predecessors() -> None:
    account = opened(credits=30)
    admit(account, hold(1, 25))
    late = later(START, 60)
    assert is_due(account, late) and not is_due(account, later(START, 59))
    for event in decide_hold_expiry(account, late):
        apply(account, event)
    assert account.purse.available == 30
    admit(account, hold(10, 20), late)
    assert not end(account, decide_settle(account, settle(1, 25), late, True))
    assert end(account, decide_settle(account, settle(1, 10), late, True))


def test_holds_end_by_steady_time() -> None:
    """Threat 20: a clock that jumps a day does not end what is in flight."""
    account = opened(credits=30)
    admit(account, hold(1, 25))
    assert not is_due(account, Moment(START_MS + 86_400_000, 59))
    assert is_due(account, Moment(START_MS - 86_400_000, 60))


def test_entries_never_go_back_in_time() -> None:
    """A clock that is set back: entries keep their order."""
    account = opened(credits=30)
    settled = decide_settle(account, settle(1, 5), Moment(START_MS - 60_000, 1), True)
    assert isinstance(settled.event, Moved) and settled.event.entry.at_ms == START_MS


def test_a_void_gives_back_once_and_marks_what_nobody_knows() -> None:
    """Money rule 2; a settle that comes late is refused."""
    account = opened(credits=100)
    for number in (1, 2):
        admit(account, hold(number, 25))
    end(account, decide_settle(account, settle(1, 25), START))
    refund = decide_void(account, settle(1, 25), START)
    assert isinstance(refund.event, Moved) and refund.event.entry.type == EntryType.REFUND
    assert refund.event.mark == Mark(MarkKind.REFUND, operation(1), START_MS, 25)
    assert end(account, refund)
    assert decide_void(account, settle(1, 25), START) == Settlement(True)
    assert end(account, decide_void(account, settle(2, 25), START))
    assert decide_void(account, settle(3, 25), START).ok is None
    assert end(account, decide_void(account, settle(3, 25), START, True))
    for number in (1, 2, 3):
        assert not end(account, decide_settle(account, settle(number, 25), START))
    assert (account.purse.balance, account.purse.held) == (100, 0)


def test_a_call_that_was_posted_and_must_cost_nothing_is_given_back_once() -> None:
    """Money rule 2: its replica settles it again, at nothing, when its answer never left."""
    account = opened(credits=100)
    admit(account, hold(1, 25))
    end(account, decide_settle(account, settle(1, 25), START))
    nothing = settle(1, 0, ceiling=25)
    assert end(account, decide_settle(account, nothing, START))
    assert (account.purse.balance, account.total_consumed) == (100, 0)
    assert decide_settle(account, nothing, START) == Settlement(True)
    assert not end(account, decide_settle(account, settle(1, 25), START)) and account.purse.balance == 100


def test_what_the_store_recalls_counts_as_known() -> None:
    account = opened(credits=100)
    end(account, decide_settle(account, settle(1, 25), START, True))
    entry = decide_settle(account, settle(2, 25), START, True).event
    assert isinstance(entry, Moved)
    take(account, decide_recall(operation(2), Past(entry.entry, voided=False), START))
    assert account.operations.get(operation(2)) == posted("getBalance", "1:-25")
    elsewhere = Past(None, voided=False)  # Debited, and not for this account.
    for number, past in ((3, Past(None, voided=True)), (4, Past(entry.entry, voided=True)), (5, elsewhere)):
        take(account, decide_recall(operation(number), past, START))
        ended = account.operations.get(operation(number))
        assert ended is not None and ended.end is End.VOIDED
    assert decide_recall(operation(6), None, START) is None


def test_credits_expire_when_due_and_are_not_held_meanwhile() -> None:
    account = opened(credits=100)
    end_of_life = later(START, DEFAULTS.batch_seconds)
    admit(account, hold(1, 30), later(end_of_life, -10))
    assert is_due(account, end_of_life)
    for event in decide_credit_expiry(account, end_of_life, end_of_life.wall_ms):
        assert (event.entry.type, event.entry.amount) == (EntryType.EXPIRY, -70)
        take(account, event)
    assert admit(account, hold(10, 1), end_of_life) == (CREDITS,)
    assert end(account, decide_settle(account, settle(1, 10, ceiling=30), end_of_life))
    for event in decide_credit_expiry(account, end_of_life, end_of_life.wall_ms):
        take(account, event)
    assert account.purse.balance == 0


def test_an_adjustment_removes_at_most_what_is_available() -> None:
    account = opened(credits=100)
    admit(account, hold(1, 30))
    removed = decide_adjust(account, -500, "chargeback", b"op", START)
    assert removed is not None and removed.entry.amount == -70
    assert adjusted_before(account, b"op") is None
    take(account, removed)
    assert adjusted_before(account, b"op") == -70
    assert decide_adjust(account, -1, "", b"op2", START) is None
    account.check()


def test_profile_changes_keep_the_rest() -> None:
    account = opened()
    for event in (decide_key(account, b"h" * 32, "srpc", START),):
        take(account, event)
    take(account, decide_limits(account, 5, 6))
    take(account, decide_status(account, "suspended"))
    profile = account.profile
    assert (profile.key_hash, profile.key_prefix, profile.requests_per_second) == (b"h" * 32, "srpc", 5)
    assert (profile.concurrency, profile.status, profile.created_at) == (6, "suspended", START_MS // 1000)


@pytest.mark.parametrize(("before", "charged", "low"), [(1_000, 1, True), (1_001, 1, False), (999, 1, False)])
def test_low_balance_is_a_crossing(before: int, charged: int, low: bool) -> None:
    """Interface, "Low-credit flag": from at least 1,000 to below."""
    account = opened(credits=before)
    event = decide_settle(account, settle(1, charged), START, True).event
    assert isinstance(event, Moved) and is_low_crossing(event.entry) is low
