"""Tests on a real local cluster: processes are started, killed and stopped for real."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import redis

from bench.product import Product
from tests.customers import Customer

_HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    # Not `pytest_plugins`: pytest takes that from the outermost conftest only.
    for plugin in ("tests.product", "tests.browser", "tests.npm"):
        if not config.pluginmanager.has_plugin(plugin):
            config.pluginmanager.import_plugin(plugin)


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


@pytest.fixture
def counted(product: Product) -> Iterator[redis.Redis]:
    """The store of the counts by address. The product's limit is a million here, since all other tests come from one
    address: these tests begin sixty below it."""
    (pid,) = product.running("redis-server")[:1]
    sockets = [str(found.laddr) for found in psutil.Process(pid).net_connections("unix") if found.laddr]
    with redis.Redis(unix_socket_path=sockets[0]) as client:
        yield client
        for key in client.scan_iter("identity:address:*"):
            client.delete(key)


def rich_and_unlimited(product: Product) -> Customer:
    customer = Customer(product)
    customer.grant(1_000_000)
    customer.limits(10_000, 1_000)
    return customer
