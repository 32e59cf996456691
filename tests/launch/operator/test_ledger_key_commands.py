"""Guards the operator's commands on keys of signed statements."""

import pytest

from actors.accounts.receipts import ReadLedgerKeys, RotateLedgerKey
from tests.launch.operator.test_cli import CLI
from tests.launch.operator.test_money_commands import Asked, runner

_KEYS = {
    "keys": [
        {"id": "new", "algorithm": "Ed25519", "public_key": "ab" * 32, "made_at": 1_795_626_000, "retired_at": None},
        {"id": "old", "algorithm": "Ed25519", "public_key": "cd" * 32, "made_at": 1_700_000_000}
        | {"retired_at": 1_795_626_000},
    ]
}


@pytest.mark.parametrize(("name", "command"), [("show", ReadLedgerKeys()), ("rotate", RotateLedgerKey())])
def test_every_key_is_told_with_its_time(monkeypatch: pytest.MonkeyPatch, name: str, command: object) -> None:
    asked = Asked(monkeypatch, _KEYS)
    done = runner.invoke(CLI, ["ledger-key", name])
    assert done.exit_code == 0 and asked.calls == [command]
    assert "signs" in done.output and "until 2026-11" in done.output and "Next:" in done.output
    assert done.output.index("ab" * 32) < done.output.index("cd" * 32)
