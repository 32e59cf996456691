"""The commands on old months: export, verify, detach, list, receipt; and what each refuses, with its remedy."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from typer.testing import CliRunner

from actors.launch.local_run import screen
from actors.launch.operator.cli import make_cli
from actors.units import base58_text
from tests.accounts.making import ALICE, BOB
from tests.accounts.months.conftest import months as months
from tests.accounts.months.world import DECEMBER, NOVEMBER, Months
from tests.launch.operator.test_command_line import PARTS

runner = CliRunner()


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(os, "nice", lambda _: 0)
    yield
    screen.print_for_programs(False)


async def test_a_month_is_exported_proven_and_detached(
    months: Months, postgres_url: str, owner_url: str, tmp_path: Path
) -> None:
    """By four commands, each of which says what comes next; and a receipt of it is made from the files."""
    environment = {"DATABASE_URL": postgres_url, "LEDGER_STORAGE__POSTGRES_MIGRATIONS_URL": owner_url}

    def run(*words: str, code: int = 0, **more: str) -> str:
        done = _in_a_thread(lambda: runner.invoke(make_cli(PARTS), ["months", *words], env=environment | more))
        assert done.exit_code == code, (words, done.output, done.exception)
        screen.print_for_programs(False)
        return " ".join(done.output.split())

    place = str(tmp_path / "exports")
    assert "name it as 2025-11" in run("export", "2023-1", "--to", place, code=2)
    told = run("export", NOVEMBER.name, "--to", place)
    assert "entries of 2 accounts" in told and "Next: `months verify" in told
    assert "is there already" in run("export", NOVEMBER.name, "--to", place, code=2)
    verified = run("verify", place)
    assert "Every chain is whole" in verified and "--roots-keys" in verified
    assert json.loads(run("verify", place, "--json"))["differences"] == 0
    too_young = run(*("detach", NOVEMBER.name, "--exported", place), code=2, LEDGER_ACCOUNTS__LEDGER_KEPT_MONTHS="240")
    assert "too young" in too_young and "LEDGER_ACCOUNTS__LEDGER_KEPT_MONTHS" in too_young
    weak = run("detach", NOVEMBER.name, "--exported", place, "--owner-url", postgres_url, code=2)
    assert "LEDGER_STORAGE__POSTGRES_MIGRATIONS_URL" in weak
    other = f"{place}/{NOVEMBER.folder}"
    assert "and not of 2023-12" in run("detach", DECEMBER.name, "--exported", other, code=1)
    old = await asyncpg.connect(postgres_url, server_settings={"application_name": "account-shard-0 @0.1.0"})
    assert "account-shard-0 @0.1.0" in run("detach", NOVEMBER.name, "--exported", place, code=1)
    await old.close()
    done = run("detach", NOVEMBER.name, "--exported", place, "--drop")
    assert "2023-11 has left the ledger" in done and "dropped" in done and "audit --exported" in done
    states = {row["month"]: row["state"] for row in json.loads(run("list", "--json"))}
    assert states["2023-11"] == "detached" and states["2023-12"] == "in the ledger"
    place_of = f"{NOVEMBER.first_ms + 1_000}-1"
    receipt = json.loads(run("receipt", base58_text(BOB), place_of, "--exported", place, "--json"))
    assert receipt["receipts"][0]["entry"]["number"] == 1
    assert "is no public key" in run("receipt", "bob", place_of, "--exported", place, code=1)
    assert "a receipt is named by" in run("receipt", base58_text(ALICE), "five", "--exported", place, code=1)
    path = next((tmp_path / "exports" / NOVEMBER.folder).glob("entries-*"))
    path.write_bytes(path.read_bytes()[:-9])
    assert "cannot be read" in run("verify", place, code=2)
    assert "not dropped" in run("detach", NOVEMBER.name, "--exported", place, "--drop", code=2)


def _in_a_thread(work):  # type: ignore[no-untyped-def]
    """A command runs an event loop of its own."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()
