"""Unmodified clients of the chain, as their registries ship them, against the whole product."""

import hashlib
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from bench.product import Product
from tests.installed import Installed, run_installer

_HERE = Path(__file__).parent
# PyPI x402 with what it needs, in an environment of its own: its solders cannot stand beside the product's. All is
# named, as pip would otherwise look for what fits together for longer than it takes to install. Made by
# `pip install "x402[svm,httpx,extensions]==2.25.0"` in an empty environment and `pip freeze`.
_X402 = _HERE / "x402_requirements.txt"
_OUT_OF_REACH = ("NewConnectionError", "Temporary failure in name resolution", "Max retries exceeded")


def pytest_configure(config: pytest.Config) -> None:
    # Not `pytest_plugins`: pytest takes that from the outermost conftest only.
    for plugin in ("tests.product", "tests.npm"):
        if not config.pluginmanager.has_plugin(plugin):
            config.pluginmanager.import_plugin(plugin)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.clients)


def _install_x402(folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    into = (sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"))
    options = ("-q", "--no-deps", "--no-compile", "--retries", "1")
    run_installer((*into, "install", *options, "-r", str(_X402)), folder, "Python", _OUT_OF_REACH)


_X402_NAME = hashlib.sha256(_X402.read_bytes() + repr(sys.version_info[:2]).encode()).hexdigest()[:16]
_X402_PACKAGES = Installed(f"python-{_X402_NAME}", _install_x402)


def pytest_collection_finish(session: pytest.Session) -> None:
    if any("python_of_x402" in getattr(item, "fixturenames", ()) for item in session.items):
        _X402_PACKAGES.begin(session.config)


@pytest.fixture(scope="session")
def python_of_x402(pytestconfig: pytest.Config) -> Path:
    """An interpreter that has PyPI x402; kept between runs, made anew when a version changes."""
    return _X402_PACKAGES.folder(pytestconfig) / "bin" / "python"


@pytest.fixture(autouse=True, scope="session")
def final_funds(product: Product) -> None:
    """The demo wallet's money is final: clients that check a transaction at finalized see nothing younger."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": "getBalance", "params": [product.ready["pubkey"]]}
    for _ in range(1_200):
        if httpx.post(str(product.ready["node_url"]), json=asked, timeout=90).json()["result"]["value"] > 0:
            return
        time.sleep(0.1)
    raise AssertionError("the demo wallet was never funded")
