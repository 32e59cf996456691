"""Guards the operator's commands on accounts: what they say was done is what the owner did."""

import hashlib
import json
from typing import Any

import pytest
from msgspec import UNSET
from typer.testing import CliRunner

from actors.accounts.account import Deposit
from actors.accounts.api import AccountState, AdjustCredits, Adjustment, Describe, ImportKey, SetLimits
from actors.accounts.credits import Batch, Source
from actors.accounts.directory import ListAccounts, ListedAccount, ListPlace
from actors.units import Credits, UnixSeconds, base58_text
from tests.launch.operator.test_cli import CLI
from tests.launch.operator.test_money_commands import Asked

runner = CliRunner()
RAW = b"\x07" * 32
PUBKEY, REASON = base58_text(RAW), ["--reason", "why"]
DEPOSIT = Deposit(b"s" * 64 + bytes(4), 5_000_000, 100_000, 500_000, 0, 7, 1_795_438_463_000)
BATCH = Batch(1, Source.DEPOSIT, Credits(500_000), Credits(9), UnixSeconds(1_795_438_463), UnixSeconds(1_826_974_463))
STATE = AccountState(RAW, 9, "active", 499_991, 1_795_438_463, 100, 64, DEPOSIT, (BATCH,))


def printed(*arguments: str) -> str:
    done = runner.invoke(CLI, [*arguments])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize(
    ("arguments", "done", "told"),
    [
        (["accounts", "remove", PUBKEY, "99999999"], (-604_983, 0, False, False), "removed 604,983 credits (asked for"),
        (["adjust", PUBKEY, "-5"], (-3, 0, False, False), "removed 3 credits (asked for 5; no more was available)"),
        (["adjust", PUBKEY, "-5"], (-5, 2, False, False), "removed 5 credits\n"),
        (["accounts", "grant", PUBKEY, "7"], (7, 9, True, False), "granted 7 credits (by an earlier copy of this"),
        (["accounts", "grant", PUBKEY, "7"], (7, 7, False, True), "granted 7 credits; opened a new account"),
    ],
)
def test_an_adjustment_says_what_was_really_moved(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], done: tuple[Any, ...], told: str
) -> None:
    """Rule: the figures of the answer, not those of the question."""
    asked = Asked(monkeypatch, Adjustment(RAW, *done))
    output = printed(*arguments, *REASON)
    assert told in output and f"balance  {done[1]} credits" in output and "GET /account/ledger" in output
    (command,) = asked.calls
    assert isinstance(command, AdjustCredits) and abs(command.amount) == int(arguments[-1].lstrip("-"))
    document = json.loads(printed(*arguments, *REASON, "--json"))
    assert (document["amount"], document["already_applied"], document["opened"]) == (done[0], *done[2:])
    assert document["asked"] == command.amount


def test_only_given_limits_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: without options they are shown; --default alone returns them to the defaults."""
    asked = Asked(monkeypatch, STATE)
    limits = ["accounts", "limits", PUBKEY]
    output = printed(*limits)
    assert "unchanged" in output and "concurrency          64" in output
    printed(*limits, "--requests-per-second", "5")
    printed(*limits, "--concurrency", "6")
    printed(*limits, "--default")
    assert asked.calls == [
        Describe(RAW),
        SetLimits(RAW, 5, UNSET),
        SetLimits(RAW, UNSET, 6),
        SetLimits(RAW, None, None),
    ]
    assert runner.invoke(CLI, [*limits, "--default", "--concurrency", "6"]).exit_code == 2
    assert len(asked.calls) == 4


@pytest.mark.parametrize("command", [["show"], ["limits"], ["suspend", *REASON], ["resume", *REASON]])
def test_what_makes_no_entry_does_not_point_to_the_ledger(monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    """Rule: every command prints the next step, and a true one."""
    Asked(monkeypatch, STATE)
    output = printed("accounts", command[0], PUBKEY, *command[1:])
    assert "Next: " in output and "ledger" not in output


def test_an_account_is_shown_to_people_and_to_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: objects as GET /account/info gives them for programs; dates for people."""
    Asked(monkeypatch, STATE)
    output = printed("accounts", "show", PUBKEY)
    assert "2026-11-23T12:54:23Z" in output and "1,795" not in output
    assert "9 of 500,000 credits, deposit, until 2027-11-23T12:54:23Z" in output and "5.00 USDC" in output
    document = json.loads(printed("accounts", "show", PUBKEY, "--json"))
    assert document["created_at"] == 1_795_438_463 and document["concurrency"] == 64
    assert document["last_deposit"] == {
        "signature": base58_text(b"s" * 64),
        "amount_base_units": 5_000_000,
        "amount_usdc": "5.00",
        "credits": 500_000,
        "slot": 7,
        "credited_at": 1_795_438_463,
    }
    assert [batch["remaining"] for batch in document["credit_batches"]] == [9]


LEGACY = "0123456789abcdef" * 4


@pytest.mark.parametrize("given", [f"{LEGACY}\n", f"  {LEGACY}"])
def test_a_legacy_key_is_imported_as_a_hash(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    """Rule: the key is read from standard input, and leaves this process as a hash and its first characters alone."""
    asked = Asked(monkeypatch, STATE)
    done = runner.invoke(CLI, ["accounts", "import-key", PUBKEY], input=given)
    assert done.exit_code == 0, done.output
    (command,) = asked.calls
    assert command == ImportKey(RAW, hashlib.sha256(LEGACY.encode()).digest(), LEGACY[:20])
    assert LEGACY not in done.output and LEGACY[:20] in done.output


@pytest.mark.parametrize("given", ["", "srpc_live_abc", LEGACY[:-1], LEGACY[:-1] + "g", LEGACY + "0"])
def test_what_is_no_legacy_key_is_not_imported(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    asked = Asked(monkeypatch, STATE)
    done = runner.invoke(CLI, ["accounts", "import-key", PUBKEY], input=given)
    assert done.exit_code != 0 and "64 hexadecimal characters" in done.output
    assert not asked.calls and (not given or given not in done.output)


def test_accounts_are_listed_whole_and_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole public keys and dates for people; numbers and the next cursor for programs."""
    listed = (ListedAccount(RAW, 9, "active", 499_991, 1_795_438_463),)
    asked = Asked(monkeypatch, listed)
    output = runner.invoke(CLI, ["accounts", "list"], env={"COLUMNS": "200"}).output
    assert PUBKEY in output and "499,991" in output and "2026-11-23T12:54:23Z" in output
    told = json.loads(printed("accounts", "list", "--order", "balance", "--limit", "1", "--find", "ab", "--json"))
    assert told["accounts"][0]["pubkey"] == PUBKEY and told["next_cursor"] == f"9-{RAW.hex()}"
    printed("accounts", "list", "--cursor", told["next_cursor"], "--status", "suspended")
    assert asked.calls[1:] == [
        ListAccounts("balance", "ab", "", None, 1),
        ListAccounts("newest", "", "suspended", ListPlace(9, RAW), 50),
    ]
    assert runner.invoke(CLI, ["accounts", "list", "--cursor", "x"]).exit_code == 2
