"""Guards the operator's commands on keys of signed statements."""

import pytest

from actors.accounts.receipts import AcceptLedgerKey, RotateLedgerKey, ShowLedgerKeys
from tests.launch.operator.test_cli import CLI
from tests.launch.operator.test_money_commands import Asked, runner

_KEYS = {
    "keys": [
        {"id": "new", "algorithm": "Ed25519", "public_key": "ab" * 32, "made_at": 1_795_626_000, "retired_at": None},
        {"id": "old", "algorithm": "Ed25519", "public_key": "cd" * 32, "made_at": 1_700_000_000}
        | {"retired_at": 1_795_626_000},
    ]
}


COMMANDS = [
    (["show"], ShowLedgerKeys()),
    (["rotate"], RotateLedgerKey()),
    (["accept", "0123456789abcdef"], AcceptLedgerKey("0123456789abcdef")),
]


@pytest.mark.parametrize(("words", "command"), COMMANDS)
def test_every_key_is_told_with_its_time(monkeypatch: pytest.MonkeyPatch, words: list[str], command: object) -> None:
    asked = Asked(monkeypatch, {**_KEYS, "unproven": []})
    done = runner.invoke(CLI, ["ledger-key", *words])
    assert done.exit_code == 0 and asked.calls == [command]
    assert "signs" in done.output and "until 2026-11" in done.output and "Next:" in done.output
    assert done.output.index("ab" * 32) < done.output.index("cd" * 32) and "UNPROVEN" not in done.output


def test_a_row_that_is_nobodys_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = {"id": "planted", "algorithm": "Ed25519", "public_key": "ef" * 32, "made_at": 1, "retired_at": None}
    Asked(monkeypatch, {**_KEYS, "unproven": [planted]})
    done = runner.invoke(CLI, ["ledger-key", "show"])
    assert "UNPROVEN, signs" in done.output and done.output.count("UNPROVEN") == 1 and "accept ID" in done.output
