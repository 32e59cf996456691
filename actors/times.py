"""Times as clients write them in a URL: ISO 8601 in UTC, or Unix seconds.

Implements: interface, "Account endpoints" (`from` and `to`). Pure vocabulary.
"""

import re
from datetime import UTC, datetime, timedelta

_SECONDS = re.compile(r"[0-9]{1,12}")
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?(Z|\+00:00)?")
_SECONDS_MAX = 10**11
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


def unix_ms(text: str) -> int | None:
    """Return the time as Unix milliseconds; None: the text is no time."""
    micros = unix_micros(text)
    return None if micros is None else micros // 1_000


def unix_micros(text: str) -> int | None:
    if _SECONDS.fullmatch(text):
        return min(int(text), _SECONDS_MAX) * 1_000_000
    if not _ISO.fullmatch(text := text.replace(" ", "+")):  # A plus sign that was not escaped in the URL.
        return None
    try:
        moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        return None
    return (moment - _EPOCH) // _MICROSECOND


def iso_ms(at_ms: int) -> str:
    """Return a time in Unix milliseconds, of the years 1970 to 9999, as clients may send it back."""
    moment = datetime.fromtimestamp(at_ms // 1_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ms % 1_000:03d}Z"


def iso_seconds(at_ms: int) -> str:
    """Write a time as clients may send it back, without a fraction of a second."""
    return f"{_EPOCH + timedelta(seconds=at_ms // 1_000):%Y-%m-%dT%H:%M:%SZ}"
