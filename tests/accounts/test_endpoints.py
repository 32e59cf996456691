from typing import Any

import pytest

from actors.accounts.api import (
    AdjustCredits,
    AssignDeposit,
    Command,
    ImportKey,
    PaidTransfer,
    ReadLedger,
    SetLimits,
    SetStatus,
    TakeBackDeposit,
)
from actors.accounts.endpoints import mistake_in, usable_ref_code
from tests.accounts.making import ALICE, key_proof

PROOF = key_proof()


@pytest.mark.parametrize(
    ("offset", "limit", "good"), [(0, 0, True), (0, 500, True), (0, 501, False), (-1, 5, False), (10**10, 5, False)]
)
def test_pages_are_bounded(offset: int, limit: int, good: bool) -> None:
    """Decisions, "offset and limit of listings"."""
    assert (mistake_in(ReadLedger(PROOF, offset, limit)) is None) is good


@pytest.mark.parametrize(
    ("amount", "reason", "operation", "good"),
    [
        (1, "", "op", True),
        (-5, "chargeback", "op", True),
        (0, "", "op", False),
        (10**15 + 1, "", "op", False),
        (1, "a\nb", "op", False),
        (1, "x" * 201, "op", False),
        (1, "", "", False),
        (1, "", "x" * 129, False),
    ],
)
def test_adjustments_are_checked(amount: int, reason: str, operation: str, good: bool) -> None:
    """The reason is shown to the customer; the operation is kept for good."""
    assert (mistake_in(AdjustCredits(ALICE, amount, reason, operation)) is None) is good


@pytest.mark.parametrize(
    ("command", "good"),
    [
        (SetStatus(ALICE, "active", ""), True),
        (SetStatus(ALICE, "closed", ""), False),
        (SetLimits(ALICE, None, None), True),
        (SetLimits(ALICE, 1, 100_000), True),
        (SetLimits(ALICE, 0, None), False),
        (SetLimits(ALICE, None, 100_001), False),
    ],
)
def test_statuses_and_limits_are_checked(command: SetStatus | SetLimits, good: bool) -> None:
    assert (mistake_in(command) is None) is good


@pytest.mark.parametrize(
    ("command", "good"),
    [
        (ImportKey(ALICE, b"h" * 32, "prefix"), True),
        (ImportKey(ALICE, b"h" * 31, "prefix"), False),  # The text in place of its hash, for example.
        (ImportKey(ALICE, b"h" * 32, ""), False),
        (ImportKey(ALICE, b"h" * 32, "x" * 33), False),
        (TakeBackDeposit(ALICE, b"s" * 64, 0, "never final"), True),
        (TakeBackDeposit(ALICE, b"s" * 63, 0, "never final"), False),
        (TakeBackDeposit(ALICE, b"s" * 64, -1, "never final"), False),
        (TakeBackDeposit(ALICE, b"s" * 64, 0, ""), False),
        (AssignDeposit(ALICE, PaidTransfer(b"s" * 64, 0, 10_000, 7), "why"), True),
        (AssignDeposit(ALICE, PaidTransfer(b"s" * 64, 0, 10_000, 7), ""), False),
        (AssignDeposit(ALICE, PaidTransfer(b"s" * 64, 0, 10_000, 7), "x" * 201), False),
        (AssignDeposit(ALICE, PaidTransfer(b"s" * 64, 0, 10_000, 7), "a\nb"), False),
    ],
)
def test_keys_and_deposits_are_named_and_explained(command: Command[Any], good: bool) -> None:
    """What is changed by hand is in the books with its reason, and under the name of one transfer or key."""
    assert (mistake_in(command) is None) is good


def test_a_referral_code_that_cannot_be_one_is_ignored() -> None:
    """Interface: silently."""
    assert usable_ref_code("FRIEND-1") == "FRIEND-1"
    for bad in (None, "", "x" * 65, "tab\t", "üml"):
        assert usable_ref_code(bad) is None
