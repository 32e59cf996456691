"""Slices of signatures: even, stable, and the same for every process."""

import os
from collections import Counter

import pytest

from actors.sends.slices import NAME_PREFIX, RACERS_MAX, SLICES, racer_names, slice_of


def test_a_signature_has_its_slice_for_ever() -> None:
    """Stored races are found by it after any number of releases."""
    assert [slice_of(bytes([number]) * 64) for number in (0, 1, 255)] == [245, 124, 134]


def test_signatures_are_spread_evenly_over_slices() -> None:
    """20,000 of them: each slice has 78 on average, with a deviation of 9."""
    counts = Counter(slice_of(os.urandom(64)) for _ in range(20_000))
    assert set(counts) == set(range(SLICES)) and max(counts.values()) < 160 and min(counts.values()) > 20


def test_racers_are_named_by_number() -> None:
    assert racer_names(2) == ["send-racer-0", "send-racer-1"]
    assert all(name.startswith(NAME_PREFIX) for name in racer_names(RACERS_MAX))
    for count in (0, RACERS_MAX + 1):
        with pytest.raises(AssertionError):
            racer_names(count)
