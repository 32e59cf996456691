"""Starts that must be refused: at once, with a message that says what is wrong and what to do, and exit code 1."""

import os
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.product import ROOT, Product, command, environment, free_ports

_SECONDS_MAX = 60
_INTERNAL_PORT_FIRST_MAX = 60_000


def refused(*arguments: str, settings: Mapping[str, str], optimise: bool = False) -> str:
    """What a start that must fail printed."""
    done = subprocess.run(
        command(*arguments, optimise=optimise),
        cwd=ROOT,
        env=environment(settings),
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )
    assert done.returncode not in (0, None), done.stdout
    assert "Traceback" not in done.stderr + done.stdout
    return done.stderr + done.stdout


def test_a_second_instance_on_the_same_data_is_refused(product: Product) -> None:
    """One owner of a data folder; the first instance goes on unharmed."""
    text = refused("--data-dir", str(product.data_dir), settings=free_ports().settings())
    assert "already in use" in text
    assert str(product.data_dir) in text
    assert product.account()["ok"] is True


def test_a_second_instance_cannot_forget_the_first_ones_data(product: Product) -> None:
    """--fresh on a folder in use deletes nothing."""
    text = refused("--fresh", "--data-dir", str(product.data_dir), settings=free_ports().settings())
    assert "already in use" in text
    assert product.account()["ok"] is True


def _taken() -> socket.socket:
    """A listener on a port that every setting takes: the first of the internal ones has room for those after it."""
    while True:
        taken = socket.socket()
        taken.bind(("127.0.0.1", 0))
        if taken.getsockname()[1] <= _INTERNAL_PORT_FIRST_MAX:
            taken.listen()
            return taken
        taken.close()


@pytest.mark.parametrize("setting", ["--http-port", "LEDGER_SERVE__INTERNAL_PORT_FIRST", "LEDGER_DEVNODE__HTTP_PORT"])
def test_a_taken_port_is_refused(tmp_path: Path, setting: str) -> None:
    """The message names the port and the setting that changes it."""
    with _taken() as taken:
        port = str(taken.getsockname()[1])
        more = ("--http-port", port) if setting == "--http-port" else ()
        settings = {**free_ports().settings(), **({} if more else {setting: port})}
        text = refused("--data-dir", str(tmp_path / "data"), *more, settings=settings)
    assert port in text
    assert setting in text


def test_python_without_assertions_is_refused(tmp_path: Path) -> None:
    """Hostile row 42: the assertions are part of the program."""
    text = refused("--data-dir", str(tmp_path / "data"), settings=free_ports().settings(), optimise=True)
    assert "-O" in text


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
    """All mistakes together, each with where it came from."""
    settings = {"LEDGER_ACCOUNTS__CONCURRENCY": "none", "LEDGER_SERVE__HTTP_PROT": "1"}
    text = refused("--data-dir", str(tmp_path / "data"), settings=settings)
    assert "accounts.concurrency" in text
    assert "serve.http_prot" in text


def test_a_refused_start_is_quick(tmp_path: Path) -> None:
    """Nothing was started before the mistake was found: far below the time that a start takes."""
    began = time.monotonic()
    refused("--data-dir", str(tmp_path / "data"), settings={"LEDGER_ACCOUNTS__CONCURRENCY": "none"})
    assert time.monotonic() - began < _SECONDS_MAX
    assert not (tmp_path / "data").exists()
