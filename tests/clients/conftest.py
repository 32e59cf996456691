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
# Packages of PyPI that cannot stand beside the product's own (x402 needs another solders, mcp other versions of much),
# each with all that it needs, in an environment of its own. Everything is named, as pip would otherwise look for what
# fits together for longer than it takes to install. Made by `pip install "x402[svm,httpx,extensions,mcp]==2.25.0"
# mcp==2.3.0`, `"x402[svm,mcp]==2.25.0" mcp==1.30.0`, `mcp==1.9.4 pydantic==2.11.7` and `chainbench==0.8.8` in empty
# environments and `pip freeze`.
_REQUIREMENTS = {
    "x402": "x402_requirements.txt",
    "x402_mcp_1": "x402_mcp_1_requirements.txt",
    "mcp_1": "mcp_1_requirements.txt",
    "chainbench": "chainbench_requirements.txt",
}
_OUT_OF_REACH = ("NewConnectionError", "Temporary failure in name resolution", "Max retries exceeded")


def pytest_configure(config: pytest.Config) -> None:
    # Not `pytest_plugins`: pytest takes that from the outermost conftest only.
    for plugin in ("tests.product", "tests.browser", "tests.npm"):
        if not config.pluginmanager.has_plugin(plugin):
            config.pluginmanager.import_plugin(plugin)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.clients)


def _environment_of(requirements: Path) -> Installed:
    def install(folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        into = (sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"))
        options = ("-q", "--no-deps", "--no-compile", "--retries", "1")
        run_installer((*into, "install", *options, "-r", str(requirements)), folder, "Python", _OUT_OF_REACH)

    name = hashlib.sha256(requirements.read_bytes() + repr(sys.version_info[:2]).encode()).hexdigest()[:16]
    return Installed(f"python-{name}", install)


_ENVIRONMENTS = {name: _environment_of(_HERE / file) for name, file in _REQUIREMENTS.items()}


def pytest_collection_finish(session: pytest.Session) -> None:
    used = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    for name, environment in _ENVIRONMENTS.items():
        if f"python_of_{name}" in used:
            environment.begin(session.config)


def _interpreter(name: str, config: pytest.Config) -> Path:
    """An interpreter that has the package; kept between runs, made anew when a version changes."""
    return _ENVIRONMENTS[name].folder(config) / "bin" / "python"


@pytest.fixture(scope="session")
def python_of_x402(pytestconfig: pytest.Config) -> Path:
    return _interpreter("x402", pytestconfig)


@pytest.fixture(scope="session")
def python_of_mcp(python_of_x402: Path) -> Path:
    """It has both, as agents that pay need both."""
    return python_of_x402


@pytest.fixture(scope="session")
def python_of_x402_mcp_1(pytestconfig: pytest.Config) -> Path:
    """x402 with the last version 1 of mcp, for which x402MCPSession is made."""
    return _interpreter("x402_mcp_1", pytestconfig)


@pytest.fixture(scope="session")
def python_of_mcp_1(pytestconfig: pytest.Config) -> Path:
    return _interpreter("mcp_1", pytestconfig)


@pytest.fixture(autouse=True, scope="session")
def final_funds(product: Product) -> None:
    """The demo wallet's money is final: clients that check a transaction at finalized see nothing younger."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": "getBalance", "params": [product.ready["pubkey"]]}
    for _ in range(1_200):
        if httpx.post(str(product.ready["node_url"]), json=asked, timeout=90).json()["result"]["value"] > 0:
            return
        time.sleep(0.1)
    raise AssertionError("the demo wallet was never funded")


@pytest.fixture(scope="session")
def python_of_chainbench(pytestconfig: pytest.Config) -> Path:
    return _interpreter("chainbench", pytestconfig)
