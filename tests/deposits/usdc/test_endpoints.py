"""Transfers as the operator sees them."""

import pytest

from actors.deposits.usdc.core import REMAINDER_INDEX, Finding, FindingStatus, Reason
from actors.deposits.usdc.endpoints import finding_body, status_of
from tests.deposits.world import key_of, text_of

ALICE, BOB = key_of("alice"), key_of("bob")


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
