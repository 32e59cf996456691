import json
import subprocess
import sys
from pathlib import Path

import pytest
from solders.pubkey import Pubkey

from .conftest import StartDevnode


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "actors.devnode", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)


def test_help_tells_the_gaps_and_every_flag() -> None:
    shown = run("--help").stdout
    assert "Known gaps" in shown
    for flag in ("--data-dir", "--http-port", "--slot-ms", "--seed", "--reset", "--ready-file", "--parent-pid"):
        assert flag in shown


def test_a_folder_is_needed() -> None:
    refused = run()
    assert refused.returncode == 2 and "--data-dir is needed" in refused.stderr


def test_bad_flags_are_all_named(tmp_path: Path) -> None:
    refused = run("--data-dir", str(tmp_path), "--slot-ms", "1", "--retention-slots", "5")
    assert refused.returncode == 2
    assert "--slot-ms" in refused.stderr and "--retention-slots" in refused.stderr


def test_an_unusable_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = run("--data-dir", str(tmp_path / "file"), "--http-port", "0")
    assert refused.returncode == 1 and "give another --data-dir" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_second_node_on_the_folder_is_refused(start_devnode: StartDevnode) -> None:
    process = start_devnode("chain")
    refused = run("--data-dir", str(process.data_dir), "--http-port", "0")
    assert refused.returncode == 1 and "another devnode" in refused.stderr
    port = process.facts["http_port"]
    refused = run("--data-dir", str(process.data_dir) + "2", "--http-port", str(port))
    assert refused.returncode == 1 and "cannot listen" in refused.stderr


def test_a_wallet_is_funded_from_the_command_line(start_devnode: StartDevnode) -> None:
    process = start_devnode("chain")
    wallet = str(Pubkey.new_unique())
    done = run("fund", wallet, "--sol", "1.5", "--usdc", "0.25", "--url", process.url)
    assert done.returncode == 0 and json.loads(done.stdout)["ok"]


@pytest.mark.parametrize("arguments", [("--sol", "x"), ("--sol", "-1"), ("--usdc", "0.0000001"), ("--url", "ftp://x")])
def test_bad_amounts_are_refused_before_asking(arguments: tuple[str, str]) -> None:
    refused = run("fund", str(Pubkey.new_unique()), *arguments)
    assert refused.returncode == 2 and arguments[0] in refused.stderr


def test_no_node_is_said_plainly() -> None:
    refused = run("fund", str(Pubkey.new_unique()), "--sol", "1", "--url", "http://127.0.0.1:9")
    assert refused.returncode == 1 and "is a devnode running there?" in refused.stderr
