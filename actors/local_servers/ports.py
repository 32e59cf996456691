"""Checks that a port is free, and names the process that uses it otherwise.

Implements: design, "Measured facts" (a taken port is reported before anything is started).
"""

import errno
import socket
from collections.abc import Iterable
from dataclasses import dataclass

import psutil


class PortTaken(Exception):
    """Ports are taken; each line of the text names one, the process that uses it, and the setting that changes it."""


def port_is_free(host: str, port: int) -> bool:
    """Return whether a server could listen on this address now. Port 0 ("any port") is always free.

    Raises OSError when the host itself is not an address of this machine.
    """
    for family, kind, protocol, _, address in socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    ):
        with socket.socket(family, kind, protocol) as probe:
            # As servers do, so that connections that were closed a moment ago do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                probe.bind(address)
                probe.listen(1)  # With SO_REUSEADDR two sockets may bind on some systems; only one can listen.
            except OSError as error:
                if error.errno in (errno.EADDRINUSE, errno.EACCES):
                    return False
                raise
    return True


@dataclass(frozen=True)
class NeededPort:
    """purpose: what listens there. setting: the name of the setting that changes the port. wanted: its new value.
    host_setting: the name of the one that changes the host; None: there is none."""

    host: str
    port: int
    purpose: str
    setting: str
    wanted: str = "a free port"
    host_setting: str | None = None


def require_free_ports(needed: Iterable[NeededPort]) -> None:
    """Raise PortTaken unless all can be listened at. Its text has a line for each setting that must be changed."""
    faults: dict[str, str] = {}  # By setting: one may stand for several ports.
    for one in needed:
        if one.setting not in faults and (fault := _why_not(one)) is not None:
            faults[one.setting] = fault
    if faults:
        raise PortTaken("\n".join(faults.values()))


def _why_not(needed: NeededPort) -> str | None:
    place = f"{needed.host}:{needed.port}"
    try:
        if port_is_free(needed.host, needed.port):
            return None
    except (OSError, UnicodeError) as error:  # The second one of a name that no name server could be asked for.
        reason = error.strerror if isinstance(error, OSError) else "no host has this name"
        see = needed.host_setting or needed.setting
        return f"{place}: cannot listen there for {needed.purpose}: {reason}; see {see}"
    holder = _holder(needed.port)
    if holder is None and needed.port < 1024:
        return f"{place}: ports below 1024 are for root; set {needed.setting} to a higher one for {needed.purpose}"
    return (
        f"{place}: taken{f' by {holder}' if holder else ''}, and needed for {needed.purpose}: "
        f"stop that process, or set {needed.setting} to {needed.wanted}"
    )


def _holder(port: int) -> str | None:
    """Return name and id of the process that listens on the port, where the system shows it."""
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr[1:2] == (port,) and connection.pid:
                return f"{psutil.Process(connection.pid).name()} (process {connection.pid})"
    except psutil.Error:
        return None
    return None


def free_port_from(host: str, wanted: int) -> int:
    """Return the wanted port where it is free, else one that the system gives."""
    if port_is_free(host, wanted):
        return wanted
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
