"""Holds of named keys. Holds of accounts: test_core.py."""

import msgspec

from actors.accounts.account import Account, apply
from actors.accounts.admission import decide_hold, figures
from actors.accounts.core import decide_settle, decide_void
from actors.accounts.hourly_limit import HOUR_SECONDS, HourlyLimitSet, HourlySetting, HoursLearnt, Learnt
from actors.accounts.named_keys import DAY_MS, KeyLimits, KeyProfile, KeySpending, StoredKey, keys_of, write_limits
from actors.calls import FIRST_ALLOWANCE, HoldItem, HoldRequest, KeyProof, ProvenProof, operation_at
from actors.units import routing_bytes
from tests.accounts.making import ALICE, START, later, opened, operation, settle, take

KEY = KeyProof(b"\1" * 32, routing_bytes(ALICE))
OWN = KeyProof(b"own" + bytes(29), routing_bytes(ALICE))


def with_key(limits: KeyLimits, credits: int = 1_000) -> Account:
    account = opened(credits=credits)
    account.profile = msgspec.structs.replace(account.profile, key_hash=OWN.key_hash)
    profile = KeyProfile(1, "bot", KEY.key_hash, "p", write_limits(limits), 0)
    account.keys = keys_of([StoredKey(profile, KeySpending())])
    return account


def hold(number: int, *ceilings: int, proof: KeyProof | ProvenProof = KEY, method: str = "getSlot") -> HoldRequest:
    return HoldRequest(operation(number), proof, tuple(HoldItem(method, ceiling) for ceiling in ceilings))


def test_a_batch_is_held_as_far_as_the_budget_goes() -> None:
    account = with_key(KeyLimits(credits_total=12))
    admission = decide_hold(account, hold(1, 5, 5, 5, 2), START)
    assert admission.verdicts == (None, None, "KEY_BUDGET_EXCEEDED", None)
    take(account, admission.event)
    account.check()
    assert decide_hold(account, hold(9, 1), START).verdicts == ("KEY_BUDGET_EXCEEDED",)
    assert decide_hold(account, hold(10, 50, proof=OWN), START).verdicts == (None,)  # The account's own key has none.


def test_a_call_without_a_price_is_judged_and_takes_nothing() -> None:
    """Decisions, "Named keys": nobody works on what a key may not call. The hold of the price takes the unit later."""
    account = with_key(KeyLimits(methods=("getSlot",), requests_per_second=2))
    items = tuple(HoldItem(method, 0, takes_unit=False) for method in ("getSlot", "executeSell", "getSlot", "getSlot"))
    for number in (0, 10):
        admission = decide_hold(account, HoldRequest(operation(number), KEY, items), START)
        assert admission.verdicts == (None, "METHOD_NOT_ALLOWED", None, None)
        take(account, admission.event)
        assert not account.holds and account.window.used == account.keys.by_number[1].window.used == 0
    assert decide_hold(account, HoldRequest(operation(0), KEY, items), START).verdicts == admission.verdicts
    take(account, decide_hold(account, hold(20, 5, 5), START).event)
    full = decide_hold(account, HoldRequest(operation(30), KEY, items), START)
    assert full.verdicts == ("RATE_LIMITED", "METHOD_NOT_ALLOWED", "RATE_LIMITED", "RATE_LIMITED")
    account.check()


def test_a_post_counts_what_was_charged_and_a_release_nothing() -> None:
    account = with_key(KeyLimits(credits_total=10))
    take(account, decide_hold(account, hold(1, 6, 4), START).event)
    take(account, decide_settle(account, settle(1, 3, ceiling=6), START).event)
    take(account, decide_settle(account, settle(2, 0, ceiling=4), START).event)
    account.check()
    (key,) = account.keys.path(1)
    assert (key.total, key.in_day, key.held, key.room(START.wall_ms // DAY_MS)) == (3, 3, 0, 7)


def test_a_refund_is_the_keys_again_and_its_entry_names_it() -> None:
    account = with_key(KeyLimits(credits_a_day=10))
    take(account, decide_hold(account, hold(1, 10), START).event)
    take(account, decide_settle(account, settle(1, 10), START).event)
    assert decide_hold(account, hold(2, 1), START).verdicts == ("KEY_BUDGET_EXCEEDED",)
    refund = decide_void(account, settle(1, 10), START, asked_store=True).event
    assert refund is not None
    apply(account, refund)
    assert refund.entry.description == "|1"  # type: ignore[union-attr]
    assert decide_hold(account, hold(3, 10), START).verdicts == (None,)


def test_a_late_post_that_the_budget_does_not_cover_is_refused() -> None:
    """A successor does not know the hold. The replica tells the key, and the answer does not leave."""
    account = with_key(KeyLimits(credits_total=10))
    late = msgspec.structs.replace(settle(1, 8), key=1)
    assert decide_settle(account, late, START, asked_store=True).ok
    take(account, decide_settle(account, late, START, asked_store=True).event)
    again = msgspec.structs.replace(settle(2, 8), key=1)
    assert decide_settle(account, again, START, asked_store=True).ok is False
    take(account, decide_settle(account, msgspec.structs.replace(settle(3, 2), key=1), START, asked_store=True).event)
    assert account.keys.path(1)[0].total == 10


def test_the_hold_says_whose_it_is_and_not_the_settle() -> None:
    account = with_key(KeyLimits())
    take(account, decide_hold(account, hold(1, 5), START).event)
    take(account, decide_settle(account, settle(1, 5), START).event)
    assert account.keys.path(1)[0].total == 5


def test_a_key_has_its_own_rate() -> None:
    account = with_key(KeyLimits(requests_per_second=2))
    first = decide_hold(account, hold(1, 1, 1, 1), START)
    assert first.verdicts == (None, None, "RATE_LIMITED")
    take(account, first.event)
    assert decide_hold(account, hold(5, 0), START).verdicts == ("RATE_LIMITED",)
    assert decide_hold(account, hold(6, 1, proof=OWN), START).verdicts == (None,)
    assert decide_hold(account, hold(7, 1), later(START, 1)).verdicts == (None,)


def test_a_method_that_is_not_named_is_refused_also_where_it_is_free() -> None:
    account = with_key(KeyLimits(methods=("READ_CHEAP",)))
    assert decide_hold(account, hold(1, 1), START).verdicts == (None,)
    for ceiling in (0, 25):
        assert decide_hold(account, hold(2, ceiling, method="getBlock"), START).verdicts == ("METHOD_NOT_ALLOWED",)


def test_a_key_that_is_no_good_is_refused_as_a_credential() -> None:
    account = with_key(KeyLimits(expires_at=START.wall_ms // 1000))
    for proof in (KEY, ProvenProof(ALICE, 1), ProvenProof(ALICE, 7), KeyProof(b"?" * 32, KEY.routing)):
        admission = decide_hold(account, hold(1, 1, proof=proof), START)
        assert (admission.refusal, admission.event) == ("AUTH_FAILED", None)
    assert decide_hold(account, hold(2, 1, proof=ProvenProof(ALICE)), START).refusal is None


def test_an_open_stream_pays_from_its_keys_budget() -> None:
    account = with_key(KeyLimits(credits_total=60, methods=("STREAMS",)))

    def allowance(number: int, credits: int) -> HoldRequest:
        name = operation_at(b"replica1" + bytes(8), FIRST_ALLOWANCE + number)
        return HoldRequest(name, ProvenProof(ALICE, 1), (HoldItem("accountNotification", credits),))

    take(account, decide_hold(account, allowance(1, 50), START).event)
    assert decide_hold(account, allowance(2, 50), START).verdicts == ("KEY_BUDGET_EXCEEDED",)
    assert decide_hold(account, allowance(3, 10), START).verdicts == (None,)


def test_an_open_stream_holds_no_more_ahead_than_its_key_and_its_hour_allow() -> None:
    """Rules of calls hold for the credits that a stream holds ahead, of which nobody sees an answer."""
    ahead = HoldRequest(
        operation_at(b"replica1" + bytes(8), FIRST_ALLOWANCE + 1),
        ProvenProof(ALICE, 1),
        (HoldItem("accountNotification", 50),),
    )
    account = with_key(KeyLimits(methods=("READ_CHEAP",)))
    found = decide_hold(account, ahead, START)
    assert (found.verdicts, found.event, found.stopped) == (("METHOD_NOT_ALLOWED",), None, False)
    account = with_key(KeyLimits())
    apply(account, HourlyLimitSet(HourlySetting(49)))
    apply(account, HoursLearnt(Learnt(START.wall_ms // 1000 // HOUR_SECONDS, None, 0)))
    found = decide_hold(account, ahead, START)
    assert (found.verdicts, found.event, found.stopped) == (("HOURLY_LIMIT_EXCEEDED",), None, True)
    assert account.purse.held == 0


def test_a_key_is_told_its_own_figures() -> None:
    account = with_key(KeyLimits(credits_total=40, requests_per_second=3))
    take(account, decide_hold(account, hold(1, 15), START).event)
    told = figures(account, START, account.keys.path(1))
    assert (told.credits_remaining, told.rate_limit, told.rate_remaining) == (25, 3, 2)
    assert figures(account, START).credits_remaining == 985
    poor = with_key(KeyLimits(credits_total=40), credits=7)
    assert figures(poor, START, poor.keys.path(1)).credits_remaining == 7
