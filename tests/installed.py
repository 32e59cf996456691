"""Packages of others, as their registries ship them, in folders that are kept between runs.

Registries take their time, so a session that needs them begins with it, in the background. Of several workers one
installs, and the others wait.
"""

import fcntl
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

_INSTALL_SECONDS = 240


class Installed:
    """A folder that `install` has filled.

    name: another one for other contents. install: puts them into the folder that it is given, which is moved then.
    """

    def __init__(self, name: str, install: Callable[[Path], None]) -> None:
        self._name, self._install = name, install
        self._made: Future[Path] | None = None

    def begin(self, config: pytest.Config) -> None:
        """In the background; once a session."""
        if self._made is None and not config.option.collectonly:
            cache = getattr(config, "cache", None)  # Missing when pytest runs with `-p no:cacheprovider`.
            base = cache.mkdir("clients") if cache is not None else Path(tempfile.mkdtemp(prefix="clients-"))
            pool = ThreadPoolExecutor(1)
            self._made = pool.submit(self._make, base)
            pool.shutdown(wait=False)

    def folder(self, config: pytest.Config) -> Path:
        """Once it is there. Skips the test with a reason where the registry is out of reach."""
        self.begin(config)
        assert self._made is not None
        return self._made.result()

    def _make(self, base: Path) -> Path:
        folder = base / self._name
        with (base / f"{self._name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                fresh = Path(tempfile.mkdtemp(prefix="installing-", dir=base))  # A run that breaks off leaves no half.
                try:
                    self._install(fresh)
                    fresh.rename(folder)
                finally:
                    shutil.rmtree(fresh, ignore_errors=True)
        return folder


def run_installer(command: Sequence[str], folder: Path, registry: str, out_of_reach: Collection[str]) -> None:
    """Run it in the folder. Skips where it says one of these words, which are about a registry that is out of reach;
    anything else that goes wrong is a failure."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"the {registry} registry did not answer within {_INSTALL_SECONDS} s")
    if done.returncode != 0 and any(word in done.stderr for word in out_of_reach):
        pytest.skip(f"the {registry} registry is out of reach: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
