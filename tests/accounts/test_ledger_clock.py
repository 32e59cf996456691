"""The clock that account owners go by."""

import pytest

from actors.accounts.ledger_clock import LedgerClock
from actors.accounts.ledger_time import SETTLING_MS
from actors.clock import ManualClock
from tests.accounts.shards import WallClock

DAY = 86_400


def test_it_is_the_process_clock_until_the_database_answers(clock: ManualClock) -> None:
    """Preparing the database needs a time before there is an answer."""
    ledger_clock = LedgerClock(clock)
    clock.advance(3)
    assert (ledger_clock.now(), ledger_clock.now_ms()) == (clock.now(), clock.now_ms())
    assert ledger_clock.monotonic() == clock.monotonic()
    assert ledger_clock.agreed_ms() is None and ledger_clock.doubt is None


def test_a_wall_clock_that_is_set_moves_nothing(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    """Threat 53; one line when it begins and one when it is over."""
    wall = WallClock(clock)
    ledger_clock = LedgerClock(wall)
    ledger_clock.answered(clock.now_ms(), clock.monotonic())
    clock.advance(SETTLING_MS / 1000)
    assert ledger_clock.agreed_ms() == clock.now_ms()
    for ahead in (DAY, 400 * DAY, -DAY):
        wall.ahead_seconds = ahead
        ledger_clock.answered(clock.now_ms(), clock.monotonic())
        assert ledger_clock.now_ms() == clock.now_ms()
        assert ledger_clock.agreed_ms() is None
        assert ledger_clock.doubt is not None
    wall.ahead_seconds = 0
    assert ledger_clock.agreed_ms() == clock.now_ms()
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert "86400 s ahead of the database's clock" in caplog.text


def test_a_process_that_starts_with_a_wrong_clock_goes_by_the_databases(clock: ManualClock) -> None:
    """A host whose clock was never set: its entries carry the right time, and nothing expires there."""
    ledger_clock = LedgerClock(WallClock(clock, -140))
    ledger_clock.answered(clock.now_ms(), clock.monotonic())
    clock.advance(SETTLING_MS / 1000)
    assert ledger_clock.now_ms() == clock.now_ms()
    assert ledger_clock.agreed_ms() is None
