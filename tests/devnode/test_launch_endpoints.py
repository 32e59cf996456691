import orjson
import pytest

from devnode.launch_endpoints import ACTIONS_MAX, MARKETS_MAX, launch, market

from .pad import Pad


def test_a_launch_answers_with_addresses_and_signatures(pad: Pad) -> None:
    reply = launch(pad.local.node, {"kind": "mayhem", "trades": 1})
    shown = orjson.loads(reply.body)
    assert reply.status == 200 and shown["ok"] and shown["is_mayhem"] and len(shown["signatures"]) == 2
    assert (shown["curve_type"], shown["quote_asset"]) == ("classic", "SOL")
    assert int(shown["virtual_quote_reserves"]) > 30 * 10**9


@pytest.mark.parametrize(
    "fields",
    [{"kind": 5}, {"kind": "x"}, {"trades": "3"}, {"trades": True}, {"quote": "EUR"}, {"colour": "red"}],
)
def test_bad_requests_launch_nothing(pad: Pad, fields: dict[str, object]) -> None:
    before = pad.local.chain.transaction_count
    reply = launch(pad.local.node, fields)
    assert reply.status == 400 and orjson.loads(reply.body)["ok"] is False
    assert pad.local.chain.transaction_count == before


def test_a_launch_that_fails_says_why(pad: Pad) -> None:
    reply = launch(pad.local.node, {"symbol": "MUCHTOOLONG"})
    assert reply.status == 500 and "custom program error: 0x179c" in orjson.loads(reply.body)["error"]


def test_a_market_goes_on_with_the_next_call(pad: Pad) -> None:
    """Each answer has the new transactions, with what they must be read as; a forgotten seed is refused."""
    node, signatures = pad.local.node, set()
    for _ in range(2):
        reply = market(node, {"seed": 5, "actions": 10})
        shown = orjson.loads(reply.body)
        assert reply.status == 200 and shown["seed"] == 5 and len(shown["transactions"]) >= 10
        for one in shown["transactions"]:
            assert set(one) == {"signature", "slot", "action", "failed", "routed", "expected"}
        signatures |= {one["signature"] for one in shown["transactions"]}
        assert len(signatures) >= len(shown["transactions"])
        pad.local.beat()
    assert len(signatures) >= 20
    kinds = {event["kind"] for one in shown["transactions"] for event in one["expected"]}
    assert kinds <= {"newPair", "graduation", "swap"}
    for seed in range(6, 6 + MARKETS_MAX):
        assert market(node, {"seed": seed, "actions": 1}).status == 200
    again = market(node, {"seed": 5, "actions": 1})
    assert again.status == 500 and "seed 5 has been used" in orjson.loads(again.body)["error"]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"seed": -1},
        {"seed": True},
        {"seed": "1"},
        {"seed": 1, "actions": 0},
        {"seed": 1, "actions": ACTIONS_MAX + 1},
        {"seed": 1, "colour": "red"},
        {"seed": 2**63},
    ],
)
def test_bad_requests_begin_no_market(pad: Pad, fields: dict[str, object]) -> None:
    before = pad.local.chain.transaction_count
    reply = market(pad.local.node, fields)
    assert reply.status == 400 and orjson.loads(reply.body)["ok"] is False
    assert pad.local.chain.transaction_count == before
