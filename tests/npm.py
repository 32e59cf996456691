"""The packages of tests/clients/package.json and of tests/clients/das/package.json (helius-sdk needs another
@solana/kit), as their registry ships them, installed once for all tests.

A pytest plugin, as tests/product.py is: the folders whose tests drive JavaScript clients register it. Everything skips
with a reason where node is missing or the registry is out of reach.
"""

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.installed import Installed, run_installer

PACKAGE = Path(__file__).parent / "clients" / "package.json"
_OF_DAS = PACKAGE.parent / "das" / "package.json"
_RUN_SECONDS = 180
_NODE_MAJOR_MIN = 20
# What npm says when the registry cannot be reached; anything else is a failure of the test.
_OUT_OF_REACH = (
    "ENOTFOUND",
    "EAI_AGAIN",
    "ECONNREFUSED",
    "ECONNRESET",
    "ETIMEDOUT",
    "ENETUNREACH",
    "ERR_SOCKET_TIMEOUT",
)


class Npm:
    """A folder with the packages."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def file(self, path: str) -> Path:
        """A file of one of the packages."""
        return self._folder / path

    def run(self, script: Path, settings: Mapping[str, str]) -> Any:
        """The JSON that the script prints in its last line. Its environment is the tests' and the settings."""
        copy = self._folder / script.name  # Modules are looked for from where a script lies.
        shutil.copy(script, copy)
        done = subprocess.run(
            ["node", copy.name],
            cwd=self._folder,
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
            timeout=_RUN_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout.strip().splitlines()[-1])


def _installed(package: Path) -> Installed:
    def install(folder: Path) -> None:
        shutil.copy(package, folder)
        options = ("--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=1")
        run_installer(("npm", "install", *options), folder, "npm", _OUT_OF_REACH)

    return Installed(hashlib.sha256(package.read_bytes()).hexdigest()[:16], install)


PACKAGES = _installed(PACKAGE)
_PACKAGES_OF_DAS = _installed(_OF_DAS)


def _why_not() -> str:
    """Why no JavaScript client can run here; empty when one can."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return "node and npm are not on the PATH"
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.removeprefix("v").partition(".")[0]) < _NODE_MAJOR_MIN:
        return f"node {version} is older than {_NODE_MAJOR_MIN}, which @solana/kit needs"
    return ""


def pytest_collection_finish(session: pytest.Session) -> None:
    if _why_not():
        return
    for fixture, packages in (("npm", PACKAGES), ("npm_of_das", _PACKAGES_OF_DAS)):
        if any(fixture in getattr(item, "fixturenames", ()) for item in session.items):
            packages.begin(session.config)


@pytest.fixture(scope="session")
def npm(pytestconfig: pytest.Config) -> Npm:
    """Kept between runs, made anew when package.json changes."""
    if reason := _why_not():
        pytest.skip(reason)
    return Npm(PACKAGES.folder(pytestconfig))


@pytest.fixture(scope="session")
def npm_of_das(pytestconfig: pytest.Config) -> Npm:
    if reason := _why_not():
        pytest.skip(reason)
    return Npm(_PACKAGES_OF_DAS.folder(pytestconfig))
