"""Unmodified clients of the chain, as their registries ship them, against the whole product."""

import time
from pathlib import Path

import httpx
import pytest

from bench.product import Product

_HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    # Not `pytest_plugins`: pytest takes that from the outermost conftest only.
    for plugin in ("tests.product", "tests.npm"):
        if not config.pluginmanager.has_plugin(plugin):
            config.pluginmanager.import_plugin(plugin)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.clients)


@pytest.fixture(autouse=True, scope="session")
def final_funds(product: Product) -> None:
    """The demo wallet's money is final: clients that check a transaction at finalized see nothing younger."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": "getBalance", "params": [product.ready["pubkey"]]}
    for _ in range(300):
        if httpx.post(str(product.ready["node_url"]), json=asked).json()["result"]["value"] > 0:
            return
        time.sleep(0.1)
    raise AssertionError("the demo wallet was never funded")
