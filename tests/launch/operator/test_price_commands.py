"""Guards `accounts price`: it shows, it gives what the settings have, and says why it does not.

Rule: decisions, "Price lists".
"""

import json

import msgspec
import pytest
from typer.testing import CliRunner

from actors.accounts.api import Describe
from actors.accounts.price_list_commands import SetPriceList
from tests.launch.operator.test_account_commands import PUBKEY, RAW, STATE, printed
from tests.launch.operator.test_cli import CLI
from tests.launch.operator.test_money_commands import Asked

GIVEN = msgspec.structs.replace(STATE, price_list="wholesale")


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGER_PRICING__LISTS", '{"wholesale": {"percent": 60}}')


def test_a_list_is_shown_and_given(monkeypatch: pytest.MonkeyPatch, lists: None) -> None:
    asked = Asked(monkeypatch, GIVEN)
    assert "price_list  wholesale" in printed("accounts", "price", PUBKEY)
    assert "GET /pricing" in printed("accounts", "price", PUBKEY, "wholesale")
    printed("accounts", "price", PUBKEY, "public")
    document = json.loads(printed("accounts", "price", PUBKEY, "wholesale", "--json"))
    assert document["price_list"] == "wholesale"
    assert asked.calls == [
        Describe(RAW),
        SetPriceList(RAW, "wholesale"),
        SetPriceList(RAW, ""),
        SetPriceList(RAW, "wholesale"),
    ]


def test_a_name_that_the_settings_lack_is_refused_unless_they_are_others(
    monkeypatch: pytest.MonkeyPatch, lists: None
) -> None:
    asked = Asked(monkeypatch, GIVEN)
    refused = CliRunner().invoke(CLI, ["accounts", "price", PUBKEY, "wholesal"])
    assert refused.exit_code != 0 and "it has wholesale" in refused.output and "--unchecked" in refused.output
    assert not asked.calls
    printed("accounts", "price", PUBKEY, "elsewhere", "--unchecked")
    assert asked.calls == [SetPriceList(RAW, "elsewhere")]


def test_the_settings_show_lists_as_they_are_written(lists: None) -> None:
    """`config --show`: what it prints can be set again."""
    (row,) = [one for one in json.loads(printed("config", "--show", "--json")) if one["setting"] == "pricing.lists"]
    assert json.loads(row["value"]) == {"wholesale": {"percent": 60, "methods": {}}}
