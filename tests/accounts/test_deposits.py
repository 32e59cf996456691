"""Rules of deposits, bonuses, assignments and returns on one account."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.accounts.account import Account, Admitted, Profile, apply, new_account
from actors.accounts.admission import decide_hold
from actors.accounts.credits import Source
from actors.accounts.deposits import (
    bonus_for,
    credits_for,
    decide_bonus,
    decide_deposit,
    decide_return,
    deposit_operation,
    known_deposit,
    known_return,
)
from actors.accounts.ledger import EntryType
from tests.accounts.making import ALICE, DEFAULTS, START, hold, opened

RATE = 100_000
OPERATION = deposit_operation(b"s" * 64, 0)


def linked(bonus_bps: int) -> Account:
    return new_account(ALICE, Profile(START.wall_ms // 1000, ref_code="FRIEND", ref_bonus_bps=bonus_bps), DEFAULTS)


def deposit(account: Account, base_units: int, operation: bytes = OPERATION, rate: int = RATE) -> None:
    """As deposit_commands.py does it: the deposit, then its bonus."""
    event = decide_deposit(account, operation, base_units, 7, rate, START)
    if event is not None:
        apply(account, event)
        assert event.deposit is not None
        bonus = decide_bonus(account, event.deposit, START)
        if bonus is not None:
            apply(account, bonus)
    account.check()


def test_a_deposit_is_a_batch_an_entry_and_the_last_deposit() -> None:
    """Interface, "Account": credits at credits_per_usdc, in a batch with the configured life."""
    account = opened()
    deposit(account, 10_000)
    (batch,) = account.purse.batches
    assert (batch.source, batch.credits, batch.expires_at) == (Source.DEPOSIT, 1_000, 1_700_000_000 + 365 * 86_400)
    last = account.last_deposit
    assert last is not None and (last.base_units, last.credits, last.slot) == (10_000, 1000, 7)
    assert known_deposit(account, OPERATION)
    assert not known_deposit(account, deposit_operation(b"s" * 64, 1))


def test_a_bonus_of_less_than_a_credit_is_no_entry() -> None:
    account = linked(1)
    deposit(account, 10_000)
    assert account.seq == 1


def test_what_is_worth_less_than_a_credit_earns_none() -> None:
    """Money rule 7: rounded down, and an entry of nothing is none."""
    account = opened()
    assert decide_deposit(account, OPERATION, 9, 7, RATE, START) is None
    assert decide_deposit(account, OPERATION, 9, 7, RATE, START, "why") is None


def test_an_assigned_transfer_is_an_adjustment_with_its_reason_and_no_bonus() -> None:
    account = linked(1_500)
    event = decide_deposit(account, OPERATION, 10_000, 7, RATE, START, "sent by an exchange")
    assert event is not None
    apply(account, event)
    assert event.entry.type == EntryType.ADJUSTMENT and event.entry.amount == 1_000
    assert "sent by an exchange" in event.entry.description
    assert known_deposit(account, OPERATION)


@pytest.mark.parametrize(("held", "taken", "uncollected"), [(0, 1_000, 0), (400, 600, 400), (1_000, 0, 1_000)])
def test_a_payment_is_taken_back_as_far_as_it_is_available(held: int, taken: int, uncollected: int) -> None:
    """Decisions, "Two ways to pay by x402": at most what is available; what is held for calls in flight stays theirs;
    the rest is recorded."""
    account = opened()
    deposit(account, 10_000)
    if held:
        admitted = decide_hold(account, hold(1, held), START).event
        assert isinstance(admitted, Admitted)
        apply(account, admitted)
    event = decide_return(account, OPERATION, 1_000, "the payment never became final", START)
    apply(account, event)
    account.check()
    assert event.returned is not None
    assert (event.returned.taken, event.returned.uncollected) == (taken, uncollected)
    assert event.entry.type == EntryType.ADJUSTMENT and event.entry.amount == -taken
    assert ("uncollected" in event.entry.description) == (uncollected > 0)
    assert known_return(account, OPERATION)


@given(amounts=st.lists(st.integers(1, 10**12), max_size=20), bps=st.integers(0, 10_000), rate=st.integers(1, 10**9))
def test_credits_are_what_the_amounts_and_the_rate_say(amounts: list[int], bps: int, rate: int) -> None:
    """To the unit, each transfer rounded down by itself."""
    account = linked(bps)
    for number, amount in enumerate(amounts):
        deposit(account, amount, deposit_operation(b"s" * 64, number), rate)
    earned = [amount * rate // 1_000_000 for amount in amounts]
    assert account.purse.balance == sum(earned) + sum(credits * bps // 10_000 for credits in earned)


def test_operations_of_different_transfers_never_meet() -> None:
    """Money rule 4: exactly once per transfer, so two transfers may not share a name."""
    names = {deposit_operation(bytes([sign]) * 64, index) for sign in range(3) for index in (0, 1, 2**24, 2**32 - 1)}
    assert len(names) == 12


def test_parts_of_a_credit_are_never_given() -> None:
    assert (credits_for(19, 100_000), bonus_for(99, 100), bonus_for(99, None)) == (1, 0, 0)
