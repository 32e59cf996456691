"""The packages of tests/clients/package.json, as their registry ships them, installed once for all tests.

A pytest plugin, as tests/product.py is: the folders whose tests drive JavaScript clients register it. Everything skips
with a reason where node is missing or the registry is out of reach.
"""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

PACKAGE = Path(__file__).parent / "clients" / "package.json"
_INSTALL_SECONDS = 180
_RUN_SECONDS = 90
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


@pytest.fixture(scope="session")
def npm(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Npm:
    """Kept between runs, made anew when package.json changes."""
    node, command = shutil.which("node"), shutil.which("npm")
    if node is None or command is None:
        pytest.skip("node and npm are not on the PATH")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.removeprefix("v").partition(".")[0]) < _NODE_MAJOR_MIN:
        pytest.skip(f"node {version} is older than {_NODE_MAJOR_MIN}, which @solana/kit needs")
    cache = getattr(pytestconfig, "cache", None)  # Missing when pytest runs with `-p no:cacheprovider`.
    base = cache.mkdir("clients") if cache is not None else tmp_path_factory.mktemp("clients")
    folder = base / hashlib.sha256(PACKAGE.read_bytes()).hexdigest()[:16]
    if not folder.exists():
        _install(command, folder)
    return Npm(folder)


def _install(command: str, folder: Path) -> None:
    """Beside its place first: a run that is broken off, or another at the same time, leaves nothing half done."""
    fresh = Path(tempfile.mkdtemp(prefix="installing-", dir=folder.parent))
    shutil.copy(PACKAGE, fresh)
    install = [command, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=1"]
    try:
        done = subprocess.run(install, cwd=fresh, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False)
        if done.returncode != 0 and any(word in done.stderr for word in _OUT_OF_REACH):
            pytest.skip(f"the npm registry is out of reach: {done.stderr.strip().splitlines()[0]}")
        assert done.returncode == 0, done.stderr
        try:
            fresh.rename(folder)
        except OSError:
            assert folder.exists()  # Another run was faster.
    except subprocess.TimeoutExpired:
        pytest.skip(f"the npm registry did not answer within {_INSTALL_SECONDS} s")
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
