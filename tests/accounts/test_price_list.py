"""The price list of an account: its name, and holds whose ceilings are of another list.

Rule: decisions, "Price lists".
"""

import msgspec
import pytest

from actors.accounts.account import apply
from actors.accounts.admission import decide_hold
from actors.accounts.price_list import PriceListSet, mistake_in_name
from actors.calls import FIRST_ALLOWANCE, OTHER_PRICES, HoldRequest, operation_at
from tests.accounts.making import START, hold, opened, take


def by(request: HoldRequest, price_list: str | None) -> HoldRequest:
    return msgspec.structs.replace(request, price_list=price_list)


def test_ceilings_of_another_list_hold_nothing_and_change_nothing() -> None:
    """So no call costs what another list says than the account's in the moment of its hold."""
    account = opened(credits=1_000)
    apply(account, PriceListSet("wholesale"))
    for wrong in ("", "retail"):
        admission = decide_hold(account, by(hold(1, 5), wrong), START)
        assert (admission.refusal, admission.verdicts, admission.event) == (OTHER_PRICES, (), None)
    assert not account.holds and account.window.used == 0 and not account.answers
    right = decide_hold(account, by(hold(1, 5), "wholesale"), START)  # The same operation, priced anew.
    assert right.verdicts == (None,) and right.event is not None
    take(account, right.event)
    account.check()
    assert decide_hold(account, by(hold(3, 5), None), START).verdicts == (None,)  # Of no list, as a payment's.


def test_a_hold_keeps_its_answer_when_the_list_changes() -> None:
    """A request that arrives a second time was granted once, at the price of then."""
    account = opened(credits=1_000)
    asked = by(hold(1, 5), "")
    take(account, decide_hold(account, asked, START).event)
    apply(account, PriceListSet("wholesale"))
    again = decide_hold(account, asked, START)
    assert (again.refusal, again.verdicts, again.event) == (None, (None,), None)


def test_credits_held_ahead_for_a_stream_are_of_a_list_too() -> None:
    account = opened(credits=1_000)
    apply(account, PriceListSet("wholesale"))
    ahead = msgspec.structs.replace(hold(1, 25), operation=operation_at(bytes(16), FIRST_ALLOWANCE + 1))
    assert decide_hold(account, by(ahead, ""), START).refusal == OTHER_PRICES
    assert decide_hold(account, by(ahead, "wholesale"), START).verdicts == (None,)


@pytest.mark.parametrize("name", ["", "a", "wholesale", "0-9", "x" * 32])
def test_a_list_has_a_plain_name(name: str) -> None:
    """Decisions, "Price lists": empty stands for the public prices."""
    assert mistake_in_name(name) is None


@pytest.mark.parametrize("name", ["public", "-a", "A", "a b", "x" * 33, "a\n", "é"])
def test_what_is_no_name_of_a_list(name: str) -> None:
    """`public` is the word for the public prices."""
    assert mistake_in_name(name) is not None
