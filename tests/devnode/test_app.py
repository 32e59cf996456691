"""The devnode as a process: start, crash, restart, refusals."""

import base64
import logging
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from devnode.app import Devnode, show_status, wipe
from devnode.journal.journal import FolderTaken
from devnode.ports import PortTaken, open_udp
from devnode.settings import Settings

from .conftest import Process, StartDevnode
from .local_node import give

WAIT_SECONDS_MAX = 90


def call(process: Process, method: str, *params: Any) -> Any:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    reply = httpx.post(process.url, json=body).json()
    return reply["result"] if "result" in reply else reply["error"]


def has_ipv6() -> bool:
    try:
        open_udp("::1", 0, "--tpu-port").close()
    except PortTaken:
        return False
    return True


def wait_for(process: Process, signature: str, level: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    reached = ["processed", "confirmed", "finalized"]
    while time.monotonic() < deadline:
        (status,) = call(process, "getSignatureStatuses", [signature])["value"]
        if status is not None and reached.index(status["confirmationStatus"]) >= reached.index(level):
            return
        time.sleep(0.01)
    raise AssertionError(f"{signature} did not reach {level}")


def test_a_killed_node_continues_its_chain(start_devnode: StartDevnode) -> None:
    """kill -9: balances stay, history is readable, what landed cannot land again, slots go on."""
    process = start_devnode("chain")
    payer, to = Keypair(), Pubkey.new_unique()
    wait_for(process, call(process, "requestAirdrop", str(payer.pubkey()), 10**9), "confirmed")
    latest = call(process, "getLatestBlockhash", {"commitment": "confirmed"})["value"]["blockhash"]
    message = MessageV0.try_compile(payer.pubkey(), [give(payer, to, 2_000_000)], [], Hash.from_string(latest))
    transaction = VersionedTransaction(message, [payer])
    encoded = base64.b64encode(bytes(transaction)).decode()
    config = {"encoding": "base64", "preflightCommitment": "confirmed"}
    signature = call(process, "sendTransaction", encoded, config)
    wait_for(process, signature, "confirmed")
    slot = call(process, "getSlot", {"commitment": "confirmed"})
    process.kill()

    again = start_devnode("chain")
    assert again.facts["faucet"] == process.facts["faucet"]
    assert call(again, "getSlot", {"commitment": "confirmed"}) >= slot
    assert call(again, "getBalance", str(to), {"commitment": "confirmed"})["value"] == 2_000_000
    assert call(again, "getBalance", str(payer.pubkey()), {"commitment": "confirmed"})["value"] == 10**9 - 2_005_000
    shown = call(again, "getTransaction", signature, {"commitment": "confirmed", "maxSupportedTransactionVersion": 0})
    assert shown["meta"]["err"] is None
    replayed = call(again, "sendTransaction", encoded, config)
    assert replayed["data"]["err"] == "AlreadyProcessed"
    history = call(again, "getSignaturesForAddress", str(to), {"commitment": "confirmed"})
    assert [entry["signature"] for entry in history] == [signature]
    assert again.terminate() == 0


def test_a_clean_end_loses_nothing(start_devnode: StartDevnode) -> None:
    """SIGTERM right after a transaction: it is in the journal, and the exit code is 0."""
    process = start_devnode("chain", "--slot-ms", "60000")
    wallet = str(Pubkey.new_unique())
    signature = call(process, "requestAirdrop", wallet, 10**9)
    assert process.terminate() == 0
    again = start_devnode("chain")
    assert call(again, "getBalance", wallet, {"commitment": "confirmed"})["value"] == 10**9
    version = {"commitment": "confirmed", "maxSupportedTransactionVersion": 0}
    assert call(again, "getTransaction", signature, version)["meta"]["err"] is None


def test_reset_begins_a_new_chain(start_devnode: StartDevnode) -> None:
    process = start_devnode("chain")
    wallet = str(Pubkey.new_unique())
    wait_for(process, call(process, "requestAirdrop", wallet, 10**9), "confirmed")
    process.kill()
    again = start_devnode("chain", "--reset")
    assert again.facts["faucet"] != process.facts["faucet"]
    assert call(again, "getBalance", wallet, {"commitment": "processed"})["value"] == 0


def test_it_ends_with_its_parent(start_devnode: StartDevnode) -> None:
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = start_devnode("chain", "--parent-pid", str(parent.pid))
    parent.kill()  # Dead, but not collected yet: that has to be enough.
    assert process.popen.wait(timeout=60) == 0
    parent.wait()


def test_the_finalized_slot_exists_from_the_start(start_devnode: StartDevnode) -> None:
    process = start_devnode("chain", "--slot-ms", "60000")
    slot = call(process, "getSlot")
    assert call(process, "getBlock", slot)["blockHeight"] >= 0
    assert call(process, "getSlot", {"commitment": "processed"}) == slot + 32


@pytest.mark.skipif(not has_ipv6(), reason="no IPv6 loopback on this machine")
def test_addresses_that_are_told_can_be_used_on_ipv6_too(start_devnode: StartDevnode) -> None:
    process = start_devnode("chain", "--host", "::1")
    told, *_ = call(process, "getClusterNodes")
    assert process.url == f"http://{told['rpc']}" and process.facts["ws_url"] == f"ws://{told['pubsub']}"
    for name in ("grpc_url", "grpc_tls_url"):
        assert "//[::1]:" in process.facts[name]


def test_sigint_is_a_clean_end_too(start_devnode: StartDevnode) -> None:
    process = start_devnode("chain")
    process.popen.send_signal(signal.SIGINT)
    assert process.popen.wait(timeout=60) == 0


def test_one_folder_one_node(tmp_path: Path) -> None:
    first = Devnode(Settings(data_dir=tmp_path, http_port=0))
    try:
        with pytest.raises(FolderTaken):
            Devnode(Settings(data_dir=tmp_path, http_port=0))
        with pytest.raises(FolderTaken):
            wipe(Settings(data_dir=tmp_path))
    finally:
        first.close()


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=f"cannot listen on 127.0.0.1:{port}"):
            Devnode(Settings(data_dir=tmp_path, http_port=port))
    assert not list(tmp_path.iterdir())


def test_an_idle_node_stays_small(start_devnode: StartDevnode) -> None:
    """Below 120 MB, and without the libraries of the rest of the product."""
    process = start_devnode("chain")
    status = Path(f"/proc/{process.popen.pid}/status")
    if not status.exists():
        pytest.skip("no /proc on this system")
    resident = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
    assert int(resident.split()[1]) < 120_000
    maps = Path(f"/proc/{process.popen.pid}/maps").read_text()
    assert "_raylet" not in maps and "aiohttp" not in maps


async def test_without_a_terminal_it_is_one_log_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    devnode = Devnode(Settings(data_dir=tmp_path, http_port=0))
    try:
        with caplog.at_level(logging.INFO, logger="devnode"):
            show_status(devnode)
    finally:
        devnode.close()
    (record,) = caplog.records
    assert f"http://127.0.0.1:{devnode.http_port}" in record.message
    assert str(devnode.node.faucet.pubkey) in record.message
