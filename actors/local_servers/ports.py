"""Checks that a port is free, and names the process that uses it otherwise.

Implements: design, section 2 (a taken port is reported before anything is started).
"""

import errno
import socket

import psutil


class PortTaken(Exception):
    """A port is taken; the text names the port, the process that uses it, and the setting that changes it."""


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


def require_free_port(host: str, port: int, purpose: str, setting: str) -> None:
    """Raise PortTaken unless `purpose` can listen there. setting: the name of the setting that changes the port."""
    try:
        if port_is_free(host, port):
            return
    except OSError as error:
        raise PortTaken(f"{host}:{port}: cannot listen there for {purpose}: {error.strerror}; see {setting}") from error
    holder = _holder(port)
    if holder is None and port < 1024:
        raise PortTaken(f"{host}:{port}: ports below 1024 are for root; set {setting} to a higher one for {purpose}")
    raise PortTaken(
        f"{host}:{port}: taken{f' by {holder}' if holder else ''}, and needed for {purpose}: "
        f"stop that process, or set {setting} to a free port"
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
