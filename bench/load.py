"""Runs one step of load on one address: with wrk where the machine has it, else with the Python generator.

Not here: the systems under load (systems.py), the comparison of figures (figures.py).
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import orjson

from bench.figures import Load

_LUA = Path(__file__).with_name("calls.lua")
_ROOT = Path(__file__).parents[1]
_MARK = "figures "
_GRACE_SECONDS = 60


class LoadFailed(Exception):
    """The generator failed; the text is its own output."""


def tool() -> str:
    """Return the name of the generator that this machine uses for timed steps."""
    return "wrk" if shutil.which("wrk") else "python"


def timed(url: str, api_key: str, connections: int, seconds: float, asked: Mapping[str, str] | None = None) -> Load:
    """Load for this many seconds. wrk breaks off calls in flight at the end and does not count them.

    asked: BENCH_PATH and BENCH_BODY, where another request than the usual call is to be sent; needs wrk.
    """
    wrk = shutil.which("wrk")
    if wrk is None and asked:
        raise LoadFailed("requests of another form are sent by wrk alone, which this machine does not have")
    if wrk is None:
        return _run(_generator(url, connections, "--seconds", str(seconds)), api_key, connections, seconds, "python")
    # One thread sends 100,000 requests a second; a second one would take a core from the measured system.
    whole = max(1, round(seconds))
    command = (wrk, "-t1", f"-c{connections}", f"-d{whole}s", "--timeout", "10s", "-s", str(_LUA), url)
    return _run(command, api_key, connections, whole, "wrk", asked)


def counted(url: str, api_key: str, connections: int, calls: int) -> Load:
    """Send exactly this many calls, and wait for each answer."""
    return _run(_generator(url, connections, "--calls", str(calls)), api_key, connections, 600, "python")


def _generator(url: str, connections: int, *more: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "bench.generator", url, "--connections", str(connections), *more)


def _run(
    command: tuple[str, ...],
    api_key: str,
    connections: int,
    seconds: float,
    name: str,
    asked: Mapping[str, str] | None = None,
) -> Load:
    done = subprocess.run(
        command,
        env={**os.environ, "BENCH_API_KEY": api_key, **(asked or {})},
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=seconds + _GRACE_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise LoadFailed(f"{command[0]} ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-800:]}")
    return parse(done.stdout, name, connections)


def parse(output: str, name: str, connections: int) -> Load:
    """Read the line of figures that both generators print. Raises LoadFailed when there is none."""
    for line in output.splitlines():
        if line.startswith(_MARK):
            figures = orjson.loads(line.removeprefix(_MARK))
            broken = sum(figures.get(kind, 0) for kind in ("connect", "read", "write", "timeout", "lost"))
            return Load(
                tool=name,
                connections=connections,
                seconds=figures["duration_us"] / 1e6,
                answered=figures["requests"] - figures["refused"],
                errors=figures["refused"] + broken,
                latency_p50_ms=figures["p50_us"] / 1e3,
                latency_p99_ms=figures["p99_us"] / 1e3,
            )
    raise LoadFailed(f"no figures in what {name} printed: {output.strip()[-400:]}")
