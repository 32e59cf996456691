"""The network of machines on one: a namespace for each, joined by a bridge. Needs root and the program ip.

Its names and addresses are the same for all runs of this machine, so one run has it at a time, and others wait.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

STORES, TESTS = "10.77.0.1", "10.77.0.2"
_BRIDGE, PREFIX = "lgbr", "lg"  # Of the interfaces; the namespaces are lg-net, lg-0, lg-1, lg-2.


def why_not() -> str | None:
    """Return why there can be no machines here. None: there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "the program ip is missing (Debian: apt-get install iproute2)"
    made = subprocess.run(["ip", "netns", "add", f"{PREFIX}-try"], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return f"network namespaces are not allowed: {made.stderr.strip()}"
    _ip("netns", "del", f"{PREFIX}-try")
    return None


def _ip(*words: str, check: bool = True) -> None:
    subprocess.run(["ip", *words], capture_output=True, text=True, check=check, timeout=20)


def address_of(machine: int) -> str:
    return f"10.77.0.{10 + machine}"


@contextlib.contextmanager
def network_alone() -> Iterator[None]:
    """Wait until no other run has the network. A killed run has it no more, but what it left is still there."""
    with (Path(tempfile.gettempdir()) / f"{PREFIX}-network.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make_network(machines: int) -> None:
    """Make a namespace for each machine and one for the stores, joined by a bridge, and a link from here."""
    _ip("netns", "add", f"{PREFIX}-net")
    inside = ("-n", f"{PREFIX}-net")
    _ip(*inside, "link", "set", "lo", "up")
    _ip(*inside, "link", "add", _BRIDGE, "type", "bridge")
    _ip(*inside, "addr", "add", f"{STORES}/24", "dev", _BRIDGE)
    _ip(*inside, "link", "set", _BRIDGE, "up")
    _ip("link", "add", f"{PREFIX}t", "type", "veth", "peer", "name", "vt", "netns", f"{PREFIX}-net")
    _ip(*inside, "link", "set", "vt", "master", _BRIDGE, "up")
    _ip("addr", "add", f"{TESTS}/24", "dev", f"{PREFIX}t")
    _ip("link", "set", f"{PREFIX}t", "up")
    for machine in range(machines):
        name = f"{PREFIX}-{machine}"
        _ip("netns", "add", name)
        _ip(*inside, "link", "add", f"v{machine}", "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip(*inside, "link", "set", f"v{machine}", "master", _BRIDGE, "up")
        _ip("-n", name, "addr", "add", f"{address_of(machine)}/24", "dev", "eth0")
        _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", name, "link", "set", "eth0", "up")
        _ip("-n", name, "route", "add", "default", "via", STORES)


def remove_network(machines: int) -> None:
    for name in ("net", *map(str, range(machines))):
        _ip("netns", "del", f"{PREFIX}-{name}", check=False)
    _ip("link", "del", f"{PREFIX}t", check=False)


@contextlib.contextmanager
def without_link(machine: int) -> Iterator[None]:
    """Cut the machine's link: nothing is told to anybody, packets are lost."""
    link = ("-n", f"{PREFIX}-net", "link", "set", f"v{machine}")
    _ip(*link, "down")
    try:
        yield
    finally:
        _ip(*link, "up")
