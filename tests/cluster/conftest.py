"""Tests on a real local cluster: processes are started, killed and stopped for real."""

from pathlib import Path

import pytest

from bench.product import Product
from tests.customers import Customer

_HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    # Not `pytest_plugins`: pytest takes that from the outermost conftest only.
    if not config.pluginmanager.has_plugin("tests.product"):
        config.pluginmanager.import_plugin("tests.product")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def heavy_customer(product: Product) -> Customer:
    """Rich and hardly limited: for load."""
    return rich_and_unlimited(product)


@pytest.fixture(scope="session")
def other_heavy_customer(product: Product) -> Customer:
    """For load beside the first one's."""
    return rich_and_unlimited(product)


def rich_and_unlimited(product: Product) -> Customer:
    customer = Customer(product)
    customer.grant(1_000_000)
    customer.limits(10_000, 1_000)
    return customer
