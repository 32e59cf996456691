"""Opens the ports of a devnode.

Implements: the HTTP port, a second port for WebSockets, and the UDP port of the TPU. web3.js 1.x looks for WebSockets
one above the HTTP port, so that is the default of the second port. Both ports serve the same. If the default of the
second port is taken, the node starts without it, because the HTTP port serves WebSockets too.
Not here: serving (app.py).
"""

import contextlib
import errno
import logging
import socket

logger = logging.getLogger("devnode")
BACKLOG = 2_048
PORT_MAX = 65_535
_PAIR_TRIES_MAX = 20  # A try fails only if the port above a free one is taken.


class PortTaken(Exception):
    """Listening on the address failed; the text says why."""


def open_ports(host: str, http_port: int, ws_port: int | None) -> list[socket.socket]:
    """Open the HTTP socket and, if there is one, the second socket for WebSockets. Raises PortTaken.

    http_port: 0 is a free port. ws_port: None is the port above, the HTTP port means no second port, 0 a free port.
    """
    if http_port == 0 and ws_port is None:
        return _free_pair(host)
    first = _listen(host, http_port, "--http-port")
    try:
        return [first, *_second(host, port_of(first), ws_port)]
    except PortTaken:
        first.close()
        raise


def open_udp(host: str, port: int, flag: str) -> socket.socket:
    """Bind a UDP socket; port 0 is a free port. Raises PortTaken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_DGRAM)
    try:
        listening.setblocking(False)
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise PortTaken(
            f"cannot listen on {host}:{port}/udp ({error.strerror}); give another {_hint(error, flag)}"
        ) from error
    return listening


def address_text(host: str, port: int) -> str:
    """host:port for URLs and node lists, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def port_of(listening: socket.socket) -> int:
    port: int = listening.getsockname()[1]
    return port


def _second(host: str, http_port: int, ws_port: int | None) -> list[socket.socket]:
    if ws_port is not None:
        return [] if ws_port == http_port else [_listen(host, ws_port, "--ws-port")]
    if http_port == PORT_MAX:
        return []
    try:
        return [_listen(host, http_port + 1, "--ws-port")]
    except PortTaken as taken:
        logger.warning("WebSockets are served on port %d only, and web3.js 1.x needs wsEndpoint: %s", http_port, taken)
        return []


def _free_pair(host: str) -> list[socket.socket]:
    for _ in range(_PAIR_TRIES_MAX):
        first = _listen(host, 0, "--http-port")
        if port_of(first) < PORT_MAX:
            with contextlib.suppress(PortTaken):
                return [first, _listen(host, port_of(first) + 1, "--ws-port")]
        first.close()
    raise PortTaken(f"no two neighbouring ports are free on {host}; give --http-port and --ws-port")


def _listen(host: str, port: int, flag: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise PortTaken(
            f"cannot listen on {host}:{port} ({error.strerror}); give another {_hint(error, flag)}"
        ) from error
    return listening


def _hint(error: OSError, flag: str) -> str:
    """The flag to change: --host if the machine does not have the address, because then no port would work."""
    return "--host" if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL else flag
