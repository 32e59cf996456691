"""`receipts` and `verify`: from a charge to its proof, with and without the gateway that made it."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from tests.ledger_gateway.test_receipts import KEYS, receipts

from .conftest import Done, Site


def test_from_a_call_to_its_proof(cli: Callable[..., Done], site: Site, tmp_path: Path) -> None:
    """The file that `receipts` writes is one that `verify` takes; nothing is overwritten."""
    key, file = site.key(1_000), tmp_path / "mine.json"
    call = {"jsonrpc": "2.0", "id": 1, "method": "getSlot"}
    answer = httpx.post(site.served.url, json=call, headers={"x-api-key": key})
    one = cli("receipts", answer.headers["x-receipt"], "--out", str(file), key=key)
    assert one.code == 0 and "ledger-gateway verify" in one.err, one
    held = cli("verify", str(file), key=key)
    assert held.code == 0 and "1 receipts hold" in held.out and "getSlot" in held.out
    assert max(map(len, held.out.splitlines())) <= 80
    assert cli("receipts", "--out", str(file), key=key).code == 1
    every = cli("receipts", "--json", key=key)
    assert [receipt["entry"]["number"] for receipt in every.json["receipts"]] == [5, 4, 3, 2, 1]
    assert cli("receipts", "0" * 32, key=key).code == 1


def test_receipts_are_proven_without_the_gateway(cli: Callable[..., Done], tmp_path: Path) -> None:
    """By the keys that were saved; a chain between two receipts too."""
    keys, some, chain = (tmp_path / name for name in ("keys.json", "some.json", "chain.json"))
    made = receipts()
    keys.write_text(json.dumps(KEYS))
    some.write_text(json.dumps({"receipts": [made[0], made[3]]}))
    link = {"account": made[0]["account"], "after": 4, "entries": [one["entry"] for one in made[1:4]]}
    chain.write_text(json.dumps(link))
    offline = ("--keys", str(keys), "--url", "http://127.0.0.1:1")
    done = cli("verify", str(some), str(chain), *offline, "--json")
    assert done.code == 0 and done.json["chains"] == 1 and len(done.json["receipts"]) == 2
    link["entries"][0]["amount"] = -1
    chain.write_text(json.dumps(link))
    broken = cli("verify", str(some), str(chain), *offline)
    assert broken.code == 1 and "not proven" in broken.err and "chain.json" in broken.err
    alone = cli("verify", str(chain), *offline)
    assert alone.code == 1 and "need the receipts of both" in alone.err
    made[0]["entry"]["amount"] = -1
    some.write_text(json.dumps(made[0]))
    assert cli("verify", str(some), *offline).code == 1
    for text in ("{", "[]", "{}"):
        some.write_text(text)
        assert cli("verify", str(some), *offline).code == 1
    some.write_text(json.dumps({"receipts": []}))
    assert "no receipt" in cli("verify", str(some), *offline).err
    keys.write_text("{}")
    assert "ledger-keys.json" in cli("verify", str(some), *offline).err
    assert cli("verify", str(some)).code == 1, "this gateway has published another key"


def test_a_month_is_shown_and_written_in_each_form(cli: Callable[..., Done], site: Site, tmp_path: Path) -> None:
    """The same sums on the screen, in each file, and in Parquet for who works with frames."""
    key = site.key(1_000)
    httpx.post(site.served.url, json={"jsonrpc": "2.0", "id": 1, "method": "getSlot"}, headers={"x-api-key": key})
    month = f"{datetime.fromtimestamp(site.served.world.clock.now(), UTC):%Y-%m}"
    shown = cli("bill", month, key=key)
    assert shown.code == 0 and "999 credits at the end" in shown.out and "getSlot" in shown.out, shown
    assert max(map(len, shown.out.splitlines())) <= 80
    for form in ("csv", "beancount", "html", "json", "parquet"):
        file = tmp_path / f"bill.{form}"
        assert cli("bill", month, "--by", "day", "--format", form, "--out", str(file), key=key).code == 0
        assert form == "parquet" or "999" in file.read_text()
    table = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "bill.parquet")
    assert sum(table.column("credits").to_pylist()) == 999 and table.schema.metadata[b"closing"] == b"999"
    assert cli("bill", month, "--out", str(tmp_path / "bill.csv"), key=key).code == 1, "nothing is overwritten"
    wrong = cli("bill", "November", key=key)
    assert wrong.code == 1 and "2026-11" in wrong.err
