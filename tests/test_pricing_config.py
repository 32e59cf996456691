"""Price lists in the settings: their form and bounds; and a method that does not exist is refused at start.

Rule: decisions, "Price lists".
"""

import pytest

from actors.config import ConfigError
from actors.config_loader import load
from actors.launch.local_run.start_checks import require_whole
from actors.methods.catalog import METHODS, priced_names

NAME = "LEDGER_PRICING__LISTS"


def test_lists_come_from_a_file_and_from_the_environment(tmp_path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[pricing.lists.wholesale]\npercent = 80\nmethods = { getBlock = 15 }\n")
    for loaded in (load({}, file), load({NAME: '{"wholesale": {"percent": 80, "methods": {"getBlock": 15}}}'})):
        (one,) = loaded.config.pricing.lists.items()
        assert one[0] == "wholesale" and (one[1].percent, one[1].methods) == (80, {"getBlock": 15})
        require_whole(loaded.config)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("{", "not valid JSON; wanted an object"),
        ('{"public": {}}', "cannot name a price list"),
        ('{"-a": {}}', "cannot name a price list"),
        ('{"a": {"percent": 0}}', "lists.a.percent: 0, wanted 1 to 1,000"),
        ('{"a": {"percent": 1001}}', "lists.a.percent: 1001, wanted 1 to 1,000"),
        ('{"a": {"percent": 80.5}}', "lists.a.percent: Input should be a valid integer"),
        ('{"a": {"percent": true}}', "lists.a.percent: Input should be a valid integer"),
        ('{"a": {"methods": {"getBlock": 0}}}', "lists.a.methods.getBlock: 0, wanted 1 to 1,000,000"),
        ('{"a": {"methods": {"getBlock": 1000001}}}', "lists.a.methods.getBlock: 1000001, wanted 1 to 1,000,000"),
        ('{"a": {"price": 1}}', "no such setting"),
        ("[]", "valid dictionary"),
    ],
)
def test_what_is_no_price_list_is_refused_by_name(value: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load({NAME: value})
    assert said in str(refused.value) and ("pricing.lists" in str(refused.value) or NAME in str(refused.value))


def test_a_method_without_a_price_stops_the_start_and_the_near_one_is_named() -> None:
    """Else a price that the operator meant would be nobody's. All mistakes are told together."""
    config = load(
        {NAME: '{"a": {"methods": {"getBlok": 3, "getHealths": 1}}, "b": {"methods": {"requestAirdrop": 2}}}'}
    )
    with pytest.raises(ConfigError) as refused:
        require_whole(config.config)
    told = str(refused.value).splitlines()
    assert len(told) == 3 and "did you mean getBlock?" in told[0] and all("pricing.lists." in one for one in told)


def test_everything_that_costs_a_fixed_price_can_have_its_own() -> None:
    known = priced_names()
    assert {"getBlock", "sendAndConfirm", "executeSnipe", "bulk/getBalances", "relay/tipFloor", "sendBundle"} <= known
    assert not {"getSendStatus", "requestAirdrop", "getProgramAccounts", "explainTransaction"} & known
    assert {row.name for row in METHODS.values() if row.callable and row.credits} <= known
