"""Answers about deposits, for clients and for the operator."""

import pytest

from actors.deposits.core import REMAINDER_INDEX, Finding, FindingStatus, Reason
from actors.deposits.endpoints import confirm_body, finding_body, status_of
from tests.deposits.world import key_of, text_of

ALICE, BOB = key_of("alice"), key_of("bob")


def test_a_caller_hears_what_was_added_and_what_it_has() -> None:
    """Interface: {ok, credits_added, new_balance, already_processed}, and no more when all credits are the caller's."""
    told = confirm_body(ALICE, 5, [(ALICE, 1_000, 1_005)], True)
    assert told == {"ok": True, "credits_added": 1_000, "new_balance": 1_005, "already_processed": False}


def test_a_repeat_adds_nothing_and_shows_the_balance_as_it_is() -> None:
    told = confirm_body(ALICE, 1_005, [(ALICE, 0, None)], True)
    assert told == {"ok": True, "credits_added": 0, "new_balance": 1_005, "already_processed": True}
    assert confirm_body(ALICE, 5, [(ALICE, 0, 1_005)], False)["already_processed"] is True


def test_another_wallets_balance_is_never_told() -> None:
    told = confirm_body(ALICE, None, [(BOB, 1_000, 77_000)], True)
    assert told == {
        "ok": True,
        "credits_added": 0,
        "new_balance": 0,
        "already_processed": False,
        "credited_to": [text_of(BOB)],
    }


def test_a_finding_is_told_with_all_that_explains_it() -> None:
    finding = Finding(
        b"s" * 64, 1 << 24, 7, 1_700_000_000, FindingStatus.LISTED, Reason.NO_WALLET, 1_234_567, "source", "authority"
    )
    told = finding_body(finding)
    assert (told["usdc"], told["place"], told["status"]) == ("1.234567", "1", "listed")
    assert told["time"] == "2023-11-14 22:13:20Z" and "multisig" in told["why"] and told["account"] is None
    rest = Finding(
        b"s" * 64, REMAINDER_INDEX, 7, None, FindingStatus.ASSIGNED, Reason.NO_TRANSFER, 5, pubkey=ALICE, note="ok"
    )
    told = finding_body(rest)
    assert (told["place"], told["why"], told["account"], told["time"]) == ("-", "ok", text_of(ALICE), None)


def test_a_status_is_named_by_its_word() -> None:
    assert (status_of("all"), status_of("listed")) == (None, FindingStatus.LISTED)
    with pytest.raises(KeyError):
        status_of("lost")
