import orjson
import pytest
from solders.pubkey import Pubkey
from solders.rpc.responses import SubscriptionResult, UnsubscribeResult, parse_websocket_message

from actors.devnode.pubsub.session import SUBSCRIBE, UNSUBSCRIBE
from actors.devnode.rpc.node import SOLANA_CORE_VERSION
from tests.devnode.local_node import LocalNode

from .conftest import NewListener
from .listener import Listener


def test_ids_are_numbers_and_end_with_true(listener: Listener) -> None:
    """Read by the types of an independent library."""
    listener.hear({"jsonrpc": "2.0", "id": 3, "method": "slotSubscribe"})
    (text,) = listener.queued()
    (subscribed,) = parse_websocket_message(text)
    assert isinstance(subscribed, SubscriptionResult) and subscribed.id == 3
    listener.hear({"jsonrpc": "2.0", "id": 4, "method": "slotUnsubscribe", "params": [subscribed.result]})
    (text,) = listener.queued()
    (ended,) = parse_websocket_message(text)
    assert isinstance(ended, UnsubscribeResult) and ended.result is True


@pytest.mark.parametrize("method", UNSUBSCRIBE)
def test_any_unsubscribe_ends_any_subscription(local: LocalNode, listener: Listener, method: str) -> None:
    """As upstream; and then nothing more is told."""
    identifier = listener.subscribe("slotSubscribe")
    assert listener.ask(method, identifier)["result"] is True
    local.beat()
    assert listener.told() == []
    assert listener.error(method, identifier) == (-32602, "Invalid subscription id.")


def test_the_ids_of_others_are_refused(new_listener: NewListener) -> None:
    """Ids are shared, but each connection ends only its own part."""
    one, other = new_listener(), new_listener()
    identifier = one.subscribe("slotSubscribe")
    assert other.error("slotUnsubscribe", identifier) == (-32602, "Invalid subscription id.")
    assert one.error("slotUnsubscribe", -1) == (
        -32602,
        "Invalid params: invalid value: integer `-1`, expected u64.",
    )


def test_methods_of_http_are_not_here(listener: Listener) -> None:
    """A socket knows subscriptions, and the one method that clients ask it for."""
    for method in ("getSlot", "sendTransaction", "nothingSubscribe"):
        assert listener.error(method) == (-32601, "Method not found")


def test_the_version_can_be_asked(listener: Listener) -> None:
    """The one method beside subscriptions."""
    assert listener.ask("getVersion")["result"]["solana-core"] == SOLANA_CORE_VERSION


@pytest.mark.parametrize(("method", "least", "most"), [(name, least, most) for name, _, least, most in SUBSCRIBE])
def test_the_number_of_parameters_is_checked(listener: Listener, method: str, least: int, most: int) -> None:
    """In the words of the library that Agave uses."""
    if least:
        assert listener.error(method) == (-32602, "`params` should have at least 1 argument(s)")
    code, message = listener.error(method, *(["x"] * (most + 1)))
    assert code == -32602 and message.startswith("Invalid parameters: ")


def test_a_batch_is_answered_in_order(local: LocalNode, listener: Listener) -> None:
    """One array of replies, before any notification; a mistake in one item spoils no other."""
    record = local.land(local.transfer(local.wallet(), Pubkey.new_unique(), 2_000_000))
    processed = {"commitment": "processed"}
    calls = [("slotSubscribe", []), ("accountSubscribe", ["x"]), ("signatureSubscribe", [record.signature, processed])]
    listener.hear(
        [
            {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            for number, (method, params) in enumerate(calls)
        ]
    )
    replies, told = map(orjson.loads, listener.queued())
    assert [reply["id"] for reply in replies] == [0, 1, 2]
    assert replies[1]["error"]["message"] == "Invalid Request: Invalid pubkey provided"
    assert told["params"]["subscription"] == replies[2]["result"]


@pytest.mark.parametrize(("request_body", "code"), [(b"{", -32700), (b"[]", -32600), (b"7", -32600)])
def test_what_is_no_call_is_answered(listener: Listener, request_body: bytes, code: int) -> None:
    """With an error and no id; the connection stays."""
    listener.hear(request_body)
    (text,) = listener.queued()
    assert orjson.loads(text)["error"]["code"] == code
    assert not listener.connection.is_cut


def test_a_call_without_an_id_gets_no_reply(local: LocalNode, listener: Listener) -> None:
    """It is done all the same."""
    listener.hear({"jsonrpc": "2.0", "method": "slotSubscribe"})
    assert listener.queued() == []
    local.beat()
    assert len(listener.told()) == 1
