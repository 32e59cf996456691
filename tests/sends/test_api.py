"""The results that callers get: the interface's fields, the status in its words, and each leg's timeline."""

from dataclasses import replace

import pytest

from actors.sends.api import RaceResult, result_body, status_body
from actors.sends.core import RaceState
from actors.sends.store import LegReport
from tests.sends.making import NOW, a_race, a_ticket

SENT = (
    LegReport(1, "local_rpc", NOW + 2, NOW + 5),
    LegReport(1, "jito", NOW + 2, None, "-32097: Rate limit"),
    LegReport(1, "tpu_quic", None, None, "no leader is connected"),
)
LANDED = a_race(state=RaceState.CONFIRMED, slot=105, ended_at_ms=NOW + 900, sent=True, broadcasts=1)


def test_a_confirmed_send_has_every_field_of_the_interface() -> None:
    body = result_body(RaceResult(LANDED, a_ticket(first=True, charged=50), SENT, False, 3), "sig")
    assert body == {
        "signature": "sig",
        "status": "confirmed",
        "confirmed": True,
        "slot": 105,
        "confirmations": 3,
        "landing_time_ms": 900,
        "legs_attempted": ["local_rpc", "jito"],
        "retry_count": 0,
        "charged_credits": 50,
        "error": None,
    }


def test_a_landing_before_the_race_has_no_landing_time() -> None:
    """The interface: send-to-confirmation time. This race has sent nothing."""
    body = result_body(RaceResult(replace(LANDED, slot=99), a_ticket(charged=2), (), False), "sig")
    assert body["landing_time_ms"] is None and body["confirmed"] is True and body["slot"] == 99


@pytest.mark.parametrize(
    ("race", "over", "status", "charged", "error"),
    [
        (a_race(), False, "pending", 50, None),
        (a_race(), True, "unknown", 50, "may still land"),
        (replace(LANDED, state=RaceState.FAILED, error="{}"), True, "failed", 2, "{}"),
        (a_race(state=RaceState.EXPIRED, error="it can no longer land", ended_at_ms=9), True, "failed", 0, "no longer"),
        (a_race(state=RaceState.EXPIRED, error="no longer", ended_at_ms=9, sent=True), True, "failed", 2, "no longer"),
        (a_race(state=RaceState.UNPROVEN, ended_at_ms=9, sent=True), True, "unknown", 2, "could not be proven"),
    ],
)
def test_each_state_has_its_word(race: object, over: bool, status: str, charged: int, error: str | None) -> None:
    """`failed` is said only of what can never land. The charge of an open race is what is held, and of an ended one
    what its outcome costs, also while its hold has not ended yet."""
    body = result_body(RaceResult(race, a_ticket(), SENT, over), "sig")  # type: ignore[arg-type]
    assert (body["status"], body["charged_credits"], body["confirmed"]) == (status, charged, False)
    assert body["error"] is None if error is None else error in body["error"]
    assert (body["slot"] is None) == (body["landing_time_ms"] is None)


def test_the_status_tells_what_each_leg_did() -> None:
    body = status_body(RaceResult(LANDED, a_ticket(charged=2), SENT, False), "sig")
    assert body["updated_at"] == (NOW + 900) // 1000 and body["charged_credits"] == 2
    assert (body["started_at_ms"], body["ended_at_ms"]) == (NOW, NOW + 900)
    assert list(body["legs"]) == ["local_rpc", "jito", "tpu_quic"]
    assert body["legs"]["jito"] == [
        {"broadcast": 1, "submitted_at_ms": NOW + 2, "acknowledged_at_ms": None, "error": "-32097: Rate limit"}
    ]
    assert body["legs"]["tpu_quic"][0]["submitted_at_ms"] is None
