from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from devnode.records.commitment import Commitment
from devnode.rpc.dispatch import Unfinished
from tests.devnode.local_node import LocalNode, give, text

PROCESSED = {"encoding": "base64", "preflightCommitment": "processed"}


def body(transaction: VersionedTransaction, config: dict[str, Any], **fields: Any) -> bytes:
    params = [text(transaction), {"encoding": "base64"} | config]
    return orjson.dumps({"jsonrpc": "2.0", "method": "sendTransaction", "params": params} | fields)


def begun(local: LocalNode, transaction: VersionedTransaction, config: dict[str, Any] = PROCESSED) -> Unfinished[Any]:
    unfinished = local.dispatcher.begin(body(transaction, config, id=3))
    assert isinstance(unfinished, Unfinished)
    return unfinished


def finished(unfinished: Unfinished[Any], is_signed: bool) -> dict[str, Any]:
    reply: dict[str, Any] = orjson.loads(unfinished.finish(is_signed))
    assert reply["id"] == 3
    return reply


def forged(transaction: VersionedTransaction) -> VersionedTransaction:
    return VersionedTransaction.populate(transaction.message, [Signature.default()])


@pytest.mark.parametrize("is_signed", [False, True])
def test_a_send_lands_with_its_second_half(local: LocalNode, is_signed: bool) -> None:
    transaction = local.transfer(local.wallet(), Pubkey.new_unique(), 10**6)
    unfinished = begun(local, transaction)
    assert unfinished.raw == bytes(transaction)
    assert list(local.chain.open_transactions()) == []
    assert finished(unfinished, is_signed)["result"] == str(transaction.signatures[0])
    assert [record.raw for record in local.chain.open_transactions()] == [unfinished.raw]


@pytest.mark.parametrize("config", [PROCESSED, {"preflightCommitment": "finalized"}])
def test_unchecked_signatures_are_checked_in_the_second_half(local: LocalNode, config: dict[str, Any]) -> None:
    """Preflight at either level checks them; signatures that are already checked are not checked again."""
    payer, to = local.wallet(), Pubkey.new_unique()
    local.land(local.transfer(payer, to, 2 * 10**6))  # So a preflight at finalized needs a run of its own.
    known = local.chain.blockhashes.latest_at(local.chain.levels.at(Commitment.FINALIZED).slot)
    transaction = forged(local.signed(payer, give(payer, to, 10**6), blockhash=known.blockhash))
    error = finished(begun(local, transaction, config), False)["error"]
    assert (error["code"], error["data"]["err"]) == (-32002, "SignatureFailure")
    assert len(list(local.chain.open_transactions())) == 1
    assert "result" in finished(begun(local, transaction, config), True)
    assert len(list(local.chain.open_transactions())) == 2


def test_the_second_half_uses_the_present_state(local: LocalNode) -> None:
    """Of two copies begun together one lands; a hash that expired between the halves is refused."""
    payer, to = local.wallet(), Pubkey.new_unique()
    transaction = local.transfer(payer, to, 10**6)
    first, second = begun(local, transaction), begun(local, transaction)
    late = begun(local, local.transfer(payer, to, 10**6 + 1))
    assert "result" in finished(first, True)
    assert finished(second, True)["error"]["data"]["err"] == "AlreadyProcessed"
    local.beat(151)
    assert finished(late, True)["error"]["data"]["err"] == "BlockhashNotFound"


def test_bad_parameters_are_refused_in_the_first_half(local: LocalNode) -> None:
    answer = local.dispatcher.begin(
        orjson.dumps({"jsonrpc": "2.0", "id": 3, "method": "sendTransaction", "params": [5]})
    )
    assert isinstance(answer, bytes) and orjson.loads(answer)["error"]["code"] == -32602


def test_a_notification_lands_and_is_not_answered(local: LocalNode) -> None:
    unfinished = local.dispatcher.begin(body(local.transfer(local.wallet(), Pubkey.new_unique(), 10**6), PROCESSED))
    assert isinstance(unfinished, Unfinished) and unfinished.finish(True) is None
    assert len(list(local.chain.open_transactions())) == 1
    unfinished = local.dispatcher.begin(body(forged(local.transfer(local.wallet(), Pubkey.new_unique(), 1)), PROCESSED))
    assert isinstance(unfinished, Unfinished) and unfinished.finish(False) is None


def test_a_batch_is_answered_in_one_step(local: LocalNode) -> None:
    payer, to = local.wallet(), Pubkey.new_unique()
    sends = [orjson.loads(body(local.transfer(payer, to, 10**6 + at), PROCESSED, id=at)) for at in range(3)]
    answer = local.dispatcher.begin(orjson.dumps(sends))
    assert isinstance(answer, bytes)
    assert ["result" in reply for reply in orjson.loads(answer)] == [True] * 3


def test_without_preflight_a_bad_signature_is_answered_and_does_not_land(local: LocalNode) -> None:
    transaction = forged(local.transfer(local.wallet(), Pubkey.new_unique(), 10**6))
    assert "result" in finished(begun(local, transaction, {"skipPreflight": True}), False)
    assert list(local.chain.open_transactions()) == []


def test_the_bytes_of_a_reply_are_stable(local: LocalNode) -> None:
    call = b'{"jsonrpc":"2.0","id":"a","method":"getGenesisHash"}'
    assert local.dispatcher.answer(call) == (
        b'{"jsonrpc":"2.0","result":"EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG","id":"a"}'
    )
    unknown = b'{"jsonrpc":"2.0","id":null,"method":"getNothing"}'
    assert local.dispatcher.answer(unknown) == (
        b'{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found","data":"getNothing is no method of this'
        b' node, which has Agave\'s and simulateBundle"},"id":null}'
    )


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        ("getConfirmedBlock", "getConfirmedBlock is gone from Agave, and from here: use getBlock"),
        ("getRecentBlockhash", "getRecentBlockhash is gone from Agave, and from here: use getLatestBlockhash"),
        ("slotSubscribe", "slotSubscribe is asked over WebSocket"),
        ("getAsset", "getAsset is no method of this node, which has Agave's and simulateBundle"),
        ("x" * 9_999, "x" * 64 + " is no method of this node, which has Agave's and simulateBundle"),
    ],
)
def test_a_method_that_is_not_there_says_why(local: LocalNode, method: str, reason: str) -> None:
    assert local.reply(method)["error"] == {"code": -32601, "message": "Method not found", "data": reason}


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
