from pathlib import Path

import pytest

from devnode.settings import RETENTION_SLOTS_MIN, Settings, SettingsError


def test_every_mistake_is_reported_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        Settings(data_dir=Path("x"), slot_ms=1, http_port=70_000, retention_slots=RETENTION_SLOTS_MIN - 1)
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == [
        "--http-port",
        "--slot-ms",
        "--retention-slots",
    ]


def test_the_defaults_are_fine() -> None:
    assert Settings(data_dir=Path("x")).slot_ms == 400
