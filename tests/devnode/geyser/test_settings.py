"""The stream's settings."""

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from devnode.geyser.limits import NO_LIMITS
from devnode.geyser.settings import GeyserSettings
from devnode.settings import Settings, SettingsError


def test_the_defaults_are_those_of_yellowstone() -> None:
    """Defaults: 150 slots of replay, no token, no limits, default ports if they are free."""
    settings = GeyserSettings()
    assert (settings.port, settings.tls_port, settings.token, settings.limits) == (None, None, None, NO_LIMITS)
    assert settings.replay_slots == 150
    with pytest.raises(FrozenInstanceError):
        settings.port = 1  # type: ignore[misc]


def test_mistakes_are_reported_together_with_those_of_the_node() -> None:
    """One error has all mistakes, each with the name of its flag."""
    geyser = GeyserSettings(port=70_000, tls_port=-1, replay_slots=10_001, tls_key=Path("key.pem"))
    with pytest.raises(SettingsError) as caught:
        Settings(data_dir=Path("x"), slot_ms=1, geyser=geyser)
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == [
        *("--grpc-port", "--grpc-tls-port", "--grpc-replay-slots", "--slot-ms"),
        "--grpc-tls-cert and --grpc-tls-key",
    ]
