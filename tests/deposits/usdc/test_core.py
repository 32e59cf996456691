"""The outcome of the transfers of one transaction."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.keypair import Keypair

from actors.accounts.api import DepositConfirmation
from actors.deposits.usdc.core import (
    REMAINDER_INDEX,
    FindingStatus,
    Part,
    Reason,
    confirmation,
    failed,
    finding_of,
    gone,
    judge,
)
from tests.deposits.token_making import Shop, open_plain, pay
from tests.deposits.world import ACCOUNT, MINIMUM, FakeChain, key_of, text_of

CALLER, STRANGER = key_of("alice"), key_of("bob")


def judged(*payments: tuple[str, int], **how: Any) -> tuple[list[int], list[tuple[int, Reason, int]]]:
    """The creditable amounts, and (index, reason, amount) of the others."""
    sent = FakeChain().make(*payments, **how)
    judgment = judge(sent.told(7), sent.signature, ACCOUNT, MINIMUM)
    return [each.amount for each in judgment.creditable], [
        (row.index, row.reason, row.amount) for row in judgment.findings
    ]


def test_each_transfer_is_its_authoritys() -> None:
    sent = FakeChain().make(("alice", 10_000), ("bob", 20_000))
    judgment = judge(sent.told(7), sent.signature, ACCOUNT, MINIMUM)
    named = [(each.authority, each.amount) for each in judgment.creditable]
    assert named == [(text_of(key_of("alice")), 10_000), (text_of(key_of("bob")), 20_000)]
    assert judgment.findings == ()


def test_the_minimum_is_of_one_authority_in_one_transaction() -> None:
    """Interface: 10,000 base units. Two halves of one authority are a deposit; half of another authority is not."""
    assert judged(("alice", 5_000), ("alice", 5_000)) == ([5_000, 5_000], [])
    credited, listed = judged(("alice", 5_000), ("bob", 9_999))
    assert credited == [] and [row[1] for row in listed] == [Reason.BELOW_MINIMUM] * 2
    assert judged(("alice", 9_999))[0] == [] and judged(("alice", 10_000))[0] == [10_000]


def test_a_failed_transaction_is_nothing() -> None:
    assert judged(("alice", 10_000), failed=True) == ([], [(REMAINDER_INDEX, Reason.FAILED, 0)])


def test_an_authority_that_signed_nothing_is_listed() -> None:
    """A program's address or a multisig cannot sign in, so it could never use the credits."""
    credited, listed = judged(("vault", 10_000), signed=False)
    assert credited == [] and [row[1] for row in listed] == [Reason.NO_WALLET]


def test_a_balance_that_grew_less_than_the_transfers_earns_nothing() -> None:
    """Threat 23: only the net balance delta of the real account counts."""
    credited, listed = judged(("alice", 10_000), ("bob", 20_000), unexplained=-1)
    assert credited == [] and [row[1] for row in listed] == [Reason.BALANCE_DIFFERS] * 2


def test_a_balance_that_grew_more_is_listed_as_far_as_nobody_sent_it() -> None:
    credited, listed = judged(("alice", 10_000), unexplained=55)
    assert credited == [10_000] and listed == [(REMAINDER_INDEX, Reason.NO_TRANSFER, 55)]
    assert judged(unexplained=55) == ([], [(REMAINDER_INDEX, Reason.NO_TRANSFER, 55)])


def test_a_transaction_that_brings_nothing_is_ignored() -> None:
    assert judged() == ([], [(REMAINDER_INDEX, Reason.NOTHING_CAME, 0)])
    assert judged(("alice", 0)) == ([], [(REMAINDER_INDEX, Reason.NOTHING_CAME, 0)])


def test_more_than_there_is_cannot_be_read() -> None:
    assert judged(("alice", 10**18)) == ([], [(REMAINDER_INDEX, Reason.UNREADABLE, 0)])


@pytest.mark.parametrize("answer", [{}, {"meta": {"err": None}}, {"slot": -1, "meta": None}, {"slot": "x"}])
def test_what_cannot_be_read_is_listed_and_raises_nothing(answer: dict[str, Any]) -> None:
    (row,) = judge(answer, b"s" * 64, ACCOUNT, MINIMUM).findings
    assert (row.status, row.reason) == (FindingStatus.LISTED, Reason.UNREADABLE)


def test_the_deposit_wallets_own_money_is_listed(shop: Shop) -> None:
    """Transfers of the deposit wallet: from its account to itself, and from another account of the wallet."""
    shop.run([shop.pay(100_000)])
    turned = shop.run([pay(100_000, shop.till, shop.till, shop.keeper.pubkey())], shop.keeper)
    (row,) = judge(shop.fetch(turned), b"s" * 64, shop.account, MINIMUM).findings
    assert (row.status, row.reason) == (FindingStatus.IGNORED, Reason.NOTHING_CAME)
    other = Keypair()
    shop.run(open_plain(shop.wallet, other.pubkey(), shop.keeper.pubkey()), other)
    shop.run([pay(50_000, shop.purse, other.pubkey(), shop.wallet)])
    moved = shop.run([pay(50_000, other.pubkey(), shop.till, shop.keeper.pubkey())], shop.keeper)
    judgment = judge(shop.fetch(moved), b"s" * 64, shop.account, MINIMUM)
    assert judgment.creditable == () and judgment.findings[0].reason is Reason.OWN_WALLET


def test_what_is_known_without_reading_is_told_alike() -> None:
    (lost,), (bad,) = gone(b"s" * 64, 7).findings, failed(b"s" * 64, 7, None).findings
    assert (lost.status, lost.reason, bad.status, bad.reason) == (
        FindingStatus.LISTED,
        Reason.GONE,
        FindingStatus.IGNORED,
        Reason.FAILED,
    )


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30_000)), max_size=6), st.integers(-40_000, 40_000))
def test_no_base_unit_is_lost_or_made(payments: list[tuple[str, int]], unexplained: int) -> None:
    """Creditable and listed amounts add up to what came, and no more than the growth of the balance is creditable."""
    sent = FakeChain().make(*payments, unexplained=unexplained)
    judgment = judge(sent.told(7), sent.signature, ACCOUNT, MINIMUM)
    creditable = sum(each.amount for each in judgment.creditable)
    grown = sum(amount for _, amount in payments) + unexplained
    assert creditable <= max(grown, 0)
    listed = sum(row.amount for row in judgment.findings if row.status is FindingStatus.LISTED)
    if unexplained >= 0:
        assert creditable + listed == grown
    names = [each.index for each in judgment.creditable] + [row.index for row in judgment.findings]
    assert len(set(names)) == len(names)


def test_a_finding_keeps_what_explains_it() -> None:
    sent = FakeChain().make(("alice", 10_000))
    (transfer,) = judge(sent.told(7), sent.signature, ACCOUNT, MINIMUM).creditable
    row = finding_of(transfer, sent.signature, 7, None, FindingStatus.CREDITED, Reason.NONE)
    assert (row.amount, row.authority, row.source, row.slot) == (10_000, text_of(key_of("alice")), "Source", 7)
    assert replace(row, note="x").index == transfer.index


def test_a_caller_hears_what_was_added_and_what_it_has() -> None:
    """Interface: {ok, credits_added, new_balance, already_processed}, and no more when all credits are the caller's."""
    told = confirmation(CALLER, 5, [Part(CALLER, 1_000, 1_005)], True)
    assert told == DepositConfirmation(credits_added=1_000, new_balance=1_005, already_processed=False)


def test_a_repeat_adds_nothing_and_shows_the_balance_as_it_is() -> None:
    told = confirmation(CALLER, 1_005, [Part(CALLER, 0, None)], True)
    assert told == DepositConfirmation(credits_added=0, new_balance=1_005, already_processed=True)
    assert confirmation(CALLER, 5, [Part(CALLER, 0, 1_005)], False).already_processed


def test_another_wallets_balance_is_never_told() -> None:
    told = confirmation(CALLER, None, [Part(STRANGER, 1_000, 77_000)], True)
    assert told == DepositConfirmation(credits_added=0, new_balance=0, already_processed=False, credited_to=(STRANGER,))
