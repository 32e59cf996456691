"""Many credits in one request to the owners of accounts."""

import pytest

from actors.accounts.api import OwnerUnavailable
from actors.deposits.usdc.core import Finding, FindingStatus, Reason
from actors.deposits.usdc.crediting import Credit, Crediting
from actors.deposits.usdc.transfers import Transfer
from actors.telemetry.logs import redact
from tests.deposits.world import FakeAccounts, key_of, text_of

ALICE, BOB = key_of("alice"), key_of("bob")


def credit(number: int, name: str = "alice", amount: int = 10_000) -> Credit:
    return Credit(bytes([number]) * 64, Transfer(0, amount, "source", text_of(key_of(name)), True), number, None)


def listed(number: int, amount: int = 10_000) -> Finding:
    return Finding(bytes([number]) * 64, 0, 1, None, FindingStatus.LISTED, Reason.NO_WALLET, amount)


async def test_results_come_in_the_order_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    """The log has a line for each transfer that became credits, once, and nothing of it is taken for a secret."""
    caplog.set_level("INFO")
    accounts = FakeAccounts()
    rows = await Crediting(accounts).credit([credit(1), credit(2, "bob"), credit(3), credit(1)])
    assert [row.finding.signature[0] for row in rows] == [1, 2, 3, 1]
    assert [row.added for row in rows] == [1_000, 1_000, 1_000, 0]
    assert [row.finding.credits for row in rows] == [1_000] * 4
    assert [signature[0] for owner, signature in accounts.order if owner == ALICE] == [1, 3]
    first, *others = [record.getMessage() for record in caplog.records]
    assert first == (
        f"deposit of 0.01 USDC: 1000 credits for account {text_of(ALICE)}, slot 1, signature {text_of(bytes([1]) * 64)}"
    )
    assert redact(first) == first and len(others) == 2


async def test_an_owner_that_does_not_answer_fails_all_together() -> None:
    """A repeated request finds credited transfers as processed."""
    accounts = FakeAccounts()
    accounts.away = True
    with pytest.raises(OwnerUnavailable):
        await Crediting(accounts).credit([credit(1), credit(2, "bob")])
    assert accounts.asked == 2
    accounts.away = False
    assert sum(row.added for row in await Crediting(accounts).credit([credit(1), credit(2, "bob")])) == 2_000


async def test_each_is_told_of_by_itself() -> None:
    """Threat 20: one halted account does not affect the others."""
    accounts = FakeAccounts(halted={ALICE})
    rows = await Crediting(accounts).credit_each([credit(1), credit(2, "bob"), credit(3, "bob", amount=9)])
    assert rows[0] is None
    assert rows[1] is not None and rows[1].added == 1_000
    assert rows[2] is not None and rows[2].finding.reason == Reason.BELOW_ONE_CREDIT
    with pytest.raises(OwnerUnavailable):
        await Crediting(accounts).credit([credit(1), credit(2, "bob")])


async def test_what_is_worth_less_than_a_credit_is_listed() -> None:
    (row,) = await Crediting(FakeAccounts()).credit([credit(1, amount=9)])
    assert (row.finding.status, row.finding.reason, row.added) == (FindingStatus.LISTED, Reason.BELOW_ONE_CREDIT, 0)


async def test_what_was_assigned_to_another_is_told_as_theirs() -> None:
    accounts = FakeAccounts()
    await Crediting(accounts).assign(listed(1), BOB, "why")
    (row,) = await Crediting(accounts).credit([credit(1)])
    assert (row.finding.status, row.finding.pubkey, row.added, row.balance) == (FindingStatus.ASSIGNED, BOB, 0, 0)


async def test_an_assignment_that_cannot_be_is_told_in_a_sentence() -> None:
    accounts = FakeAccounts()
    assert isinstance(await Crediting(accounts).assign(listed(1, amount=9), BOB, "why"), str)
    await Crediting(accounts).credit([credit(2)])
    assert isinstance(await Crediting(accounts).assign(listed(2), BOB, "why"), str)
