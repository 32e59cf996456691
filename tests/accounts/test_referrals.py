"""Referral codes: what an operator may make, and what an account keeps of one."""

import pytest

from actors.accounts.referrals import Referral, captured, referral_error

NOW = 1_700_000_000
CODE = Referral("FRIEND-1", 1_500, NOW, NOW + 10, "for friends")


def test_a_live_code_is_captured_with_its_percentage() -> None:
    """Later changes of the code change nothing for those who have it."""
    assert captured(CODE, NOW + 9) == ("FRIEND-1", 1_500)
    assert captured(CODE._replace(expires_at=None), NOW + 10**9) == ("FRIEND-1", 1_500)


def test_unknown_and_expired_codes_are_ignored_silently() -> None:
    """Interface, `ref_code`."""
    assert captured(None, NOW) == (None, None)
    assert captured(CODE, NOW + 10) == (None, None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"code": ""},
        {"code": "a b"},
        {"code": "x" * 65},
        {"code": "grüße"},
        {"bonus_bps": 0},
        {"bonus_bps": 10_001},
        {"expires_at": NOW},
        {"note": "\n"},
        {"note": "x" * 201},
    ],
)
def test_what_cannot_be_a_code_is_refused(wrong: dict[str, object]) -> None:
    assert referral_error(CODE, NOW) is None
    assert referral_error(CODE._replace(**wrong), NOW)
