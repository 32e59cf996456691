"""What all commands share: exit codes, errors that say what to do, dead and hostile servers, Ctrl-C."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ..test_transport import GOOD
from ..world import http, raw_server
from .conftest import Done, Site

ROOT = Path(__file__).parents[3]
HOSTILE = '{"error":{"code":"X\\u001b[2J","message":"\\u001b]0;owned\\u0007\\u202e"}}'


def test_every_failure_has_a_reason_and_a_next_step(cli: Callable[..., Done], site: Site, tmp_path: Path) -> None:
    """Exit code 1; nothing on the standard output; the second line tells what to do."""
    (tmp_path / "bad.json").write_text("[1, 2]")
    key, poor = site.key(10), site.key(0)
    for arguments, given, word in (
        (["balance"], None, "no API key"),
        (["balance", "--url", "ftp://x"], None, "URL must"),
        (["balance", "--keypair", str(tmp_path / "none.json")], None, "No such file"),
        (["balance", "--keypair", str(tmp_path / "bad.json")], None, "32 or 64 bytes"),
        (["balance"], "srpc_live_" + "A" * 43, "AUTH_FAILED"),
        (["call", "getSlot"], poor, "INSUFFICIENT_CREDITS"),
        (["call", "getNothing"], key, "METHOD_NOT_FOUND"),
        (["status", "--url", "http://127.0.0.1:9"], None, "no connection"),
    ):
        done = cli(*arguments, key=given)
        assert (done.code, done.out) == (1, "") and word in done.err and "Next: " in done.err, done
        told = cli(*arguments, "--json", key=given)
        assert told.code == 1 and told.err == "" and told.json["error"]["next"], told
    assert "deposit" in cli("call", "getSlot", key=poor).err


@pytest.mark.parametrize(
    "sent",
    [
        http(400, HOSTILE.encode()),
        http(200, b"[" * 9_999),
        http(200, b"<html>"),
        GOOD[:-5],
        b"\x00\x01\r\n\r\n",
        http(200, b"[]"),
    ],
)
def test_a_hostile_server_ends_a_command_orderly(cli: Callable[..., Done], site: Site, sent: bytes) -> None:
    """Half answers, other people's pages, escapes in strings: a reason, exit code 1, no traceback, a quiet terminal."""
    opened = raw_server(sent)
    url, _ = site.run(opened.__aenter__())
    try:
        done = cli("balance", "--url", url, key="k")
    finally:
        site.run(opened.__aexit__(None, None, None))
    assert done.code == 1 and "Traceback" not in done.err and "Next: " in done.err
    assert "\x1b" not in done.out + done.err and "\u202e" not in done.err


def test_ctrl_c_stops_with_130_and_no_traceback(site: Site) -> None:
    """A stream that waits, stopped by its user."""
    environment = {
        **os.environ,
        "LEDGER_GATEWAY_URL": site.served.url,
        "LEDGER_GATEWAY_API_KEY": "k",
        "PYTHONPATH": str(ROOT),
    }
    code = (
        # Programs that a shell runs in the background ignore SIGINT, and so do the programs that they start.
        "import asyncio, signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from ledger_gateway.cli import shell\n"
        "async def work(sh):\n    print('waiting', flush=True)\n    await asyncio.sleep(60)\n"
        "shell.perform(work, dict(url=None, key=None, keypair=None, as_json=False), {})"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert "KeyboardInterrupt" not in told and "stopped" in told
