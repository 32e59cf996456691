"""Domain events."""

import dataclasses
from typing import get_args

import pytest

from actors.events import LOW_BALANCE_CREDITS, Event


@pytest.mark.parametrize("event_class", get_args(Event))
def test_every_event_says_whose_it_is_and_when_it_happened(event_class: type) -> None:
    """And is a value: what has happened does not change."""
    names = [field.name for field in dataclasses.fields(event_class)]
    assert names[0] == "pubkey" and names[-1] == "at"
    event = event_class(*range(len(names)))
    assert event == event_class(*range(len(names))) != event_class(*range(1, len(names) + 1))
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.at = 5


def test_the_low_balance_threshold_is_the_interfaces() -> None:
    """Interface, "Limits": below 1,000 credits."""
    assert LOW_BALANCE_CREDITS == 1_000
