import orjson
import pytest

from actors.devnode.launchpad.endpoints import launch

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
