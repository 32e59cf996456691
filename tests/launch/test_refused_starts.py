"""Starts that must be refused: before anything is started, with a message that says what is wrong and what to do."""

import os
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from bench.product import ROOT, command, environment, free_ports

_SECONDS_MAX = 90
_INTERNAL_PORT_FIRST_MAX = 60_000


def refused(*arguments: str, settings: Mapping[str, str], optimise: bool = False) -> str:
    """What a start that must fail printed. `starting` begins the first line of a start that goes on."""
    done = subprocess.run(
        command(*arguments, optimise=optimise),
        cwd=ROOT,
        env=environment(settings),
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )
    text = done.stdout + done.stderr
    assert done.returncode == 1, text
    assert "Traceback" not in text and "starting" not in text, text
    return text


def _taken() -> socket.socket:
    """A listener on a port that every setting takes: the first of the internal ones has room for those after it."""
    while True:
        taken = socket.socket()
        taken.bind(("127.0.0.1", 0))
        if taken.getsockname()[1] <= _INTERNAL_PORT_FIRST_MAX:
            taken.listen()
            return taken
        taken.close()


def test_a_taken_port_is_refused(tmp_path: Path) -> None:
    """The message names the port and the option that changes it."""
    with _taken() as taken:
        port = str(taken.getsockname()[1])
        text = refused("--data-dir", str(tmp_path / "data"), "--http-port", port, settings=free_ports().settings())
    assert port in text
    assert "--http-port" in text


def test_python_without_assertions_is_refused(tmp_path: Path) -> None:
    """Threat 42: the assertions are part of the program."""
    text = refused("--data-dir", str(tmp_path / "data"), settings=free_ports().settings(), optimise=True)
    assert "-O" in text
    assert not (tmp_path / "data").exists()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """Names the folder and the setting. Root may write anywhere, so for root it is a place that cannot be a folder."""
    if os.geteuid() == 0:
        closed = tmp_path / "file"
        closed.write_text("not a folder")
    else:
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o500)
    text = refused("--data-dir", str(closed / "data"), settings=free_ports().settings())
    assert str(closed) in text
    assert "--data-dir" in text


def test_a_mistaken_setting_is_refused(tmp_path: Path) -> None:
    """All mistakes together, each with where it came from; nothing was made before they were found."""
    settings = {"LEDGER_ACCOUNTS__CONCURRENCY": "none", "LEDGER_SERVE__HTTP_PROT": "1"}
    text = refused("--data-dir", str(tmp_path / "data"), settings=settings)
    assert "accounts.concurrency" in text
    assert "serve.http_prot" in text
    assert not (tmp_path / "data").exists()
