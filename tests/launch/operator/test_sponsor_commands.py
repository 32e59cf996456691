"""Guards the operator's `sponsor` commands: what they show, make and move, and what they never print."""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from solders.keypair import Keypair
from typer.testing import CliRunner

from actors.deposits.x402.sponsor_key import key_text, unseal
from actors.launch.local_run import sponsor_setup, wallets
from actors.launch.local_run.run import Parts
from actors.launch.operator.cli import make_cli
from tests.devnode.conftest import StartDevnode, start_devnode  # noqa: F401 - a fixture.

SEED = bytes(range(32))
DEPOSIT = str(Keypair.from_seed(b"d" * 32).pubkey())


def _unused(*_: Any) -> Any:
    raise AssertionError("nothing may be started by these commands")


CLI = make_cli(Parts(_unused, _unused, _unused, _unused, _unused))
runner = CliRunner(env={"COLUMNS": "240"})


def fund(url: str, pubkey: object, lamports: int) -> None:
    assert httpx.post(f"{url}/admin/fund", json={"pubkey": str(pubkey), "lamports": lamports}).json()["ok"]


@pytest.fixture
def node(start_devnode: StartDevnode, monkeypatch: pytest.MonkeyPatch) -> str:  # noqa: F811
    """A node of the operator's own, so a local run's key does not count."""
    url = start_devnode().url
    monkeypatch.setenv("LEDGER_UPSTREAM__NODE_URL", url)
    monkeypatch.setenv("LEDGER_PAYMENTS__NETWORK", "devnet")
    monkeypatch.setenv("LEDGER_PAYMENTS__DEPOSIT_WALLET", DEPOSIT)
    return url


def run(*arguments: str, folder: Path) -> tuple[int, str]:
    done = runner.invoke(CLI, ["sponsor", *arguments, "--data-dir", str(folder)])
    return done.exit_code, done.output


def balances_become_visible(url: str, pubkey: object) -> None:
    for _ in range(500):
        asked = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "getBalance",
            "params": [str(pubkey), {"commitment": "confirmed"}],
        }
        if httpx.post(url, json=asked).json()["result"]["value"]:
            return
    raise AssertionError("never funded")


def test_the_first_rotation_makes_a_sealed_key_and_the_next_one_moves_the_money(
    node: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule: encrypted at rest, nothing lost on the way, and no secret on the screen."""
    code, output = run("rotate", folder=tmp_path)
    assert code == 1 and "LEDGER_PAYMENTS__SPONSOR_PASSPHRASE" in output
    monkeypatch.setenv("LEDGER_PAYMENTS__SPONSOR_PASSPHRASE", "p")
    code, output = run("rotate", folder=tmp_path)
    assert code == 0, output
    path = tmp_path / "secrets" / sponsor_setup.KEY_FILE
    first = Keypair.from_seed(unseal(path.read_text(), "p"))
    assert str(first.pubkey()) in output
    fund(node, first.pubkey(), 10**9)
    balances_become_visible(node, first.pubkey())
    code, output = run("rotate", folder=tmp_path)
    assert code == 0, output
    second = Keypair.from_seed(unseal(path.read_text(), "p"))
    assert "0.999995000 SOL" in output
    assert unseal(path.with_suffix(".previous.json").read_text(), "p") == bytes(first)[:32]
    assert str(second) not in output and bytes(second)[:32].hex() not in output
    code, output = run("show", folder=tmp_path)
    assert code == 0 and "0.999995000 SOL" in output and re.search(r"low\s+no", output)


def test_a_low_sponsor_and_a_missing_account_are_shown_and_mended(
    node: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule: every command says what to do next."""
    code, output = run("show", folder=tmp_path)
    assert code == 1 and "x402 is off" in output
    monkeypatch.setenv("LEDGER_PAYMENTS__SPONSOR_KEY", key_text(SEED))
    pubkey = Keypair.from_seed(SEED).pubkey()
    code, output = run("show", folder=tmp_path)
    assert code == 0 and re.search(r"low\s+yes", output) and f"send SOL to {pubkey}" in output
    assert "open-account" in output
    fund(node, pubkey, 10**9)
    balances_become_visible(node, pubkey)
    assert "opened" in run("open-account", folder=tmp_path)[1]
    assert "was open already" in run("open-account", folder=tmp_path)[1]
    assert "is open" in run("show", folder=tmp_path)[1]
    code, output = run("rotate", folder=tmp_path)
    assert code == 1 and "settings" in output, "a key of the settings is not replaced behind their back"


def test_a_local_run_rotates_its_own_key(
    start_devnode: StartDevnode,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rule: on the embedded chain no passphrase is needed; the former key is kept. The chain is that of the folder,
    whatever port it has and whatever runs on the usual one."""
    monkeypatch.setenv("LEDGER_DEVNODE__HTTP_PORT", "1")
    folder, chain_file = tmp_path / "secrets", tmp_path / "devnode" / "ready.json"
    folder.mkdir()
    chain_file.parent.mkdir()
    before = wallets.load_or_make(folder).sponsor
    code, output = run("rotate", folder=tmp_path)
    assert code == 1 and f"no chain runs on {tmp_path}" in output and "The key was not changed" in output
    devnode = start_devnode()
    told = devnode.facts  # As the ready file has them.
    chain_file.write_text(json.dumps(told | {"identity": before.pubkey}))
    code, output = run("rotate", folder=tmp_path)
    assert code == 1 and "is not the chain of" in output and "The key was not changed" in output
    assert wallets.load_or_make(folder).sponsor == before
    chain_file.write_text(json.dumps(told))
    code, output = run("open-account", folder=tmp_path)
    assert code == 1 and "Attempt to debit an account" in output and "{" not in output
    fund(devnode.url, before.pubkey, 10**9)
    balances_become_visible(devnode.url, before.pubkey)
    code, output = run("rotate", folder=tmp_path)
    assert code == 0 and "0.999995000 SOL" in output, output
    after = wallets.load_or_make(folder).sponsor
    assert after.pubkey != before.pubkey and after.pubkey in output
    kept = json.loads((folder / wallets.FILE).read_text())
    assert kept["sponsor_previous"] == before.seed.hex()


def test_a_node_that_is_away_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: one sentence, a code above zero, no traceback."""
    monkeypatch.setenv("LEDGER_UPSTREAM__NODE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("LEDGER_PAYMENTS__SPONSOR_KEY", key_text(SEED))
    code, output = run("show", folder=tmp_path)
    assert code == 1 and "did not answer" in output


def test_a_key_is_not_replaced_while_its_node_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: SOL follows its key. Without an answer about the old key nothing is written."""
    monkeypatch.setenv("LEDGER_UPSTREAM__NODE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("LEDGER_PAYMENTS__SPONSOR_PASSPHRASE", "p")
    path = tmp_path / "secrets" / sponsor_setup.KEY_FILE
    path.parent.mkdir()
    sponsor_setup.write_sealed(path, SEED, "p")
    code, output = run("rotate", folder=tmp_path)
    assert code == 1 and "The key was not changed" in output
    assert unseal(path.read_text(), "p") == SEED and list(path.parent.iterdir()) == [path]
