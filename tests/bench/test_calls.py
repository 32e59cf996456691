"""The command line of the measurement."""

import pytest
import typer

from bench.calls import _counts, _systems


def test_systems_and_connections_are_checked_before_anything_starts() -> None:
    """A mistyped name is told at once, not after two minutes."""
    assert _systems("gateway, baseline") == ("gateway", "baseline")
    assert _counts("64,1,8,8") == (1, 8, 64)
    for mistake in ("gatway", "", "gateway,x"):
        with pytest.raises(typer.BadParameter):
            _systems(mistake)
    for mistake in ("a", "", "0,1", "1;2"):
        with pytest.raises(typer.BadParameter):
            _counts(mistake)
