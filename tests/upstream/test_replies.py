import itertools
import json

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.upstream import replies
from actors.upstream.replies import AnswerKind, judge

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@given(
    value=_JSON,
    order=st.permutations(["jsonrpc", "id", "result"]),
    spaced=st.booleans(),
    newline=st.booleans(),
    sent_id=st.sampled_from([1, 123_456_789_012_345]),
    client_id=st.sampled_from([b"7", b'"a\\u00e9"', b"null", b"123456789012345678901234567890", b"1.50e3"]),
)
def test_a_result_comes_back_under_the_clients_id(value, order, spaced, newline, sent_id, client_id):
    """In any key order and spacing, the reply differs from the node's answer in nothing but the id."""
    parts = {"jsonrpc": "2.0", "id": sent_id, "result": value}
    body = orjson.dumps({name: parts[name] for name in order}, option=orjson.OPT_INDENT_2 if spaced else None)
    answer = judge(body + b"\n" * newline, request_id=b"%d" % sent_id)
    assert judge(body, request_id=b"%d" % (sent_id + 1)).kind is AnswerKind.GARBAGE
    assert answer.kind is AnswerKind.RESULT
    reply = answer.reply(client_id)
    assert b'"id":' + client_id in reply.replace(b'"id": ', b'"id":')
    assert orjson.loads(answer.reply(b"%d" % sent_id)) == orjson.loads(body)
    assert orjson.loads(answer.value()) == value


def test_numbers_keep_their_digits():
    """Nothing is re-encoded: a float's exact text and a number beyond 64 bits survive."""
    body = b'{"jsonrpc":"2.0","result":{"a":1.10,"b":123456789012345678901234567890},"id":1}'
    assert judge(body).reply(b'"x"') == body.replace(b'"id":1', b'"id":"x"')


@pytest.mark.threat(14)
def test_an_error_keeps_code_message_and_data():
    """Threat 14: an upstream error passes through unchanged, `data` included."""
    body = b'{"jsonrpc":"2.0","error":{"code":-32002,"message":"x","data":{"logs":["a"],"n":1e3}},"id":1}\n'
    answer = judge(body)
    assert (answer.kind, answer.error_code, answer.error_message) == (AnswerKind.ERROR, -32002, "x")
    assert answer.reply(b"9") == body.rstrip().replace(b'"id":1}', b'"id":9}')
    assert answer.value() == b'{"code":-32002,"message":"x","data":{"logs":["a"],"n":1e3}}'


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\n",
        b"<html>busy</html>",
        b'{"jsonrpc":"2.0","result":1',
        b'{"jsonrpc":"2.0","result":1,"id":2}',
        b'{"jsonrpc":"2.0","result":1,"id":"1"}',
        b'{"jsonrpc":"2.0","result":1,"id":null}',
        b'{"jsonrpc":"2.0","result":1}',
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","result":1,"error":{"code":1,"message":"x"},"id":1}',
        b'{"jsonrpc":"2.0","error":"text","id":1}',
        b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}',
        b'[{"jsonrpc":"2.0","result":1,"id":1}]',
        b'{"jsonrpc":"2.0","result":"\xff","id":1}',
        b'{"jsonrpc":"2.0","result":1,"id":1}{"jsonrpc":"2.0","result":1,"id":1}',
        b'{"jsonrpc":"2.0","result":' + b"[" * 100_000 + b"]" * 100_000 + b',"id":1}',
    ],
)
@pytest.mark.threat(15)
def test_no_answer_is_garbage(body):
    """Threat 15: invalid JSON, a truncated body or somebody else's id is never taken for an answer."""
    assert judge(body).kind is AnswerKind.GARBAGE


def test_the_absent_half_may_be_null():
    """Some nodes send both members and one of them null."""
    assert judge(b'{"jsonrpc":"2.0","result":null,"error":null,"id":1}').kind is AnswerKind.RESULT
    assert judge(b'{"jsonrpc":"2.0","result":null,"error":{"code":1,"message":""},"id":1}').kind is AnswerKind.ERROR


@pytest.mark.parametrize("spaced", [True, False])
@pytest.mark.parametrize("order", list(itertools.permutations(["jsonrpc", "id", "result"])))
def test_large_results_are_judged_by_their_ends(order, spaced):
    """A body over a quarter of a megabyte is not read through, but its id and its end are still checked."""
    value = b'["' + b"x" * 300_000 + b'"]'
    parts = {"jsonrpc": b'"2.0"', "id": b"1", "result": value}
    colon, comma = (b" : ", b",\n  ") if spaced else (b":", b",")
    body = b"{%b}" % comma.join(b'"%b"%b%b' % (name.encode(), colon, parts[name]) for name in order)
    answer = judge(body)
    assert answer.kind is AnswerKind.RESULT
    assert answer.reply(b'"z"') == body.replace(b'"id"%b1' % colon, b'"id"%b"z"' % colon)
    assert answer.value() == value
    assert judge(body[:-1]).kind is AnswerKind.GARBAGE
    assert judge(body.replace(b'"id"%b1' % colon, b'"id"%b3' % colon)).kind is AnswerKind.GARBAGE


@pytest.mark.threat(15)
@pytest.mark.parametrize("order", list(itertools.permutations(["jsonrpc", "id", "result"])))
def test_a_huge_answer_is_never_parsed(order, monkeypatch):
    """Threat 15: a parser that reads a body of many megabytes answers nobody else meanwhile. So whatever order a node
    writes its members in, the ends decide, and a huge body of another form is no answer."""

    class Refusing:
        def decode(self, body):
            raise AssertionError(len(body))

    parts = {"jsonrpc": "2.0", "id": 1, "result": ["x" * 5_000_000]}
    body = json.dumps({name: parts[name] for name in order}).encode()
    monkeypatch.setattr(replies, "_DECODER", Refusing())
    assert judge(body).kind is AnswerKind.RESULT
    error = b'{"jsonrpc":"2.0","error":{"code":1,"message":"%b"},"id":1}' % (b"x" * 5_000_000)
    assert judge(error).kind is AnswerKind.GARBAGE
    assert judge(body.replace(b'"id": 1', b'"id": 3')).kind is AnswerKind.GARBAGE


@pytest.mark.parametrize(
    ("code", "message", "purged", "unavailable"),
    [
        (-32001, "Block 5 cleaned up, does not exist on node. First available block: 9", True, False),
        (-32004, "Block 5 cleaned up, does not exist on node. First available block: 9", True, False),
        (-32004, "Block not available for slot 5", False, True),
        (-32001, "Block not available for slot 5", False, False),
        (-32007, "Slot 5 was skipped, or missing due to ledger jump to recent snapshot", False, False),
        (-32602, "cleaned up", False, False),
        (-32004, "method is disabled in this service profile", False, False),
    ],
)
def test_a_block_that_the_node_has_not_is_known_by_code_and_text(code, message, purged, unavailable):
    """Decisions, "Errors of the node": the meaning is keyed on message and both codes."""
    assert replies.is_purged_block(code, message) is purged
    assert replies.is_unavailable_block(code, message) is unavailable


def test_there_is_no_reply_without_an_answer():
    """A failure has no bytes that could be sent to a client by mistake."""
    for failure in (replies.GARBAGE, replies.UNREACHABLE, replies.TIMED_OUT, replies.OVERSIZED):
        assert not failure.answered
        with pytest.raises(AssertionError):
            failure.reply(b"1")


def test_an_answer_made_here_is_one_like_the_nodes():
    """Doors give it the client's id and take its result out as they do with a node's."""
    for answer in (replies.made(b'{"a":1}'), replies.made_of_pieces(b'{"a":1}', 3, 2)):
        assert answer.kind is AnswerKind.RESULT
        assert answer.reply(b'"x"') == b'{"jsonrpc":"2.0","id":"x","result":{"a":1}}'
        assert answer.value() == b'{"a":1}'
    assert (answer.pieces, answer.done) == (3, 2)


@given(body=st.binary(max_size=200))
def test_no_bytes_raise(body):
    """Whatever a node sends is a kind of answer, never an exception."""
    assert isinstance(judge(body), msgspec.Struct)
