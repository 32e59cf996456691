"""Price lists on the operators' page: given, listed, and told where the settings lack them.

Rule: decisions, "Price lists" and "The operators' page".
"""

import logging

import pytest

from actors.operators.alerts import alerts_on
from actors.operators.ports import ProductLook
from actors.operators.price_lists import PriceListWatch
from actors.pricing_config import PricingConfig
from actors.telemetry.figures import ProcessFigures
from actors.telemetry.metrics import Metrics
from tests.gateway.world import call
from tests.operators.world import operated

PRICING = {"lists": {"wholesale": {"percent": 60, "methods": {"getBlock": 7}}, "dear": {"percent": 300}}}


async def test_an_operator_gives_a_list_and_the_next_call_costs_so() -> None:
    async with operated(pricing=PRICING) as one:
        customer = await one.world.customer(1_000)
        for name, cost in (("wholesale", "7"), ("dear", "75"), ("public", "25")):
            answer = await one.ask("POST", f"accounts/{customer.text}/price-list", {"name": name})
            assert answer.status_code == 200 and answer.json()["account"]["price_list"] == name, answer.text
            assert (await one.world.rpc(customer, call("getBlock", 5))).headers["x-credits-cost"] == cost
            shown = (await one.ask("GET", f"accounts/{customer.text}")).json()["account"]
            (row,) = (await one.ask("GET", "accounts")).json()["accounts"]
            assert shown["price_list"] == row["price_list"] == name


async def test_lists_are_shown_with_their_accounts_and_those_that_the_settings_lack() -> None:
    async with operated(pricing=PRICING) as one:
        customers = [await one.world.customer() for _ in range(3)]
        for customer, name in zip(customers, ("wholesale", "wholesale", "gone"), strict=True):
            await one.world.give_list(customer, name)
        told = (await one.ask("GET", "price-lists")).json()["price_lists"]
        assert told == [
            {"name": "dear", "percent": 300, "methods": {}, "in_settings": True, "accounts": 0},
            {"name": "gone", "percent": None, "methods": None, "in_settings": False, "accounts": 1},
            {"name": "wholesale", "percent": 60, "methods": {"getBlock": 7}, "in_settings": True, "accounts": 2},
        ]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"name": "wholesal"}, "it has dear, wholesale, and there is `public`"),
        ({"name": ""}, "name"),
        ({"name": "x" * 33}, "name"),
        ({}, "name"),
        ({"name": "dear", "more": 1}, "name"),
        (b'{"name": "dear", "name": "wholesale"}', "twice"),
        ({"name": None}, "name"),
    ],
)
async def test_what_cannot_be_given_changes_nothing_and_says_why(body: object, said: str) -> None:
    async with operated(pricing=PRICING) as one:
        customer = await one.world.customer()
        answer = await one.ask("POST", f"accounts/{customer.text}/price-list", body)
        assert answer.status_code == 400 and said in answer.json()["error"]["message"]
        shown = (await one.ask("GET", f"accounts/{customer.text}")).json()["account"]
        assert shown["price_list"] == "public"
        for path in ("accounts/nobody/price-list", f"accounts/{'1' * 32}/price-list"):
            assert (await one.ask("POST", path, {"name": "dear"})).status_code in (400, 404)
        one.token = "x" * 40
        assert (await one.ask("POST", f"accounts/{customer.text}/price-list", {"name": "dear"})).status_code == 401


async def test_a_list_that_left_the_settings_is_logged_counted_and_an_alert(caplog: pytest.LogCaptureFixture) -> None:
    """Its accounts pay the public prices: the safe side, as nobody has told another price."""
    async with operated() as one:
        metrics = Metrics()
        watch = PriceListWatch(one.world.accounts, PricingConfig(**PRICING), metrics)
        customer = await one.world.customer()
        for name, unknown in (("wholesale", 0), ("gone", 1), ("", 0)):
            await one.world.give_list(customer, name)
            with caplog.at_level(logging.WARNING):
                await watch.look()
            (gauge,) = [one for one in metrics.families() if one.name.endswith("price_lists_unknown")]
            assert gauge.samples[0].value == unknown
            figures = ProcessFigures("m", "gateway-1", 0, {"price_lists_unknown": unknown}, {})
            on = alerts_on(ProductLook(0, {}, [figures]), 0, has_watcher=False)
            assert ("PriceListUnknown" in {alert.name for alert in on}) is bool(unknown)
        told = [record.getMessage() for record in caplog.records if record.name.endswith("operators.price_lists")]
        assert [text.rpartition(": ")[2] for text in told] == ["gone", "none any more"]
        one.world.accounts.down = True
        await watch.look()
        assert watch.unknown == frozenset()
