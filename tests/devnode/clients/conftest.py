"""Unmodified clients of the chain, as their registries ship them, straight at a devnode."""

from pathlib import Path

import pytest

_HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    # Not `pytest_plugins`: pytest takes that from the outermost conftest only.
    if not config.pluginmanager.has_plugin("tests.npm"):
        config.pluginmanager.import_plugin("tests.npm")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.clients)
