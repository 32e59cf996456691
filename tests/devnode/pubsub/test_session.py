import orjson
import pytest
from solders.pubkey import Pubkey
from solders.rpc.responses import SubscriptionResult, UnsubscribeResult, parse_websocket_message

from devnode.pubsub.session import SUBSCRIBE, UNSUBSCRIBE
from devnode.rpc.node import SOLANA_CORE_VERSION
from tests.devnode.local_node import LocalNode

from .conftest import NewListener
from .listener import Listener


def test_ids_are_numbers_and_end_with_true(listener: Listener) -> None:
    """The replies decode with the types of an independent library."""
    listener.send({"jsonrpc": "2.0", "id": 3, "method": "slotSubscribe"})
    (text,) = listener.queued()
    (subscribed,) = parse_websocket_message(text)
    assert isinstance(subscribed, SubscriptionResult) and subscribed.id == 3
    listener.send({"jsonrpc": "2.0", "id": 4, "method": "slotUnsubscribe", "params": [subscribed.result]})
    (text,) = listener.queued()
    (ended,) = parse_websocket_message(text)
    assert isinstance(ended, UnsubscribeResult) and ended.result is True


@pytest.mark.parametrize("method", UNSUBSCRIBE)
def test_any_unsubscribe_ends_any_subscription(local: LocalNode, listener: Listener, method: str) -> None:
    """As on a node, every unsubscribe method works; afterwards there are no notifications."""
    identifier = listener.subscribe("slotSubscribe")
    assert listener.ask(method, identifier)["result"] is True
    local.beat()
    assert listener.notifications() == []
    assert listener.error(method, identifier) == (-32602, "Invalid subscription id.")


def test_a_connection_cannot_end_a_subscription_of_another(new_listener: NewListener) -> None:
    """Connections share ids, but each can end only its own subscriptions."""
    one, other = new_listener(), new_listener()
    identifier = one.subscribe("slotSubscribe")
    assert other.error("slotUnsubscribe", identifier) == (-32602, "Invalid subscription id.")
    assert one.error("slotUnsubscribe", -1) == (
        -32602,
        "Invalid params: invalid value: integer `-1`, expected u64.",
    )


def test_other_methods_are_not_found(listener: Listener) -> None:
    """A WebSocket connection has no methods of HTTP except getVersion."""
    for method in ("getSlot", "sendTransaction", "nothingSubscribe"):
        assert listener.error(method) == (-32601, "Method not found")


def test_the_version_can_be_asked(listener: Listener) -> None:
    """getVersion is the only method beside subscriptions."""
    assert listener.ask("getVersion")["result"]["solana-core"] == SOLANA_CORE_VERSION


@pytest.mark.parametrize(("method", "least", "most"), [(name, least, most) for name, _, least, most in SUBSCRIBE])
def test_the_number_of_parameters_is_checked(listener: Listener, method: str, least: int, most: int) -> None:
    """The error texts are those of the library that Agave uses."""
    if least:
        assert listener.error(method) == (-32602, "`params` should have at least 1 argument(s)")
    code, message = listener.error(method, *(["x"] * (most + 1)))
    assert code == -32602 and message.startswith("Invalid parameters: ")


def test_a_batch_is_answered_in_order(local: LocalNode, listener: Listener) -> None:
    """The replies are one array before any notification; an error in one item does not affect the others."""
    record = local.land(local.transfer(local.wallet(), Pubkey.new_unique(), 2_000_000))
    processed = {"commitment": "processed"}
    calls = [("slotSubscribe", []), ("accountSubscribe", ["x"]), ("signatureSubscribe", [record.signature, processed])]
    listener.send(
        [
            {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            for number, (method, params) in enumerate(calls)
        ]
    )
    replies, received = map(orjson.loads, listener.queued())
    assert [reply["id"] for reply in replies] == [0, 1, 2]
    assert replies[1]["error"]["message"] == "Invalid Request: Invalid pubkey provided"
    assert received["params"]["subscription"] == replies[2]["result"]


@pytest.mark.parametrize(("request_body", "code"), [(b"{", -32700), (b"[]", -32600), (b"7", -32600)])
def test_an_invalid_message_gets_an_error(listener: Listener, request_body: bytes, code: int) -> None:
    """The error has no id, and the connection stays open."""
    listener.send(request_body)
    (text,) = listener.queued()
    assert orjson.loads(text)["error"]["code"] == code
    assert not listener.connection.is_cut


def test_a_call_without_an_id_gets_no_reply(local: LocalNode, listener: Listener) -> None:
    """A notification is executed and not answered."""
    listener.send({"jsonrpc": "2.0", "method": "slotSubscribe"})
    assert listener.queued() == []
    local.beat()
    assert len(listener.notifications()) == 1
