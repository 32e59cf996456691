"""`webhooks`: where secrets go, and rows of any form."""

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from ledger_gateway.cli.webhook_commands import _attempts, _filter, _last, _secret

from .conftest import Done


def test_a_secret_has_a_place_before_it_is_made(cli: Callable[..., Done], tmp_path: Path) -> None:
    """It is told once: without a place for it nothing is created, and no file is overwritten."""
    taken = tmp_path / "taken"
    taken.write_text("mine")
    for arguments in (["create", "https://a.example", "--type", "signal"], ["rotate", "wh_1"]):
        assert "--secret-file" in cli("webhooks", *arguments, key="k").err
        assert "exists already" in cli("webhooks", *arguments, "--secret-file", str(taken), key="k").err
    assert taken.read_text() == "mine"
    assert _secret("whsec_x", tmp_path / "new", False) == {"secret_file": str(tmp_path / "new")}
    assert (tmp_path / "new").read_text() == "whsec_x" and stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600
    assert _secret("whsec_x", None, True) == {"secret": "whsec_x"}


@pytest.mark.parametrize("arguments", [[], ["--event", "e", "--from", "1"], ["--from", "1"]])
def test_a_replay_names_events_or_a_time(cli: Callable[..., Done], arguments: list[str]) -> None:
    assert cli("webhooks", "replay", "wh_1", *arguments, key="k").code == 2


def test_rows_of_any_form_are_shown() -> None:
    """Fields that are missing or of another form break no table."""
    assert _filter({"filter_type": "lifecycle", "lifecycle_events": ["low_balance"]}) == "lifecycle  low_balance"
    assert (_attempts({"attempts": [1, 2]}), _attempts({}), _last({"attempts": [5]}), _last({})) == (2, None, "", "")
    assert _last({"attempts": [{"http_status": 500}]}) == "500"
