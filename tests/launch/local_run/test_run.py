"""Guards how a run refuses to start, and the file that tells others that it has."""

import socket
from pathlib import Path
from typing import Any

import pytest

from actors.launch.local_run import run as run_module
from actors.launch.local_run import start_checks
from actors.launch.local_run.run import Options, Parts, data_path, run, settings
from actors.local_servers.datadir import DataDir
from actors.storage.connections import connect_redis
from bench.product import free_ports


def _unused(*_: Any) -> Any:
    raise AssertionError("nothing may be started")


PARTS = Parts(_unused, _unused, _unused, _unused, _unused)


@pytest.fixture(autouse=True)
def no_signal_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module.supervisor_process, "accept_signals", lambda _: None)


def options(tmp_path: Path, **overrides: str) -> Options:
    return Options(tmp_path / "data", False, None, None, overrides)


@pytest.mark.parametrize(
    "setting",
    [
        "LEDGER_SERVE__HTTP_PORT",
        "LEDGER_SERVE__INTERNAL_PORT_FIRST",
        "LEDGER_DEVNODE__HTTP_PORT",
        "LEDGER_TELEMETRY__METRICS_PORT",
    ],
)
def test_a_taken_port_is_named_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: str
) -> None:
    """Rule: a taken port: a clear message that names it and its setting, and a non-zero exit."""
    ports = free_ports()
    port = str(ports.first + 990)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(port)))
        taken.listen(1)
        assert run(options(tmp_path, **{**ports.settings(), setting: port}), PARTS) == 1
    told = capsys.readouterr().err
    assert port in told and setting in told


def test_the_port_after_http_is_for_websockets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rule: web3.js 1.x opens its WebSocket there; a run that cannot listen there says so, and gRPC stays away."""
    free = free_ports()
    given = free.settings()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free.http + 1))
        taken.listen(1)
        assert run(options(tmp_path, **given), PARTS) == 1
    told = capsys.readouterr().err
    assert str(free.http + 1) in told and "WebSockets" in told
    assert run(options(tmp_path, **{**given, "LEDGER_SERVE__GRPC_PORT": str(free.http + 1)}), PARTS) == 1
    told = capsys.readouterr().err
    assert f"port {free.http + 1} is wanted for WebSockets and for gRPC" in told and "LEDGER_SERVE__GRPC_PORT" in told
    assert run(options(tmp_path, **{**given, "LEDGER_SERVE__HTTP_PORT": "65535"}), PARTS) == 1
    assert "serve.http_port: 65535" in capsys.readouterr().err


def test_grpc_keeps_clear_of_the_other_ports_by_default(tmp_path: Path) -> None:
    """Rule: `--http-port` moves all three, so that two runs on one machine need one option each."""
    assert settings(options(tmp_path)).config.serve.grpc_port == 8082
    moved = settings(options(tmp_path, LEDGER_SERVE__HTTP_PORT="9000")).config.serve
    assert (moved.http_port, moved.grpc_port) == (9_000, 9_002)


def test_a_second_run_hears_of_the_folder_and_of_every_port_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rule: all that a second run must change is told together; --fresh deletes nothing while the run cannot start."""
    free, path = free_ports(), tmp_path / "data"
    with DataDir(path) as data, socket.socket() as http, socket.socket() as first:
        (data.logs / "kept").write_text("")
        for taken, port in ((http, free.http), (first, free.first)):
            taken.bind(("127.0.0.1", port))
            taken.listen(1)
        assert run(Options(path, True, None, None, free.settings()), PARTS) == 1
        told = capsys.readouterr().err
        data.close()
        assert run(Options(path, True, None, None, free.settings()), PARTS) == 1
        assert (data.logs / "kept").exists()
    assert "already in use" in told and "LEDGER_SERVE__HTTP_PORT" in told
    assert "LEDGER_SERVE__INTERNAL_PORT_FIRST to the first of 1,000 free ports" in told


def test_a_redis_that_is_away_is_told_before_ray_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule: the text names the store, what to do, and no password."""
    # The check gives its own deadline of 30 s, so this one takes its place.
    monkeypatch.setattr(
        start_checks, "connect_redis", lambda url, deadline_seconds: connect_redis(url, deadline_seconds=0)
    )
    given = free_ports().settings() | {"REDIS_URL": "redis://:hunter2@127.0.0.1:1"}
    assert run(options(tmp_path, **given), PARTS) == 1
    told = capsys.readouterr().err
    assert "Redis at 127.0.0.1:1: no answer" in told and "REDIS_URL" in told and "hunter2" not in told


def test_no_reason_is_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule: every error says something, also one that the library gives no text."""

    def timed_out(_: Options) -> Any:
        raise TimeoutError

    monkeypatch.setattr(run_module, "settings", timed_out)
    assert run(options(tmp_path), PARTS) == 1
    assert "Cannot start: TimeoutError" in capsys.readouterr().err


def test_the_ready_file_of_an_earlier_run_is_gone_while_a_start_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule: whoever waits for the file finds that of this run or none, and none after the stop."""
    ready, seen = tmp_path / "ready.json", []
    ready.write_text("of a run that was killed")

    def start(self: Any, _: Path) -> bool:
        seen.append(ready.exists())
        ready.write_text("of this run")
        return False

    monkeypatch.setattr(run_module._Run, "_start", start)
    monkeypatch.setattr(run_module.cluster, "stop_ray", lambda *_: None)
    given = Options(tmp_path / "data", False, None, ready, free_ports().settings())
    assert run(given, PARTS) == 0
    assert seen == [False] and not ready.exists()


def test_a_ready_file_without_a_place_is_told_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for ready in (tmp_path, tmp_path / "absent" / "ready.json"):
        assert run(Options(tmp_path / "data", False, None, ready, free_ports().settings()), PARTS) == 1
        assert f"--ready-file: {ready} cannot be written" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rule: an unwritable folder: a clear message and a non-zero exit."""
    (tmp_path / "data").write_text("a file is in the way")
    assert run(options(tmp_path), PARTS) == 1
    assert "data folder" in capsys.readouterr().err


def test_bad_settings_are_told_before_anything_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rule: configuration is validated whole; nothing is created for a run that cannot be."""
    assert run(options(tmp_path, LEDGER_ACCOUNTS__CONCURRENCY="0"), PARTS) == 1
    assert "accounts.concurrency" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_what_fails_after_the_word_to_stop_is_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule: a service manager tells all processes at once; that the servers are gone then is an orderly stop."""
    monkeypatch.setattr(run_module.supervisor_process, "accept_signals", lambda handler: handler())
    assert run(options(tmp_path, LEDGER_ACCOUNTS__CONCURRENCY="0"), PARTS) == 0
    assert capsys.readouterr().err == ""


def test_command_line_options_win_over_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Rule: defaults, then file, then environment, then the command line."""
    monkeypatch.setenv("LEDGER_SERVE__HTTP_PORT", "1111")
    assert settings(options(tmp_path)).config.serve.http_port == 1111
    assert settings(options(tmp_path, LEDGER_SERVE__HTTP_PORT="2222")).config.serve.http_port == 2222


def test_the_data_folder_given_is_the_one_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: `--data-dir`, else the setting, else the user's data folder."""
    monkeypatch.setenv("LEDGER_STORAGE__DATA_DIR", str(tmp_path / "set"))
    config = settings(options(tmp_path)).config
    assert data_path(config, tmp_path / "given") == tmp_path / "given"
    assert data_path(config, None) == tmp_path / "set"
