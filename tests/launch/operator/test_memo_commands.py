"""Guards the commands on memos: a key that is made sealed, and what the sender says of itself."""

import contextlib
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from actors.launch.local_run import owner_commands as operator
from actors.launch.operator import money_commands
from actors.memos.host import ACTOR_NAME
from tests.launch.operator.test_cli import CLI
from tests.launch.operator.test_money_commands import runner


def test_a_new_key_is_sealed_and_what_it_may_cost_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "memos.json"
    done = runner.invoke(CLI, ["memos", "new-key", str(file)])
    assert done.exit_code == 1 and "LEDGER_MEMOS__PASSPHRASE" in done.output and not file.exists()
    monkeypatch.setenv("LEDGER_MEMOS__PASSPHRASE", "p")
    done = runner.invoke(CLI, ["memos", "new-key", str(file), "--json"])
    told = json.loads(done.output)
    assert done.exit_code == 0 and told["payer"] == json.loads(file.read_text())["pubkey"]
    assert told["lamports_per_series_and_hour"] == 11_200
    again = runner.invoke(CLI, ["memos", "new-key", str(file)])
    assert again.exit_code == 1 and "name a new file" in again.output
    done = runner.invoke(CLI, ["memos", "new-key", str(tmp_path / "other.json")])
    assert "11200 lamports at most" in done.output and "LEDGER_MEMOS__KEY_FILE" in done.output


def test_the_sender_tells_what_pays_and_what_holds_it_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def ask_actor(instance: object, name: str, method: str) -> object:
        asked.append((name, method))
        return {"payer": "PAYER", "lamports": 7, "fault": "nobody listens"}

    monkeypatch.setattr(operator, "joined", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(operator, "find_instance", lambda _: None)
    monkeypatch.setattr(money_commands, "load_or_make", lambda _: SimpleNamespace(ray_token=""))
    monkeypatch.setattr(money_commands, "token_environment", lambda _: {})
    monkeypatch.setattr(operator, "ask_actor", ask_actor)
    done = runner.invoke(CLI, ["memos", "show"])
    assert done.exit_code == 0 and asked == [(ACTOR_NAME, "health")]
    assert all(word in done.output for word in ("PAYER", "7", "nobody listens", "memos audit"))
