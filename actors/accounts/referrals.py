"""Rules of referral codes, and of which code an account keeps.

Implements: interface, `ref_code` ("captured once at account creation; unknown or expired codes are ignored silently;
later values do not change it"); commands.py asks for a code only when it opens an account.
Pure. Choices where the interface is silent: an account keeps the code's percentage with the code, so that ending a code
changes nothing for accounts that have it. Codes are case-sensitive. Accounts opened by a deposit have no code, because
a transfer names none.
"""

from typing import NamedTuple

BPS_MAX = 10_000  # A bonus as large as the deposit.
CODE_CHARACTERS_MAX = 64
_NOTE_CHARACTERS_MAX = 200
_CODE_MARKS = frozenset("-_.")


class Referral(NamedTuple):
    code: str
    bonus_bps: int  # In 1/10,000 of each deposit's credits.
    created_at: int
    expires_at: int | None  # Unix seconds; None: never.
    note: str


def referral_error(referral: Referral, now: int) -> str | None:
    """Return a sentence on what is wrong with a new code, or None."""
    code = referral.code
    if not 1 <= len(code) <= CODE_CHARACTERS_MAX or not is_code(code):
        return f"a code is 1 to {CODE_CHARACTERS_MAX} letters, digits, - _ or ."
    if not 1 <= referral.bonus_bps <= BPS_MAX:
        return f"the bonus must be 0.01 to {BPS_MAX // 100} percent"
    if referral.expires_at is not None and referral.expires_at <= now:
        return "the code would have expired already"
    if len(referral.note) > _NOTE_CHARACTERS_MAX or not referral.note.isprintable():
        return f"the note must be at most {_NOTE_CHARACTERS_MAX} printable characters"
    return None


def is_code(text: str) -> bool:
    return all(mark in _CODE_MARKS or (mark.isascii() and mark.isalnum()) for mark in text)


def is_live(referral: Referral, now: int) -> bool:
    return referral.expires_at is None or now < referral.expires_at


def captured(referral: Referral | None, now: int) -> tuple[str | None, int | None]:
    """Return the code and percentage that an account opened now keeps."""
    if referral is None or not is_live(referral, now):
        return None, None
    return referral.code, referral.bonus_bps
