"""`ledger`: the newest entries on the screen, all of them in a file."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Done, Site


def test_entries_are_shown_and_written_in_each_form(cli: Callable[..., Done], site: Site, tmp_path: Path) -> None:
    """Each form has the same entries, with what they paid for; nothing is overwritten."""
    key = site.key(1_000)
    for method in ("getSlot", "getSlot", "getBlockHeight"):
        assert cli("call", method, key=key).code == 0
    shown = cli("ledger", "--limit", "2", key=key)
    assert shown.code == 0 and "getBlockHeight" in shown.out and "-1" in shown.out and "UTC" in shown.out, shown
    assert max(map(len, shown.out.splitlines())) <= 80
    entries = cli("ledger", "--method", "getSlot", "--json", key=key).json
    assert [entry["amount"] for entry in entries] == [-1, -1] and all(entry["request_id"] for entry in entries)
    numbers = [entry["number"] for entry in entries]
    for form in ("csv", "jsonl", "parquet"):
        file = tmp_path / f"ledger.{form}"
        wanted = ("ledger", "--method", "getSlot", "--format", form, "--out", str(file))
        done = cli(*wanted, "--json", key=key)
        assert done.code == 0 and done.json["entries"] == 2, done
        assert cli(*wanted, key=key).code == 1, "it is overwritten"
    with (tmp_path / "ledger.csv").open() as lines:
        assert [int(row["number"]) for row in csv.DictReader(lines)] == numbers
    written = [json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines()]
    assert written == entries
    table = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "ledger.parquet")
    assert table["number"].to_pylist() == numbers
    wrong = cli("ledger", "--type", "gift", "--out", str(tmp_path / "none.csv"), key=key)
    assert wrong.code == 1 and "type" in wrong.err and not (tmp_path / "none.csv").exists()
