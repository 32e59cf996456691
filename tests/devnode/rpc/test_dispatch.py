import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.devnode.local_node import LocalNode


def test_the_bytes_of_a_reply_are_stable(local: LocalNode) -> None:
    call = b'{"jsonrpc":"2.0","id":"a","method":"getGenesisHash"}'
    assert local.dispatcher.answer(call) == (
        b'{"jsonrpc":"2.0","result":"EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG","id":"a"}'
    )
    unknown = b'{"jsonrpc":"2.0","id":null,"method":"getNothing"}'
    assert local.dispatcher.answer(unknown) == (
        b'{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":null}'
    )


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"", -32700),
        (b"[]", -32600),
        (b"5", -32600),
        (b"{}", -32600),
        (b'{"method":5}', -32600),
        (b'{"jsonrpc":"2.0","params":[]}', -32600),
        (b'{"id":1,"method":"getSlot"}', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"getSlot"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"getSlot","params":{"a":1}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"getSlot","params":[1,2]}', -32602),
    ],
)
def test_malformed_calls(local: LocalNode, body: bytes, code: int) -> None:
    """A body that is not a JSON-RPC call is answered with the error code for the reason."""
    answer = local.dispatcher.answer(body)
    assert answer is not None and orjson.loads(answer)["error"]["code"] == code


def test_too_few_parameters_have_the_error_text_of_a_node(local: LocalNode) -> None:
    assert local.error("getBalance") == (-32602, "`params` should have at least 1 argument(s)")


def test_a_batch_is_answered_in_order_without_its_notifications(local: LocalNode) -> None:
    batch = [
        {"jsonrpc": "2.0", "id": 1, "method": "getHealth"},
        {"jsonrpc": "2.0", "method": "getHealth"},
        {"jsonrpc": "2.0", "id": 2, "method": "getNothing"},
        5,
    ]
    answer = local.dispatcher.answer(orjson.dumps(batch))
    assert answer is not None
    replies = orjson.loads(answer)
    assert [reply["id"] for reply in replies] == [1, 2, None]
    assert replies[0]["result"] == "ok" and replies[2]["error"]["code"] == -32600


def test_notifications_are_not_answered(local: LocalNode) -> None:
    one = {"jsonrpc": "2.0", "method": "getHealth"}
    assert local.dispatcher.answer(orjson.dumps(one)) is None
    assert local.dispatcher.answer(orjson.dumps([one, one])) is None


@given(st.binary(max_size=200))
def test_no_bytes_crash_it(body: bytes) -> None:
    from devnode.rpc.dispatch import Dispatcher

    answer = Dispatcher(None, {}).answer(body)  # type: ignore[arg-type]
    assert answer is None or b'"error"' in answer
