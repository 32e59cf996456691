"""Text of a server cannot drive the terminal, and programs get one JSON document."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger_gateway.cli.output import Output
from ledger_gateway.errors import LimitReached, NodeError, PaymentNeeded

from ..test_answers import VALUES

HOSTILE = "\x1b[2J\x1b]0;owned\x07\r\x9b31m[red]\u202e"


@given(value=VALUES, text=st.text() | st.just(HOSTILE))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_control_character_reaches_the_terminal(
    value: object, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Titles, colours, cursor moves, right-to-left marks: a hostile gateway or token has them in any string."""
    out = Output(as_json=False)
    out.rows({"value": value, "text": text})
    out.table([{"a": text, "b": value}], ["a", "b"])
    out.text(text)
    out.say(text)
    out.document({"text": text, "value": value})
    out.failed(NodeError(1, text), text)
    with out.steps(1) as begin:
        begin(text)
    told = capsys.readouterr()
    assert all(letter.isprintable() or letter == "\n" for letter in told.out + told.err)


def test_programs_get_one_document_and_nothing_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(as_json=True)
    out.say("aside")
    out.next("step")
    out.rows({"a": 1, "text": HOSTILE})
    told = capsys.readouterr()
    assert json.loads(told.out) == {"a": 1, "text": HOSTILE} and told.err == "" and told.out.count("\n") == 1
    out.failed(LimitReached("RATE_LIMITED", 429, "slow", code=-32005, retry_after=1.0, request_id="r"), "wait")
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["constant"], error["retry_after"], error["request_id"]) == ("RATE_LIMITED", 1.0, "r")


def test_people_hear_what_to_do_and_whom_to_name(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=False).failed(PaymentNeeded("INSUFFICIENT_CREDITS", 402, "no", request_id="req-9"), "pay [in]")
    told = capsys.readouterr()
    assert told.out == "" and "Refused:" in told.err and "req-9" in told.err and "Next: pay [in]" in told.err
