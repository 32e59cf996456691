"""Reads from the kernel what passed each link of a running product: bytes, and writes of data.

`ss` (iproute2) tells both of each TCP connection. A link is known by the ports on which its end listens. Connections
that end between two readings are missing, so a measurement keeps its own open.
"""

import re
import subprocess
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import psutil

_FIGURES = {
    "sent": re.compile(r"\bbytes_sent:(\d+)"),
    "received": re.compile(r"\bbytes_received:(\d+)"),
    "writes": re.compile(r"\bdata_segs_out:(\d+)"),
    "reads": re.compile(r"\bdata_segs_in:(\d+)"),
}
_PID = re.compile(r"\bpid=(\d+),")
_LOCAL = re.compile(r"\s*\S+\s+\S+\s+(\S+):(\d+)\s+(\S+):(\d+)")


class Passed(NamedTuple):
    """Counts at the listening end of a link. writes, reads: segments with data, slightly more than messages."""

    sent: int = 0
    received: int = 0
    writes: int = 0
    reads: int = 0

    def since(self, before: "Passed") -> "Passed":
        return Passed(*(now - then for now, then in zip(self, before, strict=True)))


def ports_of(pids: Iterable[int]) -> set[int]:
    """Return the TCP ports on which these processes listen."""
    found: set[int] = set()
    for pid in pids:
        try:
            connections = psutil.Process(pid).net_connections("tcp")
        except psutil.Error:
            continue
        found |= {each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN and each.laddr}
    return found


def passed(links: Mapping[str, set[int]]) -> dict[str, Passed]:
    """Return what has passed each link so far, by its name. links: the ports of each."""
    done = subprocess.run(["ss", "-tinH", "state", "established"], capture_output=True, text=True, check=True)
    return read(done.stdout, links)


def read(text: str, links: Mapping[str, set[int]]) -> dict[str, Passed]:
    """Read the output of `ss -tinH`: a line of addresses, then an indented line of figures, for each connection."""
    of_port = {port: name for name, ports in links.items() for port in ports}
    sums: dict[str, Counter[str]] = {name: Counter() for name in links}
    name: str | None = None
    for line in text.splitlines():
        if not line[:1].isspace():
            match = _LOCAL.match(line)
            name = of_port.get(int(match[2])) if match else None
        elif name is not None:
            for figure, pattern in _FIGURES.items():
                if (seen := pattern.search(line)) is not None:
                    sums[name][figure] += int(seen[1])
    return {name: Passed(**{figure: count[figure] for figure in _FIGURES}) for name, count in sums.items()}


def copied_bytes(pids: Collection[int]) -> dict[str, int]:
    """Return the bytes that the kernel has copied into and out of these processes so far, by the TCP connections' ends.

    Not in it: Unix sockets, pipes, files, and what a process copies within itself.
    """
    done = subprocess.run(["ss", "-tinpH", "state", "established"], capture_output=True, text=True, check=True)
    return copied_of(done.stdout, pids)


def copied_of(text: str, pids: Collection[int]) -> dict[str, int]:
    """Read the output of `ss -tinpH`, as `read` does; a connection that several of the processes share counts once."""
    found: dict[str, int] = {}
    end: str | None = None
    for line in text.splitlines():
        if not line[:1].isspace():
            match = _LOCAL.match(line)
            is_theirs = any(int(pid) in pids for pid in _PID.findall(line))
            end = ":".join(match.groups()) if match is not None and is_theirs else None
        elif end is not None:
            seen = (_FIGURES[figure].search(line) for figure in ("sent", "received"))
            found[end] = sum(int(each[1]) for each in seen if each is not None)
    return found


def copied_since(before: Mapping[str, int], now: Mapping[str, int]) -> int:
    """Return the bytes between two readings. Of a connection that has ended in between, nothing is known: a measurement
    keeps its own open."""
    return sum(size - before.get(end, 0) for end, size in now.items())
