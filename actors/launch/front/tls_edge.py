"""Installs and starts the edge: an HAProxy of this product that serves HTTPS, WSS and gRPC over TLS on one port.

Implements: design, "Outside face"; `--tls` in a local run; `python -m actors.launch.front.tls_edge FOLDER` on a machine
of a cluster. launch/FRONT.md explains the parts. Not here: the configuration's content (front/tls_edge_config.py), the
front (front/installation.py).
"""

import os
import resource
import socket
import ssl
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from actors.clock import SystemClock
from actors.config import Config, ConfigError, ServeConfig
from actors.config_loader import load
from actors.launch.front import installation as front
from actors.launch.front.config import ConfigurationDiffers, bracketed, connections
from actors.launch.front.process import FolderNotOurs, close_folder
from actors.launch.front.tls_edge_config import EdgeSettings, certificate_mistake, render
from actors.local_servers.certificates import own_certificate
from actors.local_servers.child_processes import Child
from actors.local_servers.private_files import write_private
from actors.local_servers.server_files import server_environment
from actors.provider_config import browser_origin

CONFIGURATION = "edge.cfg"
_CERTIFICATE = "edge.pem"
_LIFE_DAYS = 820  # Apple's systems refuse a certificate that is valid for more than 825 days.
_CHECK_SECONDS = 20
_PROBE_SECONDS = 0.5
_ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound.


@dataclass(frozen=True, slots=True)
class Edge:
    """An installed edge. ca_file: what clients must trust; None: the certificate was given."""

    command: tuple[str, ...]
    url: str
    ca_file: Path | None


def install(folder: Path, config: Config, certificates: Path | None) -> Edge:
    """Write the edge's configuration into the front's folder, and let HAProxy check it. Raises FrontUnusable.

    folder: that of front.install, which was called before. certificates: folder where an own certificate is kept; None:
    serve.tls_certificate_file is set.
    """
    serve, ca_file = config.serve, None
    certificate = serve.tls_certificate_file
    if certificate is not None and (mistake := certificate_mistake(certificate)) is not None:
        raise front.FrontUnusable(mistake)
    if certificate is None:
        assert certificates is not None, "the caller has checked that a certificate is configured"
        own = own_certificate(certificates, _names(serve), "Ledger Gateway", _LIFE_DAYS, SystemClock().now())
        certificate, ca_file = folder / _CERTIFICATE, own.ca_file
        write_private(certificate, (own.chain + own.key).decode("ascii"))
    files_max = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    try:
        connections_max = connections(serve.connections_max, 1 << 20 if files_max < 0 else files_max)
    except ConfigurationDiffers as error:
        raise front.FrontUnusable(str(error)) from error
    text = render(
        EdgeSettings(
            host=serve.host,
            port=serve.tls_port,
            certificate=str(certificate.expanduser().absolute()),
            folder=str(folder),
            pages=str(folder / front.PAGES),
            connections_max=connections_max,
            request_seconds_max=serve.request_seconds_max,
            threads=max(1, min(4, (os.cpu_count() or 1) // 2)),
            trusted_proxies=config.identity.trusted_proxies,
        )
    )
    path = folder / CONFIGURATION
    write_private(path, text)
    command = (front.haproxy_program(), "-db", "-f", str(path))
    _check(command)
    return Edge(command, https_url(serve), ca_file)


def https_url(serve: ServeConfig) -> str:
    """Return the URL of the edge for clients on this machine."""
    host = "127.0.0.1" if serve.host in _ANY_ADDRESS else serve.host
    return browser_origin(f"https://{bracketed(host)}:{serve.tls_port}")


def child(edge: Edge, serve: ServeConfig, logs: Path) -> Child:
    """Return the edge as a process for a Supervisor, which starts it again if it dies."""
    host = "127.0.0.1" if serve.host in _ANY_ADDRESS else serve.host
    # The handshake alone: another server on the port, which keeps HAProxy from it, must not pass for the edge.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def is_ready(_pid: int) -> bool:
        with (
            socket.create_connection((host, serve.tls_port), _PROBE_SECONDS) as connection,
            context.wrap_socket(connection),
        ):
            return True

    return Child(
        name="edge",
        command=edge.command,
        log_path=logs / "edge.log",
        is_ready=is_ready,
        environment=server_environment(),
    )


def _names(serve: ServeConfig) -> list[str]:
    """Return the names that clients may use for this machine, as far as its settings tell."""
    named = [socket.gethostname()]
    if serve.host not in _ANY_ADDRESS:
        named.append(serve.host)
    public = urlsplit(serve.public_url).hostname if serve.public_url else None
    return [*named, public] if public else named


def _check(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - our own program.
            [*command, "-c"], capture_output=True, text=True, timeout=_CHECK_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise front.FrontUnusable(f"HAProxy cannot be run: {error}") from error
    if done.returncode != 0:
        raise front.FrontUnusable(f"HAProxy cannot serve TLS: {(done.stderr or done.stdout).strip()}")


def _run(folder: Path) -> NoReturn:
    """Become the edge of this machine. Raises what `install` raises, and ConfigError."""
    config = load(os.environ).config
    if not config.serve.tls:
        raise ConfigError("serve.tls: set LEDGER_SERVE__TLS=true, for the front of this machine too")
    if config.serve.tls_certificate_file is None:
        raise ConfigError("serve.tls_certificate_file: a cluster needs it; set LEDGER_SERVE__TLS_CERTIFICATE_FILE")
    close_folder(folder)
    if not (folder / front.PAGES).is_dir():
        raise front.FrontUnusable(f"the front is not installed in {folder}: run `python -m actors.launch.front` first")
    edge = install(folder, config, None)
    sys.stdout.write(f"serving HTTPS, WSS and gRPC on port {config.serve.tls_port}\n")
    sys.stdout.flush()
    os.execv(edge.command[0], edge.command)  # noqa: S606 - our own program, no shell.


def _main(arguments: list[str]) -> int:
    """Serve TLS on this machine, before the front in the given folder. Settings come from the environment."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m actors.launch.front.tls_edge FOLDER\n")
        return 2
    try:
        _run(Path(arguments[0]).expanduser().absolute())
    except (ConfigError, FolderNotOurs, front.FrontUnusable, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
