"""Domain events."""

import dataclasses

import pytest

from actors.events import LOW_BALANCE_CREDITS, LowBalance, NullSink
from actors.units import Credits, Pubkey, UnixSeconds


def test_events_are_values() -> None:
    """What has happened does not change."""
    event = LowBalance(Pubkey("a"), Credits(999), UnixSeconds(1))
    assert event == LowBalance(Pubkey("a"), Credits(999), UnixSeconds(1))
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.balance = Credits(5)  # type: ignore[misc]


def test_the_low_balance_threshold_is_the_interfaces() -> None:
    """Interface, "Limits": below 1,000 credits."""
    assert LOW_BALANCE_CREDITS == 1_000


def test_the_null_sink_takes_everything() -> None:
    """Emitting never waits and never fails."""
    NullSink().emit(LowBalance(Pubkey("a"), Credits(999), UnixSeconds(1)))
