"""Guards what Ray is started with, and that everything started is ended."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from actors.config import ServeConfig
from actors.launch import cluster


def test_two_instances_share_no_port_and_no_file() -> None:
    """Rule: two instances on one machine collide until each has its own ports; one setting moves them all."""
    one = cluster.ray_environment(ServeConfig(internal_port_first=21_000), Path("/run/a"))
    two = cluster.ray_environment(ServeConfig(internal_port_first=22_000), Path("/run/b"))
    own = [name for name in one if ("_PORT" in name and "QUARANTINE" not in name) or "FILE" in name or "SOCKET" in name]
    assert len(own) >= 11
    assert all(one[name] != two[name] for name in own)


def test_no_request_line_reaches_a_log() -> None:
    """Rule (hostile input 9): an API key in a URL is in no log; HAProxy's own would have it."""
    target = cluster.ray_environment(ServeConfig(), Path("/run"))["RAY_SERVE_HAPROXY_LOG_TARGET"]
    assert target.split()[0] == "/dev/null"


def test_processes_that_ignore_the_polite_signal_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: Ctrl-C leaves no process behind."""
    monkeypatch.setattr(cluster, "_TERMINATE_SECONDS", 0.5)
    deaf = "import signal,sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('x', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE, stdin=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.read(1)
        cluster.end_processes([psutil.Process(child.pid)])
        assert not psutil.pid_exists(child.pid)


def test_the_process_table_names_this_process() -> None:
    """Rule: the ready file gives the process id of everything started, by name, no two alike."""
    table = cluster.process_table()
    assert table["launcher"] == psutil.Process().pid
    assert len(set(table.values())) == len(table)
