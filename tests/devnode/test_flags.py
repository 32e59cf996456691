"""The flags, and the settings that they become."""

import inspect
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest
import typer

from devnode import flags
from devnode.__main__ import _limits_in, serve
from devnode.geyser.settings import GeyserSettings
from devnode.settings import Settings, SettingsError


def test_every_flag_has_a_help_text() -> None:
    """--help is the reference of the command line."""
    options = [get_args(one)[1] for name, one in vars(flags).items() if get_args(one) and name[0].isupper()]
    assert len(options) >= 20
    assert all(isinstance(option, typer.models.OptionInfo) and option.help for option in options)


def test_defaults_are_those_of_the_settings() -> None:
    """A node started by command and one started by code are the same node."""
    given = {name: parameter.default for name, parameter in inspect.signature(serve).parameters.items()}
    for field in fields(Settings):
        if field.name in given and field.name not in ("data_dir", "faults"):
            assert given[field.name] == field.default, field.name
    for field in fields(GeyserSettings):
        assert given[f"grpc_{field.name}"] == (None if field.name == "limits" else field.default), field.name


def test_limits_of_subscriptions_come_from_a_file(tmp_path: Path) -> None:
    """A file that cannot be read as limits stops the start, with its name."""
    file = tmp_path / "plugin.json"
    file.write_text('{"grpc": {"filters": {"slots": {"max": 1}}}}', encoding="utf-8")
    assert _limits_in(file).slots.max == 1
    file.write_text('{"slots": {"most": 1}}', encoding="utf-8")
    for wrong in (file, tmp_path / "absent.json"):
        with pytest.raises(SettingsError, match=f"--grpc-limits {wrong}"):
            _limits_in(wrong)
