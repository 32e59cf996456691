"""Fixtures: a chain inside the test process, sealed step by step, and devnode processes."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from .faulty import Faulty
from .leaders import LedNode
from .pad import Pad

START_SECONDS_MAX = 90


@pytest.fixture
def led(tmp_path: Path) -> Iterator[LedNode]:
    node = LedNode(tmp_path)
    yield node
    node.close()


@pytest.fixture
def pad(tmp_path: Path) -> Iterator[Pad]:
    pad = Pad(tmp_path)
    yield pad
    pad.local.close()


class Process:
    """A devnode started from the command line on a free port."""

    def __init__(self, data_dir: Path, *flags: str) -> None:
        self.data_dir = data_dir
        ready = data_dir.with_suffix(".ready")
        command = [sys.executable, "-m", "devnode", "--http-port", "0", "--data-dir", str(data_dir)]
        self.popen = subprocess.Popen([*command, "--slot-ms", "20", "--ready-file", str(ready), *flags])
        deadline = time.monotonic() + START_SECONDS_MAX
        while not ready.exists():
            assert self.popen.poll() is None, f"devnode ended with {self.popen.returncode}"
            assert time.monotonic() < deadline, "devnode did not become ready"
            time.sleep(0.01)
        facts = orjson.loads(ready.read_bytes())
        ready.unlink()
        self.url: str = facts["url"]
        self.facts = facts

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait()

    def terminate(self) -> int:
        self.popen.terminate()
        return self.popen.wait(timeout=60)


StartDevnode = Callable[..., Process]


@pytest.fixture
def start_devnode(tmp_path: Path) -> Iterator[StartDevnode]:
    """Starts a devnode with a folder name and flags; kills all that still run at the end of the test."""
    started: list[Process] = []

    def start(name: str = "chain", *flags: str) -> Process:
        process = Process(tmp_path / name, *flags)
        started.append(process)
        return process

    yield start
    for process in started:
        if process.popen.poll() is None:
            process.kill()


@pytest.fixture(scope="module")
def running_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faulty]:
    process = Process(tmp_path_factory.mktemp("node") / "chain")
    yield Faulty(process)
    assert process.terminate() == 0


@pytest.fixture
def node(running_node: Faulty) -> Iterator[Faulty]:
    """One devnode process for all tests of a file; each test finds it without faults."""
    yield running_node
    running_node.clear()
