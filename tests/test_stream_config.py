"""Settings of streams."""

import pytest

from actors.config_loader import load
from tests.test_config_loader import mistakes


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("LEDGER_GEYSER__QUEUE_BYTES_MAX", 1 << 16, 1 << 40),
        ("LEDGER_GEYSER__REPLAY_SLOTS", 0, 100_000),
        ("LEDGER_STREAMS__SOCKETS_MAX", 1, 10**9),
        ("LEDGER_STREAMS__SILENT_SECONDS_MAX", 1, 300),
        ("LEDGER_SIGNALS__STREAM_ENTRIES_MAX", 1_000, 10**9),
    ],
)
def test_the_ends_of_a_range_are_taken_and_what_is_beyond_them_is_not(name: str, least: int, most: int) -> None:
    """Redis, for one, takes no entry into a log of more than 2**63."""
    branch, field = name.removeprefix("LEDGER_").lower().split("__")
    for value in (least, most):
        assert getattr(getattr(load({name: str(value)}).config, branch), field) == value
    for value in (least - 1, most + 1):
        (told,) = mistakes({name: str(value)})
        assert name in told
