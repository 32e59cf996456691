"""The launch programs of a devnode as users start it: flags, a restart, and what is said when they cannot be had."""

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
from solders.pubkey import Pubkey

from actors.launch_programs.addresses import GLOBAL, PUMP, PUMP_FEES
from devnode.execution.vm import Vm
from tests.devnode.conftest import Process, StartDevnode
from tests.devnode.test_app import wait_for
from tests.launch_programs.samples import sample

MEMO = Pubkey.from_string("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")
ADDRESS = Pubkey.from_bytes(b"\x61" * 32)


def account(process: Process, address: str) -> Any:
    params = [address, {"encoding": "base64", "commitment": "processed"}]
    body = {"jsonrpc": "2.0", "id": 1, "method": "getAccountInfo", "params": params}
    return httpx.post(process.url, json=body).json()["result"]["value"]


def launch(process: Process, **fields: Any) -> Any:
    return httpx.post(f"{process.url}/admin/launch", json=fields).json()


def test_dumps_and_coins_survive_a_kill(start_devnode: StartDevnode, tmp_path: Path) -> None:
    """A curve of mainnet as `solana account` dumps it, a program of our own, and a launched coin: all there again."""
    shown = sample("account_bonding_curve_151")["payload"]["account"]
    dump = {
        "pubkey": shown["pubkey"],
        "account": {
            **{name: shown[name] for name in ("lamports", "owner", "executable", "space")},
            "data": [shown["data_base64"], "base64"],
            "rentEpoch": shown["rent_epoch"],
        },
    }
    (tmp_path / "curve.json").write_text(json.dumps(dump))
    memo = Vm().account(MEMO)
    assert memo is not None
    (tmp_path / "memo.so").write_bytes(memo.data)
    files = ("--account", str(tmp_path / "curve.json"), "--program", f"{ADDRESS}={tmp_path / 'memo.so'}")
    process = start_devnode("chain", *files)
    first = launch(process, kind="mayhem")
    assert first["ok"], first
    assert account(process, str(PUMP))["executable"] and account(process, str(PUMP_FEES))["space"] == 36
    seen = account(process, first["bonding_curve"])
    wait_for(process, first["signatures"][-1], "confirmed")
    process.kill()
    again = start_devnode("chain", *files)
    assert account(again, first["bonding_curve"]) == seen
    assert account(again, shown["pubkey"])["data"][0] == shown["data_base64"]
    assert base64.b64decode(account(again, str(ADDRESS))["data"][0]) == memo.data
    assert launch(again, kind="v2", quote="USDC")["ok"]


def test_a_chain_without_them_says_so(start_devnode: StartDevnode) -> None:
    process = start_devnode("chain", "--no-launch-programs")
    assert account(process, str(PUMP)) is None and account(process, str(GLOBAL)) is None
    refused = launch(process)
    assert refused == {"ok": False, "error": "This program may not be used for executing instructions"}


def test_files_that_cannot_be_used_end_the_start(tmp_path: Path) -> None:
    """One line, exit code 2, and no folder begun."""
    (tmp_path / "junk.so").write_bytes(b"junk")
    for flags in (("--program", f"{ADDRESS}={tmp_path / 'junk.so'}"), ("--account", str(tmp_path / "none.json"))):
        command = [sys.executable, "-m", "devnode", "--data-dir", str(tmp_path / "chain"), "--http-port", "0"]
        done = subprocess.run([*command, *flags], capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == 2 and flags[0] in done.stderr and "Traceback" not in done.stderr
