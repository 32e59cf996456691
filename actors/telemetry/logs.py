"""Writes logs without secrets.

Implements: threats 9 (a key in a URL is in no log) and 13 (no caller can forge a log line).
Not here: metrics (metrics.py).
"""

import logging
import logging.handlers
import re
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson

from actors.config import TelemetryConfig
from actors.request_ids import current

REDACTED: Final = "[redacted]"
_LOG_BYTES_MAX = 16 << 20
_LOG_FILES_KEPT = 3
_TEXT_MAX = 8_192  # Length of a value in a log line, such as a caller's long method name.

# Of each match only group 1 is kept. A value ends at a quote or separator, so that the text around a secret stays
# readable.
_VALUE = r"[^\s&\"'\\,;<>]+"
_SECRETS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?i)(srpc(?:_|%5f)live(?:_|%5f))[A-Za-z0-9_%\-=]+",
        r"(whsec_)[A-Za-z0-9+/_\-=]+",
        r"(?i)(\bbearer(?:\s|%20)+)" + _VALUE,
        # In a URL the name may be percent-encoded.
        r"(?i)(\bapi(?:-|_|%2d|%5f)?key[\"']?\s*(?:=|:|%3d)\s*[\"']?)" + _VALUE,
        r"(?i)(\b(?:x-token|token|secret|password|passwd|x-signature|payment-signature)[\"']?\s*[=:]\s*[\"']?)"
        + _VALUE,
        r"(\bauth\.)[A-Za-z0-9_\-]{16,}",  # Sec-WebSocket-Protocol: auth.<key>
        r"(://[^/\s:@]*:)[^/\s@]+(?=@)",  # user:password@ of a URL
        r"()(?<![0-9A-Za-z])[0-9a-fA-F]{64,}(?![0-9A-Za-z])",  # Session tokens, challenges, legacy keys.
        r"()\[(?:\s*\d{1,3}\s*,){31,}\s*\d{1,3}\s*\]",  # A key file of the chain: 32 or 64 numbers.
    )
)
# Most lines match none of these, and then the patterns above are not tried.
_SUSPICIOUS = re.compile(r"(?i)srpc|whsec_|bearer|key|token|secret|passw|signature|auth\.|://|[0-9a-f]{64}|\d\s*,\s*\d")
_STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


def redact(text: str) -> str:
    """Remove API keys, tokens, passwords and secret keys from a text. Cheap where there are none; repeatable."""
    if _SUSPICIOUS.search(text) is None:
        return text
    for pattern in _SECRETS:
        text = pattern.sub(rf"\g<1>{REDACTED}", text)
    return text


def _clean(value: Any) -> Any:
    if isinstance(value, bool | float) or value is None or (isinstance(value, int) and abs(value) < 1 << 63):
        return value
    # A caller's text may contain lone surrogates, which cannot be encoded.
    text = redact(str(value)).encode(errors="backslashreplace").decode()
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}... ({len(text)} characters)"


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields given as `extra=`. Fields of libraries begin with an underscore and are left out."""
    return {
        name: _clean(value)
        for name, value in vars(record).items()
        if name not in _STANDARD_FIELDS and not name.startswith("_")
    }


class _Lines(logging.Formatter):
    def formatException(self, ei: Any) -> str:
        """Return the traceback as text. Not by logging's own, which prints it: in a replica Serve replaces `print` by
        one that writes each line as the representation of a tuple."""
        return "".join(traceback.format_exception(*ei)).rstrip("\n")


class JsonLines(_Lines):
    """One JSON object for each line: at, level, process, pid, logger, message, then the fields of `extra=`."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        row = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "process": self._process,
            "pid": record.process,
            "logger": record.name,
            "message": _clean(record.getMessage()),
            **_fields(record),
        }
        if record.exc_info:
            row["exception"] = _clean(self.formatException(record.exc_info))
        return orjson.dumps(row, option=orjson.OPT_NON_STR_KEYS).decode(errors="replace")


class KeyValueLines(_Lines):
    """For people: time, level, logger, message, then key=value. Control characters are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        line = f"{at} {record.levelname:<7} {record.name}: {_one_line(str(_clean(record.getMessage())))}"
        for name, value in _fields(record).items():
            text = str(value)
            line += f" {name}={orjson.dumps(text).decode() if ' ' in text else _one_line(text)}"
        if record.exc_info:
            line += "\n" + str(_clean(self.formatException(record.exc_info)))
        return line


def _one_line(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def set_up(
    config: TelemetryConfig, process: str, json_folder: Path | None = None, console: bool = True, people: bool = False
) -> None:
    """Send every logger of this process to the console, and as JSON lines to `<json_folder>/<process>.jsonl`.

    process: a name that no other process on this machine has, such as "account-shard-0". A second call replaces the
    first. Secrets are removed from the records of other libraries too, whatever handlers these use. people: the console
    is a person's, who hears of warnings and errors alone.
    """
    root = logging.getLogger()
    for handler in list(root.handlers):
        if getattr(handler, "_of_telemetry", False):
            root.removeHandler(handler)
            handler.close()
    handlers: list[tuple[logging.Handler, logging.Formatter]] = []
    if console:
        # Not sys.stderr, which Serve replaces in a replica by a log of its own, whose level drops what is written.
        shown = logging.StreamHandler(sys.__stderr__)
        shown.setLevel(logging.WARNING if people else logging.NOTSET)
        handlers.append((shown, JsonLines(process) if config.log_format == "json" else KeyValueLines()))
    if json_folder is not None:
        json_folder.mkdir(parents=True, exist_ok=True)
        rotating = logging.handlers.RotatingFileHandler(
            json_folder / f"{process}.jsonl",
            maxBytes=_LOG_BYTES_MAX,
            backupCount=_LOG_FILES_KEPT,
            encoding="utf-8",
            errors="replace",
        )
        handlers.append((rotating, JsonLines(process)))
    for handler, formatter in handlers:
        handler.setFormatter(formatter)
        handler.addFilter(name_request)
        handler._of_telemetry = True  # type: ignore[attr-defined]
        root.addHandler(handler)
    root.setLevel(config.log_level)
    make_record = logging.getLogRecordFactory()
    if not getattr(make_record, "_of_telemetry", False):
        logging.setLogRecordFactory(_redacting(make_record))


def name_request(record: logging.LogRecord) -> bool:
    """Add the request that the line is about, unless the line says it. Not as the record is made: it could not be given
    as `extra=` then."""
    if (request_id := current()) and not hasattr(record, "request_id"):
        record.request_id = request_id
    return True


def _redacting(make_record: Callable[..., logging.LogRecord]) -> Callable[..., logging.LogRecord]:
    """Wrap the existing factory of log records, which may be Ray's."""

    def make_redacted_record(*arguments: Any, **named: Any) -> logging.LogRecord:
        record = make_record(*arguments, **named)
        try:
            message = record.getMessage()
        except Exception:  # noqa: BLE001 - the handler reports a broken log call.
            return record
        cleaned = redact(message)
        if cleaned != message:
            record.msg, record.args = cleaned, ()
        return record

    make_redacted_record._of_telemetry = True  # type: ignore[attr-defined]
    return make_redacted_record
