"""The public documents: every promised field is there and is correct."""

from dataclasses import replace

import orjson
import pytest

from actors.config import PaymentsConfig
from actors.methods.catalog import METHODS
from actors.methods.price_lists import PriceList
from actors.methods.prices import Availability
from actors.pricing_config import PricingConfig
from actors.status.core import Health, Services
from actors.status.endpoints import capabilities_document, health_document, health_http_status, pricing_document
from actors.status.products import Doors
from actors.upstream.node_health import Probe

NOW, STARTED = 1_700_000_500, 1_700_000_000
UP = Services(ledger_committing=True, redis_reachable=True)
GOOD = Probe(True, slot=1_000, block_height=900, version="2.3.0")
SERVED = ["POST /", "GET /health"]
OUTCOMES = {"result": True, "timeout": False}
STARTING = Health()
OK = Health().after_services(UP).after_probe(GOOD, 1_000)
DEGRADED = OK.after_services(Services(ledger_committing=True, redis_reachable=False))
AUTH = {"wallet_signature": True, "api_key": True, "session_token": True}


def pricing() -> dict[str, object]:
    document = pricing_document(PaymentsConfig(), PricingConfig(), OUTCOMES, Doors())
    assert orjson.loads(orjson.dumps(document)) == document
    return document


def test_the_health_document_when_all_is_well() -> None:
    """Interface, "Health document": every field, and fallback_active only when degraded."""
    assert health_document(OK, NOW, STARTED, Doors()) == {
        "status": "ok",
        "paid_traffic_ready": True,
        "agave_healthy": True,
        "service_profile": {
            "auth": AUTH,
            "services": {
                "hot_rpc": True,
                "send": True,
                "websocket": False,
                "yellowstone_grpc": False,
                "heavy_indexed_rpc": True,
            },
        },
        "timestamp": NOW,
        "solanaSlot": 1_000,
        "solanaBlockHeight": 900,
        "uptime": 500,
        "nodeVersion": "2.3.0",
    }
    assert health_http_status(OK) == 200


def test_health_tells_which_source_signals_are_read_from() -> None:
    """Interface, "Health document": beside its fields, and whatever the status is."""
    assert "signals" not in health_document(OK, NOW, STARTED, Doors())
    document = health_document(OK, NOW, STARTED, Doors(), signals={"source": "blocks", "lag_slots": None})
    assert document["signals"] == {"source": "blocks", "lag_slots": None} and document["status"] == "ok"


def test_the_health_document_when_degraded() -> None:
    document = health_document(DEGRADED, NOW, STARTED, Doors())
    assert document["status"] == "degraded"
    assert document["fallback_active"] is False
    assert not {"solanaSlot", "solanaBlockHeight", "uptime", "nodeVersion"} & document.keys()
    assert health_http_status(DEGRADED) == 200


def test_the_health_document_when_starting() -> None:
    document = health_document(STARTING, NOW, STARTED, Doors())
    assert document["status"] == "starting"
    assert document["paid_traffic_ready"] is document["agave_healthy"] is False
    assert "fallback_active" not in document
    assert health_http_status(STARTING) == 503


def test_a_figure_that_the_node_has_not_given_is_left_out() -> None:
    silent = Health().after_services(UP).after_probe(Probe(True, slot=5), 5)
    document = health_document(silent, NOW, STARTED, Doors())
    assert document["solanaSlot"] == 5
    assert "nodeVersion" not in document


def test_the_pricing_document_has_every_field() -> None:
    """Decisions, "pricing"."""
    document = pricing()
    assert set(document) == {
        "ok",
        "price_list",
        "credits_per_usdc",
        "minimum_deposit_usdc",
        "credit_expiry_days",
        "classes",
        "methods",
        "outcome_priced",
        "percentage_priced",
        "bulk",
        "relay",
        "streams",
        "webhooks",
        "cached",
        "consistency",
        "outcomes",
    }
    assert document["ok"] is True
    assert document["credits_per_usdc"] == 100_000
    assert document["minimum_deposit_usdc"] == "0.01"
    assert document["credit_expiry_days"] == 365


def test_the_published_prices_are_the_interfaces() -> None:
    document = pricing()
    assert document["classes"] == {
        "READ_CHEAP": 1,
        "READ_MEDIUM": 5,
        "READ_HEAVY": 25,
        "SEND": 2,
        "SEND_AND_CONFIRM": None,
        "SEND_BUNDLE": 10,
        "SEND_STATUS": 0,
        "TRADE_BUILD": None,
        "DISCOVERY": 0,
        "ARCHIVE_HISTORY": None,
        "DENIED": None,
    }
    assert document["outcome_priced"] == {
        "sendAndConfirm": {"landing_credits": 50, "base_credits": 2, "available": True}
    }
    assert document["percentage_priced"] == {
        name: {"build_credits": 25, "trade_bps": 50, "sol_usd": None, "sol_usd_age_seconds": None, "available": True}
        for name in ("executeSnipe", "executeSell")
    }
    assert document["bulk"] == {
        "getBalances": {"credits": 1, "per": "address", "available": True},
        "getTokenBalances": {"credits": 5, "per": "owner", "available": True},
        "getTransactions": {"credits": 5, "per": "signature", "available": True},
    }
    assert document["relay"] == {
        name: {"credits": credits, "per": "request", "available": False}
        for name, credits in (
            *(("sendBundle", 10), ("getBundleStatuses", 2), ("getTipAccounts", 1), ("tipFloor", 1)),
            *(("getInflightBundleStatuses", 2), ("sendTransaction", 2)),
        )
    }
    assert document["webhooks"] == {
        name: {"credits": credits, "per": "delivered event", "available": True}
        for name, credits in (("account", 1), ("program", 1), ("my_account", 1), ("signal", 1), ("lifecycle", 0))
    }
    assert document["streams"] == {
        "websocket": {
            "connect_credits": 5,
            "notifications_per_credit": 10,
            "unsubscribe_credits": 0,
            "available": False,
        },
        "signals": dict(connect_credits=5, event_credits=1, unsubscribe_credits=0, available=False)  # noqa: C408
        | {"history_credits": 10, "history_events": 1_000},
        "grpc": {
            "request_credits": 1,
            "replay_request_credits": 1,
            "interval_credits": 60,
            "interval_seconds": 60,
            "unpaid_seconds_kept": 600,
            "available": False,
        },
    }
    assert document["cached"] == {"percent": 50, "credits_min": 1}
    assert document["consistency"]["further_credits"] == 0
    assert document["outcomes"] == {"result": {"charged": True}, "timeout": {"charged": False}}


def test_every_method_is_published_with_its_class_price_and_whether_it_can_be_called() -> None:
    """Billed and published prices come from one table, and a product that is not built is not available."""
    methods = pricing()["methods"]
    assert isinstance(methods, dict)
    assert methods.keys() == METHODS.keys()
    assert methods["getBalance"] == {"class": "READ_CHEAP", "credits": 1, "available": True}
    for name, row in METHODS.items():
        assert methods[name]["available"] is (row.availability in (Availability.NODE, Availability.COMPOSED))
        assert methods[name]["credits"] == row.credits


def test_configured_prices_are_published() -> None:
    payments = PaymentsConfig(credits_per_usdc=7, credit_expiry_days=30, minimum_deposit_base_units=2_500_000)
    document = pricing_document(payments, PricingConfig(landing_credits=60, base_credits=3), {}, Doors())
    assert (document["credits_per_usdc"], document["credit_expiry_days"]) == (7, 30)
    assert document["minimum_deposit_usdc"] == "2.50"
    assert document["outcome_priced"]["sendAndConfirm"] == {
        "landing_credits": 60,
        "base_credits": 3,
        "available": True,
    }


def test_a_price_list_is_published_to_its_accounts_row_by_row() -> None:
    """Decisions, "Price lists": the same document at other prices, whole credits rounded up, events exactly."""
    prices = PriceList("wholesale", 30, {"getBlock": 7, "bulk/getTokenBalances": 4, "executeSell": 9})
    listed = pricing_document(PaymentsConfig(), PricingConfig(), OUTCOMES, Doors(), prices)
    assert listed["price_list"] == {"name": "wholesale", "percent": 30}
    names = ("getSlot", "getTransaction", "getBlock", "getBlocks", "getSendStatus", "requestAirdrop")
    assert [listed["methods"][name]["credits"] for name in names] == [1, 2, 7, 8, 0, None]
    assert listed["outcome_priced"]["sendAndConfirm"] == {"landing_credits": 15, "base_credits": 1, "available": True}
    built = listed["percentage_priced"]
    assert [(built[name]["build_credits"], built[name]["trade_percent"]) for name in sorted(built)] == [
        (9, 30),
        (8, 30),
    ]
    assert [row["credits"] for row in listed["bulk"].values()] == [1, 4, 2]
    assert listed["relay"]["sendBundle"]["credits"] == 3 and listed["webhooks"]["account"]["credits"] == 1
    streams = listed["streams"]
    assert streams["websocket"] == {
        "connect_credits": 2,
        "credits_per_1000_notifications": 30,
        "unsubscribe_credits": 0,
        "available": False,
    }
    assert (streams["signals"]["history_credits"], streams["signals"]["history_events"]) == (3, 1_000)
    assert streams["signals"]["credits_per_1000_events"] == 300 and "event_credits" not in streams["signals"]
    assert streams["grpc"]["interval_credits"] == 18 and streams["grpc"]["interval_seconds"] == 60
    assert listed.keys() == pricing().keys() and _floats(listed) == []
    half = pricing_document(PaymentsConfig(), PricingConfig(), OUTCOMES, Doors(), PriceList("half", 50))["streams"]
    assert half["websocket"]["notifications_per_credit"] == 20  # Where it is a whole number.


def _floats(value: object) -> list[float]:
    if isinstance(value, dict):
        return [number for item in value.values() for number in _floats(item)]
    if isinstance(value, list):
        return [number for item in value for number in _floats(item)]
    return [value] if isinstance(value, float) else []


def test_no_float_is_published() -> None:
    """Money rule 7."""
    assert _floats(pricing()) == []


def test_capabilities_say_what_is_offered_and_why_the_rest_is_not() -> None:
    """Interface: {ok, service_profile} with archive_history; the lists are this service's own addition."""
    document = capabilities_document(Doors(), SERVED)
    assert orjson.loads(orjson.dumps(document)) == document
    assert document["ok"] is True
    assert document["service_profile"] == {
        "auth": AUTH,
        "services": {
            "hot_rpc": True,
            "send": True,
            "websocket": False,
            "yellowstone_grpc": False,
            "heavy_indexed_rpc": True,
            "archive_history": False,
        },
    }
    reasons = {entry["service"]: entry["reason"] for entry in document["services_not_enabled"]}
    assert reasons.keys() == {"websocket", "yellowstone_grpc", "archive_history"}
    assert "configured" in reasons["yellowstone_grpc"]


def test_capabilities_list_the_endpoints_that_are_served() -> None:
    """Each endpoint is served or not; one that is built leaves the other list by itself."""
    endpoints = capabilities_document(Doors(), ["POST /", "POST /mcp"])["endpoints"]
    assert endpoints["available"] == ["POST /", "POST /mcp"]
    missing = [entry["endpoint"] for entry in endpoints["not_enabled"]]
    why = {entry["endpoint"]: entry["reason"] for entry in endpoints["not_enabled"]}
    assert "no block engine is configured" in why["POST /relay/sendBundle"]
    assert "POST /mcp" not in missing
    assert "POST /relay/sendBundle" in missing


def test_every_method_is_in_exactly_one_list_of_capabilities() -> None:
    methods = capabilities_document(Doors(relay=True), SERVED)["methods"]
    not_enabled = [entry["method"] for entry in methods["not_enabled"]]
    assert sorted(methods["available"] + not_enabled) == sorted(METHODS)
    assert all(METHODS[name].callable for name in methods["available"])
    assert all(entry["reason"] for entry in methods["not_enabled"])


def test_bundles_are_offered_where_there_is_a_block_engine() -> None:
    """Prices are published in any case."""
    for doors in (Doors(), Doors(relay=True)):
        document = pricing_document(PaymentsConfig(), PricingConfig(), OUTCOMES, doors)
        assert document["methods"]["sendBundle"] == {
            "class": "SEND_BUNDLE",
            "credits": 10,
            "available": doors.relay,
        }
        assert {row["available"] for row in document["relay"].values()} == {doors.relay}
        assert ("sendBundle" in capabilities_document(doors, SERVED)["methods"]["available"]) is doors.relay


def test_subscriptions_follow_the_door() -> None:
    """Interface: the availability of blockSubscribe and voteSubscribe is listed in /capabilities."""
    closed = capabilities_document(Doors(), SERVED)["subscriptions"]
    assert closed["available"] == []
    assert {"blockSubscribe", "voteSubscribe"} <= {entry["method"] for entry in closed["not_enabled"]}
    opened = capabilities_document(Doors(websocket=True, grpc=True), SERVED)
    assert "voteSubscribe" in opened["subscriptions"]["available"]
    assert [entry["method"] for entry in opened["subscriptions"]["not_enabled"]] == ["subscribeSignal"]
    complete = capabilities_document(Doors(websocket=True, signals=True), SERVED)["subscriptions"]
    assert complete["not_enabled"] == [] and "subscribeSignal" in complete["available"]
    assert opened["service_profile"]["services"]["yellowstone_grpc"] is True


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        (replace(UP, owners_away=(1, 3)), "account_owners_away", [1, 3]),
        (replace(UP, hub_reachable=False), "stream_hub_away", True),
    ],
    ids=["owners", "hub"],
)
def test_a_part_that_is_away_is_named_only_while_it_is(part: Services, name: str, value: object) -> None:
    found = health_document(OK.after_services(part), NOW, STARTED, Doors())
    assert (found["status"], found[name]) == ("degraded", value)
    assert name not in health_document(OK, NOW, STARTED, Doors())


def test_what_degrades_nothing_is_a_flag_beside_the_status() -> None:
    """Threat 53 (clocks that disagree): shown only while it lasts; calls go on, and nothing expires. Decisions, "health
    transitions": a sponsor without money does not degrade the service, because calls continue."""
    plain = health_document(OK, NOW, STARTED, Doors(), clocks_disagree=False, sponsor_low=None)
    flagged = health_document(OK, NOW, STARTED, Doors(), clocks_disagree=True)
    assert flagged == plain | {"clocks_disagree": True}
    for low in (True, False):
        flagged = health_document(OK, NOW, STARTED, Doors(), sponsor_low=low)
        assert flagged == plain | {"sponsor_balance_low": low}
