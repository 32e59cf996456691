"""The whole product, for the tests of what works on a running one."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    # Not `pytest_plugins`: pytest takes that from the outermost conftest only.
    if not config.pluginmanager.has_plugin("tests.product"):
        config.pluginmanager.import_plugin("tests.product")
