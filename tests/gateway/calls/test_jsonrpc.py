import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import Err, Refusal
from actors.gateway.calls.jsonrpc import BRACKETS_MAX, COMMAS_MAX, INTRICATE, BadCall, Call, parse


def text(raw_id: bytes = b"1", method: bytes = b'"getSlot"', params: bytes | None = None) -> bytes:
    tail = b"" if params is None else b',"params":' + params
    return b'{"jsonrpc":"2.0","id":' + raw_id + b',"method":' + method + tail + b"}"


def refusal_of(body: bytes) -> Refusal:
    parsed = parse(body)
    assert not isinstance(parsed, Call | list), parsed
    return parsed.refusal


@pytest.mark.parametrize("raw_id", [b"{}", b"[1]", b"true", b"false", b'"%b"' % (b"x" * 5_000)])
@pytest.mark.threat(10)
def test_ids_that_are_none_are_refused_and_not_echoed(raw_id):
    """Threat 10: objects, arrays, booleans and absurdly long texts are no ids."""
    parsed = parse(text(raw_id))
    assert isinstance(parsed, BadCall)
    assert (parsed.id, parsed.refusal.err) == (b"null", Err.INVALID_REQUEST)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"getSlot",
        text() + b" x",
        text(params=b"[1e400]"),
        text(params=b"[NaN]"),
        text(params=b"[Infinity]"),
        text(params=b"[01]"),
        text(params=b'["\\ud800"]'),
        text(params=b'["\xff"]'),
        b"\xef\xbb\xbf" + text(),
        text().decode().encode("utf-16"),
        b"[" * 100_000 + b"]" * 100_000,
        text(params=b"[" * 100_000 + b"]" * 100_000),
        text(params=b"[" * 990 + b"]" * 990),
        text(params=b'[{"a":' * 300 + b"1" + b"}]" * 300),
        text(params=b"[" * 120 + b"]" * 120),
    ],
)
@pytest.mark.threat(10)
def test_bombs_are_refused_before_anything_else(body):
    """Threat 10: depth, numbers out of range, lone surrogates and broken UTF-8 cost a 400 and nothing more."""
    assert refusal_of(body).err is Err.INVALID_REQUEST


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"getSlot","method":"getBlock"}',
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"getSlot"}',
        b'{"jsonrpc":"2.0","id":1,"\\u0069d":2,"method":"getSlot"}',
        text(params=b'[{"encoding":"base64","encoding":"base58"}]'),
        text(params=b'[[{"a":{"b":1,"b":2}}],"x:y"]'),
    ],
)
@pytest.mark.threat(10)
def test_a_name_that_comes_twice_is_refused(body):
    """Threat 10: what two readers could read differently is not passed on."""
    assert refusal_of(body).err is Err.INVALID_REQUEST


@pytest.mark.parametrize(
    "params", [b'["a:b:c"]', b'[{"a":1},{"a":2}]', b'[{"a:b":{"a":":"}}]', b'["\\"a\\":1,\\"a\\":2"]']
)
def test_colons_in_texts_are_not_taken_for_names(params):
    """The quick count may only ever ask for the exact look, never refuse by itself."""
    parsed = parse(text(params=params))
    assert isinstance(parsed, Call)
    assert parsed.params == params


_KEYS = b'"So11111111111111111111111111111111111111112",' * 100
_SLICED = b"[[" + _KEYS[:-1] + b'],{"encoding":"base64","dataSlice":{"offset":0,"length":0}}]'


def test_a_long_batch_may_have_nested_configurations():
    """What clients send when they look up many accounts; a name that comes twice is noticed there too."""
    batch = b"[" + b",".join([text(params=_SLICED)] * 40) + b"]"
    assert all(isinstance(item, Call) and item.params == _SLICED for item in parse(batch))
    twice = _SLICED.replace(b'"offset":0', b'"offset":0,"offset":1')
    parsed = parse(batch[:-1] + b"," + text(params=twice) + b"]")
    assert [isinstance(item, Call) for item in parsed] == [True] * 40 + [False]


def filled(piece: bytes, count: int) -> bytes:
    """A call with so many of these pieces among its parameters, and a colon in a text, which calls for a close look."""
    return text(params=b'["a:b",' + b",".join([piece] * count) + b"]")


@pytest.mark.parametrize(
    ("piece", "count_max"), [(b"[]", BRACKETS_MAX - 2), (b"{}", BRACKETS_MAX - 2), (b'"a"', COMMAS_MAX - 3)]
)
def test_a_body_with_too_many_brackets_or_commas_is_refused_before_it_is_parsed(piece, count_max, monkeypatch):
    """Threat 61: 87,000 brackets took 20 ms, free for everybody. Texts count too."""
    assert isinstance(parse(filled(piece, count_max)), Call)
    at_limit = filled(piece, count_max + 1)
    monkeypatch.setattr("actors.gateway.calls.jsonrpc.orjson.loads", None)
    assert refusal_of(at_limit) == INTRICATE
    assert refusal_of(b'["' + b"[" * (BRACKETS_MAX + 1) + b'"]') == INTRICATE


def test_a_batch_is_counted_as_a_whole():
    """Rule: the work on a body is bounded, however many calls it is divided into: 850 empty arrays each are refused."""
    assert refusal_of(b"[" + b",".join([filled(b"[]", 850)] * 100) + b"]") == INTRICATE


def test_the_largest_honest_bodies_are_read():
    """Rule: no request that this service serves has too many: lists of keys fill 256 kB with 7,300 commas."""
    keys = b"[" + (b'"' + b"1" * 32 + b'",') * 7_400 + b'""]'
    assert isinstance(parse(text(params=keys)), Call)
    calls = b",".join([text(params=b"[" + _SLICED[1:-1] + b"]")] * 60)
    assert len(calls) > 250_000 and isinstance(parse(b"[" + calls + b"]"), list)


@pytest.mark.parametrize(
    ("params", "twins"),
    [
        (rb'["a:b",{"a":1,"a":2}]', True),
        (rb'["a:b",{"a":1,"b":2}]', False),
        (rb'["\":",{"a":1,"a":2}]', True),
        (rb'["\\",{"a":1,"a":":"}]', True),
        (rb'["\\\":{\"a\":1",{"a":1}]', False),
        (rb'["\n\\",{":\"":1,"b":":"}]', False),
        (rb'["a:b",{"a":1,"\u0061":2}]', True),
        (rb'["a:b",[[{"x":{"a":1,"b":{"c":1,"c":1}}}]]]', True),
    ],
)
def test_twins_are_found_beside_colons_in_texts(params, twins):
    """Rule: a colon in a text names nothing, whatever is escaped before it."""
    if twins:
        assert "twice" in refusal_of(text(params=params)).detail
    else:
        assert isinstance(parse(text(params=params)), Call)


@given(st.recursive(st.text(max_size=4) | st.integers(), lambda inner: st.dictionaries(st.text(max_size=3), inner)))
def test_an_object_without_twins_is_never_refused(value):
    """Rule: counting colons and names is exact for every text that a name or a value can have."""
    assert isinstance(parse(text(params=json.dumps(["a:b", value]).encode())), Call)


@pytest.mark.parametrize(
    "body",
    [
        b'{"id":1,"method":"getSlot"}',
        b'{"jsonrpc":"1.0","id":1,"method":"getSlot"}',
        b'{"jsonrpc":2.0,"id":1,"method":"getSlot"}',
        b'{"jsonrpc":"2.0","id":1}',
        text(method=b'""'),
        text(method=b"7"),
        text(params=b'"x"'),
        text(params=b"7"),
        b"7",
        b'"getSlot"',
        b"null",
    ],
)
def test_what_is_no_request_is_invalid(body):
    """Interface: missing jsonrpc, method or id is HTTP 400."""
    assert refusal_of(body).err is Err.INVALID_REQUEST


def test_params_may_be_absent_or_null_or_given_by_name():
    """JSON-RPC 2.0: an array or an object, whose exact bytes go on; the method's rule says whether it takes names."""
    for body in (text(), text(params=b"null")):
        parsed = parse(body)
        assert (parsed.params, parsed.arguments) == (b"[]", [])
    parsed = parse(text(raw_id=b'"x"', params=b'{"a" :1.0}'))
    assert (parsed.id, parsed.params, parsed.arguments) == (b'"x"', b'{"a" :1.0}', {"a": 1.0})
    assert refusal_of(text(params=b'{"a":1,"a":2}')).err is Err.INVALID_REQUEST
    for params in (b"5", b'"x"', b"true"):
        assert refusal_of(text(params=params)).err is Err.INVALID_REQUEST


@given(st.lists(st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text() | st.floats(allow_nan=False)))
def test_params_keep_their_exact_bytes(values):
    """What the node gets is what the client wrote, not what a library would write."""
    params = orjson.dumps(values, option=orjson.OPT_INDENT_2).replace(b"Infinity", b"0")
    parsed = parse(text(params=params))
    assert parsed.params == params
    assert parsed.arguments == orjson.loads(params)


@given(st.binary(max_size=300))
def test_no_body_raises(body):
    """Whatever bytes come, the answer is a value."""
    parse(body)


@given(st.text(max_size=100), st.data())
def test_no_mutilated_request_raises(noise, data):
    """A good request with something in the wrong place is a value too."""
    body = text(params=b'["a",{"b":[1]}]')
    cut = data.draw(st.integers(0, len(body)))
    parse(body[:cut] + noise.encode("utf-8", "replace") + body[cut:])
