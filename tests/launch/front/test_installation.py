"""Installing the front, its error pages, and the check that Serve is the one that it was made for."""

import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import ray
from ray.serve._private import haproxy, replica

from actors.errors import Err
from actors.launch.front import installation as front
from actors.launch.front.config import PAGE_CODES
from actors.launch.front.installation import FrontUnusable
from tests.launch.fronts import SECRET, headers_of, settled


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short enough for the sockets in it."""
    with tempfile.TemporaryDirectory(prefix="front-") as name:
        yield Path(name) / "f"


@pytest.mark.parametrize("code", PAGE_CODES)
def test_a_page_is_an_error_of_the_interface(code: int) -> None:
    """Interface, "HTTP statuses and bodies": JSON, a code, a message, and when to ask again where that helps."""
    head, _, body = front.page(code).partition(b"\r\n\r\n")
    headers = headers_of(head)
    assert head.startswith(b"HTTP/1.1 %d " % code)
    assert headers[b"content-type"] == b"application/json"
    assert int(headers[b"content-length"]) == len(body)
    error = json.loads(body)["error"]
    assert error["message"]
    marks = error["data"] if type(error["code"]) is int else error
    assert marks["constant"] in Err.__members__ and marks["source"] == "gateway"
    hint = error.get("data", {}).get("retry_after_secs")
    assert headers.get(b"retry-after") == (b"%d" % hint if code in (429, 502, 503, 504) else None)


@pytest.mark.parametrize("code", PAGE_CODES)
def test_a_page_for_grpc_is_a_status_without_a_body(code: int) -> None:
    """Interface, "gRPC streaming": a body, or another status of HTTP, is an error of the protocol to many clients."""
    head, _, body = front.grpc_page(code).partition(b"\r\n\r\n")
    headers = headers_of(head)
    assert head.startswith(b"HTTP/1.1 200 ") and body == b"" and headers[b"content-length"] == b"0"
    assert headers[b"content-type"] == b"application/grpc"
    wanted = {b"8": (413, 429), b"14": (408, 502, 503, 504)}
    assert code in wanted.get(headers[b"grpc-status"], (code,)) and headers[b"grpc-status"] != b"0"
    assert {408: b"14", 429: b"8", 503: b"14"}.get(code, headers[b"grpc-status"]) == headers[b"grpc-status"]
    assert any(words in headers[b"grpc-message"] for words in (b"try again", b"send", b"call a method"))


def test_a_503_of_the_front_is_a_json_rpc_error() -> None:
    """Interface: 503 is -32003 with `retry_after_secs`, for a start, an outage or overload."""
    body = json.loads(front.page(503).partition(b"\r\n\r\n")[2])
    assert (body["jsonrpc"], body["id"], body["error"]["code"]) == ("2.0", None, -32003)
    assert body["error"]["data"]["retry_after_secs"] == 5


@pytest.mark.threat(58)
def test_what_is_installed_is_closed_to_other_users(folder: Path) -> None:
    """Threat 58: the token is in it. It is not the cluster's secret, which is in none of the files."""
    program = front.install(folder, settled(), "0.0.0.0")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(program.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "front.json").stat().st_mode) == 0o600
    texts = [path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file()]
    assert not any(SECRET in text for text in texts)
    assert front.install(folder, settled(), "0.0.0.0") == program, "a second start on one machine"


def test_a_folder_without_room_for_sockets_is_refused(tmp_path: Path) -> None:
    """The message says how long its name may be."""
    with pytest.raises(FrontUnusable, match="at most 29 characters"):
        front.install(tmp_path / ("x" * 60), settled(), None)


def test_this_serve_is_the_one_that_the_front_was_made_for(folder: Path) -> None:
    """What a start asks: Serve renders, the rules fit, and HAProxy reads the result without a complaint."""
    front.check(front.install(folder, settled(), None))


@pytest.mark.parametrize(
    ("holder", "name", "changed", "words"),
    [
        (ray, "__version__", ("2.60", "2.61"), "needs 2.60"),
        (replica, "add_port_to_grpc_server", None, "ports of its replicas"),
        (haproxy, "HAProxyApi", None, "HAProxy mode"),
        (haproxy, "HAPROXY_CONFIG_TEMPLATE", ("frontend prometheus", "frontend x"), "in section"),
    ],
)
def test_another_serve_is_refused_with_a_reason(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    holder: object,
    name: str,
    changed: tuple[str, str] | None,
    words: str,
) -> None:
    """One sentence before anything is started, rather than a HAProxy that is started again and again."""
    program = front.install(folder, settled(), None)
    if changed is None:
        monkeypatch.delattr(holder, name)
    else:
        monkeypatch.setattr(holder, name, getattr(holder, name).replace(*changed))
    with pytest.raises(FrontUnusable, match=words):
        front.check(program)


def test_addresses_are_known_where_haproxy_is_ours_or_is_none(folder: Path) -> None:
    """Serve's own HAProxy tells no addresses: behind it nobody must be locked out for what another one did."""
    program = str(front.install(folder, settled(), None))
    assert front.peers_are_clients({})
    assert front.peers_are_clients({"RAY_SERVE_ENABLE_HA_PROXY": "1", "RAY_SERVE_HAPROXY_BINARY_PATH": program})
    assert not front.peers_are_clients({"RAY_SERVE_ENABLE_HA_PROXY": "1"})
    assert not front.peers_are_clients(
        {"RAY_SERVE_ENABLE_HA_PROXY": "1", "RAY_SERVE_HAPROXY_BINARY_PATH": "/usr/sbin/haproxy"}
    )


def prepared(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """As cluster.yaml prepares each machine."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LEDGER_", "RAY_"))}
    return subprocess.run(
        [sys.executable, "-m", "actors.launch.front", str(folder)],
        env=kept | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=Path(front.__file__).parents[3],
    )


def test_a_machine_of_a_cluster_is_prepared_by_one_command(folder: Path) -> None:
    """It leaves the program where RAY_SERVE_HAPROXY_BINARY_PATH points to; without the shared secret it says so."""
    without = prepared(folder)
    assert without.returncode == 1
    assert "LEDGER_STORAGE__CLUSTER_SECRET" in without.stderr
    done = prepared(folder, LEDGER_STORAGE__CLUSTER_SECRET=SECRET, LEDGER_SERVE__CONNECTIONS_MAX="1000")
    assert done.returncode == 0, done.stderr
    settings = json.loads((folder / "front.json").read_text(encoding="utf-8"))
    assert (settings["host"], settings["connections_max"]) == (None, 1_000)
    assert os.access(folder / "haproxy", os.X_OK)


def test_the_haproxy_of_a_ray_that_is_gone_is_ended_and_no_other(folder: Path) -> None:
    """Or it would hold the ports, and serve a list of replicas that nobody changes any more."""
    sleeper = "import sys, time; sys.stdout.write('.'); sys.stdout.flush(); time.sleep(60)"
    places = ("node/haproxy.cfg", "edge.cfg", "node/other.cfg")
    paths = [str(folder / place) for place in places]
    # A shell that ends at once leaves its child to process 1.
    script = 'for path in "$@"; do "$0" -c "$CODE" "$path" >/dev/null 2>&1 & echo $!; done'
    told = subprocess.run(
        ["/bin/sh", "-c", script, sys.executable, *paths],
        env={**os.environ, "CODE": sleeper},
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    left, *others = (psutil.Process(int(pid)) for pid in told.stdout.split())
    child = subprocess.Popen([sys.executable, "-c", sleeper, paths[0]], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        child.stdout.read(1)
        assert left.ppid() == 1
        assert front.end_orphans(folder) == 1
        assert not left.is_running()
        assert child.poll() is None
        assert all(process.is_running() for process in others)
        assert front.end_orphans(folder) == 0
    finally:
        child.kill()
        child.wait()
        for process in others:
            process.kill()
