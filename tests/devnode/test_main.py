import json
import os
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from solders.pubkey import Pubkey

from actors.clock import ManualClock
from devnode.app import Devnode
from devnode.journal.journal import FILE_NAME
from devnode.records.commitment import Commitment
from devnode.settings import Settings

from .conftest import StartDevnode


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "devnode", *arguments]
    env = {**os.environ, **environment}
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=90, env=env)


def test_help_tells_the_gaps_and_every_flag() -> None:
    shown = run("--help").stdout
    assert "Known gaps" in shown
    for flag in ("--data-dir", "--http-port", "--slot-ms", "--seed", "--reset", "--faults", "--ready-file"):
        assert flag in shown


def test_without_a_folder_nothing_is_kept(tmp_path: Path) -> None:
    """It runs all the same, on a folder that is gone with it."""
    ready = tmp_path / "ready"
    command = [sys.executable, "-m", "devnode", "--http-port", "0", "--ready-file", str(ready)]
    with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(tmp_path)}) as process:
        deadline = time.monotonic() + 20
        while not ready.exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        (folder,) = tmp_path.glob("devnode-*")
        assert (folder / FILE_NAME).exists()
        process.terminate()
        assert process.wait(timeout=60) == 0
    assert list(tmp_path.glob("devnode-*")) == []


def test_faults_of_a_file_hold_from_the_start(start_devnode: StartDevnode, tmp_path: Path) -> None:
    """The same JSON that the admin door takes; what cannot be read ends the start with its place."""
    plan = tmp_path / "faults.json"
    plan.write_text('{"seed": 7, "calls": {"getSlot": {"too_many_share": 1, "retry_after_seconds": 3}}}')
    process = start_devnode("chain", "--faults", str(plan))
    reply = httpx.post(process.url, json={"jsonrpc": "2.0", "id": 1, "method": "getSlot"})
    assert reply.status_code == 429 and reply.headers["retry-after"] == "3"
    assert httpx.get(f"{process.url}/admin/faults").json()["faults"]["seed"] == 7
    for text in ('{"calls": {"getSlot": {"hang": 1}}}', '{"calls": {"getSlott": {"hang_share": 1}}}', "{", "[]"):
        plan.write_text(text)
        refused = run("--faults", str(plan))
        assert refused.returncode == 2 and "--faults" in refused.stderr and "Traceback" not in refused.stderr
    assert run("--faults", str(tmp_path / "absent")).returncode == 2


def test_a_call_that_is_broken_off_on_purpose_is_no_error_in_the_log(
    start_devnode: StartDevnode, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The server would log one for each; whoever reads the log looks for mistakes."""
    plan = tmp_path / "faults.json"
    plan.write_text('{"calls": {"getSlot": {"lost_share": 1}}}')
    process = start_devnode("chain", "--faults", str(plan))
    with pytest.raises(httpx.HTTPError):
        httpx.post(process.url, json={"jsonrpc": "2.0", "id": 1, "method": "getSlot"})
    assert process.terminate() == 0
    assert "ERROR" not in capfd.readouterr().err


def test_the_same_seed_begins_the_same_chain(start_devnode: StartDevnode, tmp_path: Path) -> None:
    """Faucet, identity and the first blockhashes; without a seed, or with another, all of it is different. The process
    for those is this one: each other takes seconds to start."""
    method = {"jsonrpc": "2.0", "id": 1, "method": "getBlock", "params": [1_001, {"transactionDetails": "none"}]}

    def beginning(name: str, *flags: str) -> tuple[str, str, str]:
        process = start_devnode(name, *flags)
        deadline = time.monotonic() + 30  # On a busy machine the first block may not be there yet.
        while "result" not in (answer := httpx.post(process.url, json=method).json()):
            assert time.monotonic() < deadline, answer
            time.sleep(0.1)
        block = answer["result"]["blockhash"]
        process.kill()
        return process.facts["faucet"], process.facts["identity"], block

    seven = beginning("one", "--seed", "7")
    assert beginning("two", "--seed", "7") == seven
    assert beginning("one", "--seed", "8") == seven
    chains = [set(seven)]
    for name, seed in (("three", 8), ("four", None), ("five", None)):
        other = Devnode(Settings(data_dir=tmp_path / name, http_port=0, seed=seed), ManualClock())
        keys, blockhashes = other.node.keys, other.node.chain.blockhashes
        first = blockhashes.latest_at(other.node.chain.levels.at(Commitment.PROCESSED).slot).blockhash
        chains.append({str(other.node.faucet.pubkey), str(keys.identity.pubkey()), str(first)})
        other.close()
    assert len(set().union(*chains)) == sum(map(len, chains)) == 12


def test_bad_flags_are_all_named(tmp_path: Path) -> None:
    refused = run("--data-dir", str(tmp_path), "--slot-ms", "1", "--retention-slots", "5")
    assert refused.returncode == 2
    assert "--slot-ms" in refused.stderr and "--retention-slots" in refused.stderr


def test_an_unusable_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = run("--data-dir", str(tmp_path / "file"), "--http-port", "0")
    assert refused.returncode == 1 and "give another --data-dir" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_an_unusable_ready_file_is_named(tmp_path: Path) -> None:
    """Whoever waits for that file would wait for ever."""
    refused = run("--http-port", "0", "--ready-file", str(tmp_path / "absent" / "ready"))
    assert refused.returncode == 1 and "give another --ready-file" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_second_node_on_the_folder_is_refused(start_devnode: StartDevnode) -> None:
    process = start_devnode("chain")
    refused = run("--data-dir", str(process.data_dir), "--http-port", "0")
    assert refused.returncode == 1 and "another devnode" in refused.stderr
    port = process.facts["http_port"]
    refused = run("--data-dir", str(process.data_dir) + "2", "--http-port", str(port))
    assert refused.returncode == 1 and "cannot listen" in refused.stderr


def test_a_wallet_is_funded_from_the_command_line(start_devnode: StartDevnode) -> None:
    """The answer comes when the money can be spent, and names the node; its port is that of the product's settings."""
    process = start_devnode("chain")
    wallet = str(Pubkey.new_unique())
    done = run(
        "fund", wallet, "--sol", "1.5", "--usdc", "0.25", LEDGER_DEVNODE__HTTP_PORT=str(process.facts["http_port"])
    )
    told = json.loads(done.stdout)
    assert done.returncode == 0 and told["ok"] and told["url"] == process.url and len(told["signatures"]) == 2
    asked = {"jsonrpc": "2.0", "id": 1, "method": "getBalance", "params": [wallet, {"commitment": "confirmed"}]}
    assert httpx.post(process.url, json=asked).json()["result"]["value"] == 1_500_000_000
    refused = run("fund", "nobody", "--sol", "1", "--url", process.url)
    assert refused.returncode == 1 and process.url in refused.stderr and "pubkey" in refused.stderr


@pytest.mark.parametrize(
    "arguments",
    [("--sol", "x"), ("--sol", "-1"), ("--sol", "1e3000000"), ("--usdc", "0.0000001"), ("--url", "ftp://x")],
)
def test_bad_amounts_are_refused_before_asking(arguments: tuple[str, str]) -> None:
    refused = run("fund", str(Pubkey.new_unique()), *arguments)
    assert refused.returncode == 2 and arguments[0] in refused.stderr


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "http://127.0.0.1:port"])
def test_no_node_is_said_plainly(url: str) -> None:
    refused = run("fund", str(Pubkey.new_unique()), "--sol", "1", "--url", url)
    assert refused.returncode == 1 and "is a devnode running there?" in refused.stderr
