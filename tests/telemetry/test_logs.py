"""What leaves the process as text: logs and metrics."""

import builtins
import logging
from collections.abc import Iterator
from contextvars import copy_context
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.config import TelemetryConfig
from actors.request_ids import work_for
from actors.telemetry import logs as telemetry
from actors.telemetry.logs import JsonLines, KeyValueLines, redact

KEY = "srpc_live_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
TOKEN = "00ffa1b2" * 8


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f"GET /rpc?api-key={KEY}&x=1", "GET /rpc?api-key=[redacted]&x=1"),
        (f"GET /rpc?api%2Dkey={TOKEN} HTTP/1.1", "GET /rpc?api%2Dkey=[redacted] HTTP/1.1"),
        ("POST https://node.example/?api_key=abc", "POST https://node.example/?api_key=[redacted]"),
        (f"GET /?k=srpc%5Flive%5F{KEY[10:]}", "GET /?k=srpc%5Flive%5F[redacted]"),
        (f"key {KEY}.", "key srpc_live_[redacted]."),
        (f"Authorization: Bearer {TOKEN}", "Authorization: Bearer [redacted]"),
        (f"challenge {TOKEN} of", "challenge [redacted] of"),
        ({"x-api-key": TOKEN, "accept": "json"}, "{'x-api-key': '[redacted]', 'accept': 'json'}"),
        (f"x-token: {TOKEN[:30]}", "x-token: [redacted]"),
        (f"protocols auth.{KEY}, solana-rpc", "protocols auth.srpc_live_[redacted], solana-rpc"),
        (f"protocols auth.{TOKEN}, solana-rpc", "protocols auth.[redacted], solana-rpc"),
        ("postgresql://me:geheim@db/ledger", "postgresql://me:[redacted]@db/ledger"),
        ("redis://:geheim@cache/0", "redis://:[redacted]@cache/0"),
        ("signed with whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "signed with whsec_[redacted]"),
        (f"read {[7] * 64} from id.json", "read [redacted] from id.json"),
    ],
)
def test_secrets_do_not_get_into_text(text: object, kept: str) -> None:
    """Threat 9: a key is in no log, however it came in; and the rest of the line stays readable."""
    assert redact(str(text)) == kept
    assert redact(redact(str(text))) == kept


@pytest.mark.parametrize(
    "text",
    [
        "method getTokenSupply answered 200 in 12 ms",
        "mint EPjFWdd5AufqSSqeM2qNStxMZ7eQpyjG8Ac5P9Dt1v1q, slot 435888000",
        "signature 5VERv8NMvzbJMEkV8xnrLkEaWRtSz9CosKDYjCJjBRnb",
        "legs [1, 2, 3]",
        "http://127.0.0.1:8080/health",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    """A log that redacts what operators search for is no log."""
    assert redact(text) == text


@given(st.text(max_size=200), st.sampled_from([KEY, f"Bearer {KEY}", f"?api-key={KEY}&", f'"api_key": "{KEY}"']))
def test_a_key_never_survives_its_surroundings(noise: str, secret: str) -> None:
    """Whatever stands before and after."""
    assert KEY not in redact(f"{noise} {secret} {noise}")


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Path]:
    """Logging set up for one test, and put back afterwards."""
    factory, level = logging.getLogRecordFactory(), logging.getLogger().level
    telemetry.set_up(TelemetryConfig(), "tests", tmp_path, console=False)
    yield tmp_path / "tests.jsonl"
    for handler in list(logging.getLogger().handlers):
        if getattr(handler, "_of_telemetry", False):
            logging.getLogger().removeHandler(handler)
            handler.close()
    logging.setLogRecordFactory(factory)
    logging.getLogger().setLevel(level)


def test_a_log_line_is_one_json_object(logs: Path) -> None:
    """Machines read the file; a caller's newline makes no second line (threat 13)."""
    logging.getLogger("door").info("method %r\nINFO forged", "x\ny", extra={"request_id": "ab-1", "slot": 7})
    (line,) = logs.read_text().splitlines()
    row = orjson.loads(line)
    assert row["message"] == "method 'x\\ny'\nINFO forged"
    assert (row["logger"], row["level"], row["process"]) == ("door", "INFO", "tests")
    assert (row["request_id"], row["slot"]) == ("ab-1", 7)


def test_a_line_names_the_request_that_its_work_is_for(logs: Path) -> None:
    """Nobody passes the id on by hand; a line that names another request itself stays as it is."""

    def work() -> None:
        work_for("a1-7")
        logging.getLogger("deep below").warning("slow")
        logging.getLogger("deep below").warning("slow", extra={"request_id": "b2-9"})

    copy_context().run(work)
    logging.getLogger("deep below").warning("of no request")
    rows = [orjson.loads(line) for line in logs.read_text().splitlines()]
    assert [row.get("request_id") for row in rows] == ["a1-7", "b2-9", None]


@pytest.mark.parametrize(
    ("people", "log_format", "told"),
    [
        (False, "text", ["INFO    door: said", "WARNING door: heard"]),
        (True, "text", ["WARNING door: heard"]),
        (False, "json", ['"message":"said"', '"message":"heard"']),
        (True, "json", ['"message":"heard"']),
    ],
)
def test_the_standard_error_output_has_the_form_of_the_settings(
    logs: Path, capfd: pytest.CaptureFixture[str], people: bool, log_format: Any, told: list[str]
) -> None:
    """For a collector one JSON object a line; a person's terminal has warnings and errors. No secrets."""
    telemetry.set_up(TelemetryConfig(log_format=log_format), "tests", people=people)
    logging.getLogger("door").info("said api-key=%s", KEY)
    logging.getLogger("door").warning("heard %s", f"Bearer {TOKEN}")
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == len(told)
    for line, part in zip(lines, told, strict=True):
        assert part.removesuffix('"') in line and "[redacted]" in line
        assert KEY not in line and TOKEN not in line
        if log_format == "json":
            assert orjson.loads(line)["process"] == "tests"


def test_secrets_are_redacted_wherever_they_hide(logs: Path) -> None:
    """In the message, its arguments, the extra fields and the text of an exception."""
    try:
        raise ValueError(f"bad key {KEY}")
    except ValueError:
        logging.getLogger("door").exception("with %s", KEY, extra={"url": f"/?api-key={KEY}"})
    assert KEY not in logs.read_text()
    assert logs.read_text().count("[redacted]") >= 3


def test_other_libraries_handlers_see_no_secret_either(logs: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A server's own access log would have the query string in it."""
    logging.getLogger("uvicorn.access").warning('"%s %s"', "GET", f"/rpc?api-key={KEY}")
    assert caplog.messages == ['"GET /rpc?api-key=[redacted]"']


def test_setting_up_twice_logs_once(logs: Path) -> None:
    """A process that sets up again must not double its lines."""
    telemetry.set_up(TelemetryConfig(), "tests", logs.parent, console=False)
    logging.getLogger("door").warning("once")
    assert len(logs.read_text().splitlines()) == 1


def test_another_librarys_record_factory_goes_on_working(logs: Path) -> None:
    """Ray has one of its own and reads what it added; its additions are not ours to show."""
    factory = logging.getLogRecordFactory()

    def rays(*arguments: Any, **named: Any) -> logging.LogRecord:
        record = logging.LogRecord(*arguments, **named)
        record._ray_timestamp_ns = 7
        return record

    logging.setLogRecordFactory(rays)
    try:
        telemetry.set_up(TelemetryConfig(), "tests", logs.parent, console=False)
        made = logging.getLogRecordFactory()("door", logging.INFO, "door.py", 1, "with %s", (KEY,), None)
    finally:
        logging.setLogRecordFactory(factory)
    assert vars(made)["_ray_timestamp_ns"] == 7
    assert KEY not in made.getMessage()
    assert "_ray_timestamp_ns" not in JsonLines("tests").format(made)


def test_a_wrong_log_call_does_not_raise_into_its_caller(logs: Path) -> None:
    """Looking for secrets must not break what logging itself forgives."""
    made = logging.getLogRecordFactory()("door", logging.INFO, "door.py", 1, "%d rows", ("three",), None)
    assert made.msg == "%d rows"


def record(message: str, **extra: object) -> logging.LogRecord:
    made = logging.makeLogRecord({"msg": message, "levelname": "INFO", "name": "door", "created": 0.25})
    vars(made).update(extra)
    return made


def test_console_lines_cannot_be_forged() -> None:
    """Control characters of a caller reach no terminal (threat 13)."""
    line = KeyValueLines().format(record("method a\nb\x1b[31m", pubkey="x y", id="1\r2"))
    assert line == '00:00:00.250 INFO    door: method a\\u000ab\\u001b[31m pubkey="x y" id=1\\u000d2'


def test_long_texts_are_cut() -> None:
    """A megabyte of a caller's method name is not kept (threat 13)."""
    row = orjson.loads(JsonLines("tests").format(record("x" * 1_000_000)))
    assert len(row["message"]) < 10_000
    assert row["message"].endswith("(1000000 characters)")


def test_a_lone_surrogate_is_logged() -> None:
    """Text from the outside need not be encodable."""
    row = orjson.loads(JsonLines("tests").format(record("\ud800 half", id=1 << 70)))
    assert row["message"] == "\\ud800 half"
    assert row["id"] == str(1 << 70)


def test_tracebacks_are_text_where_serve_has_replaced_print(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As ray.serve._private.logging_utils.redirected_print does in a replica, where the file is not the console."""
    built_in = builtins.print

    def replaced(*objects: Any, **named: Any) -> None:
        built_in(objects, **named)

    monkeypatch.setattr(builtins, "print", replaced)
    try:
        raise ValueError("of the test")
    except ValueError:
        logging.getLogger("actors.test").exception("a failure")
    row = orjson.loads(logs.read_text())
    assert row["exception"].startswith("Traceback (most recent call last):\n  File ")
    assert row["exception"].endswith("\nValueError: of the test")
