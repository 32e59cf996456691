"""Bodies of the MCP endpoint: which messages they hold, and what is refused."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import Err
from actors.gateway.calls.jsonrpc import BadCall, Call
from actors.gateway.doors.mcp import messages
from actors.gateway.doors.mcp.messages import BadEnvelope, Free, Ignored, ToolCall

TOOLS = frozenset(("getBalance", "getSlot"))


def tool(name: Any = "getSlot", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": name, **params}}


def parse(body: bytes, version: str | None = None) -> Any:
    headers = {} if version is None else {b"mcp-protocol-version": version.encode()}
    return messages.parse(body, headers, TOOLS).content


def read(message: Any, version: str | None = None) -> Any:
    return parse(orjson.dumps(message), version)


def test_a_tool_call_is_the_json_rpc_call_that_it_stands_for() -> None:
    """Method and parameters travel byte for byte, by the method's own tool and by the generic one."""
    sent = b'[ "key", {"a": 1.50} ]'
    for text in (
        b'"getBalance", "arguments": {"params": %b}',
        b'"rpc", "arguments": {"params": %b, "method": "getBalance"}',
    ):
        body = b'{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":' + text % sent + b"}}"
        message = parse(body, "2025-06-18")
        assert isinstance(message, ToolCall) and isinstance(message.call, Call)
        assert (message.call.id, message.call.method, message.call.params) == (b'"x"', "getBalance", sent)


def test_a_method_without_parameters_needs_no_arguments() -> None:
    for arguments in ({}, {"arguments": None}, {"arguments": {}}, {"arguments": {"params": None}}):
        message = read(tool(**arguments))
        assert isinstance(message.call, Call) and message.call.params == b"[]"


@pytest.mark.parametrize("params", [{}, {"method": "getBalance", "params": ["key"]}, {"name": None}])
def test_a_tool_call_without_a_name_is_told_what_is_missing(params: dict[str, Any]) -> None:
    """The interface speaks of `tools/call` with method and params: whoever sends just these learns where they go."""
    parsed = read({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
    assert isinstance(parsed.call, BadCall) and parsed.call.refusal.err is Err.INVALID_PARAMS and parsed.call.id == b"7"
    said = parsed.call.refusal.detail
    assert said.startswith('"name" is missing') and '{"name": "rpc", "arguments": {"method": "getBalance"' in said


@pytest.mark.parametrize(
    "message",
    [
        tool("getBalances"),
        tool("__proto__"),
        tool(5),
        tool("rpc"),
        tool("rpc", arguments={"method": 5}),
        tool(arguments=[]),
        tool(arguments={"params": "x"}),
        tool(arguments={"parameters": []}),
        tool(arguments={"method": "getBalance"}),
    ],
)
def test_unfit_arguments_are_invalid_params(message: dict[str, Any]) -> None:
    """Threat 38; with the id of the request, so that the client finds its call."""
    parsed = read(message)
    assert isinstance(parsed.call, BadCall)
    assert (parsed.call.id, parsed.call.refusal.err) == (b"7", Err.INVALID_PARAMS)


def test_an_unknown_argument_is_named_with_what_to_send() -> None:
    """A model that guesses names of parameters learns the form from the refusal."""
    told = read(tool(arguments={"pubkey": "x"})).call.refusal.detail
    assert told == 'unknown argument pubkey; parameters go in an array: {"params": [...]}'
    assert (
        '{"method": "getBalance", "params": [...]}'
        in read(tool("rpc", arguments={"method": "x", "a": 1})).call.refusal.detail
    )


@pytest.mark.parametrize(
    "params",
    [
        b'{"name":"getSlot","arguments":{"params":5}}',
        b'{"name":"getSlot","arguments":{"params":[{"a":1,"a":2}]}}',
        b'{"name":"getSlot","arguments":{"params":[%b]}}' % (b"[" * 200 + b"]" * 200),
        b'{"name":"getSlot","_meta":{"x402/payment":%b}}' % (b'{"a":' * 300 + b"1" + b"}" * 300),
    ],
)
def test_ambiguous_and_deep_arguments_are_told_to_their_request(params: bytes) -> None:
    """Threats 12, 13 and 38: a refusal with the id of the request, whatever in the parameters is wrong."""
    parsed: Any = parse(b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":%b}' % params)
    assert isinstance(parsed, ToolCall) and isinstance(parsed.call, BadCall)
    assert (parsed.call.id, parsed.call.refusal.err) == (b"7", Err.INVALID_PARAMS)


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":7,"id":8,"method":"tools/call","params":{"name":"getSlot"}}',
        b'{"jsonrpc":"2.0","id":7,"method":"ping","method":"tools/call","params":{"name":"getSlot"}}',
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"getBlock","name":"getSlot"}}',
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"getSlot","arguments":{"params":[],"params":[]}}}',
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"getSlot","_meta":{"a":1,"a":2}}}',
    ],
)
def test_a_name_that_comes_twice_around_a_call_is_refused(body: bytes) -> None:
    """As on POST /: two readers could take it for two different calls, so it is 400 and free."""
    refused = parse(body)
    assert isinstance(refused, BadCall) and refused.refusal.err is Err.INVALID_REQUEST
    assert isinstance(parse(b"[" + body + b"]", None), list)


def test_colons_in_texts_are_no_names() -> None:
    """A URL in a message costs a slower look, and nothing else."""
    told = {"name": "getSlot", "_meta": {"url": "https://a.test:443/x:y"}}
    parsed = read({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": told})
    assert isinstance(parsed, ToolCall) and not isinstance(parsed.call, BadCall)


@pytest.mark.parametrize(
    "extra", [{"method": "notifications/initialized"}, {"result": {}, "id": 4}, {"method": "tools/call"}]
)
def test_notifications_and_responses_are_ignored(extra: dict[str, Any]) -> None:
    """A tools/call without an id is one too: it is never carried out (threat 38)."""
    assert read({"jsonrpc": "2.0", **extra}) == Ignored()


@pytest.mark.parametrize("raw_id", [None, True, 1.5, [], {}])
def test_ids_are_texts_or_whole_numbers(raw_id: object) -> None:
    refused = read({"jsonrpc": "2.0", "id": raw_id, "method": "ping"})
    assert isinstance(refused, BadCall) and refused.refusal.err is Err.INVALID_REQUEST
    assert read({"jsonrpc": "2.0", "id": 0, "method": "ping"}) == Free(b"0", "ping", {})


def test_versions_and_batches() -> None:
    """Batches belong to the oldest version; an unknown version is refused, except while one is agreed on."""
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
    assert isinstance(read(ping, "2027-01-01"), BadEnvelope)
    assert isinstance(read(first, "2027-01-01"), Free)
    for version in ("2025-06-18", "2025-11-25", "2026-07-28", "2027-01-01"):
        assert isinstance(read([ping], version), BadCall)
    for version in (None, "2025-03-26"):
        assert read([ping, first, 5], version) == [
            Free(b"1", "ping", {}),
            *(item for item in read([first, 5], version)),
        ]
    assert isinstance(read([first])[0], BadCall)
    assert isinstance(read([]), BadCall) and isinstance(read([ping] * 101), BadCall)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | _JSON,
        "id": st.integers() | _JSON,
        "method": st.sampled_from(("tools/call", "tools/list", "initialize", "x")) | _JSON,
        "params": st.fixed_dictionaries(
            {}, optional={"name": st.sampled_from(("getSlot", "rpc")) | _JSON, "arguments": _JSON, "_meta": _JSON}
        )
        | _JSON,
    },
)


@given(
    message=_FIELDS | _JSON | st.lists(_FIELDS, max_size=3),
    version=st.sampled_from((None, "2025-06-18", "2026-07-28", "x")),
)
def test_nothing_that_a_client_sends_raises(message: Any, version: str | None) -> None:
    """Whatever JSON comes, each message is read, ignored or refused."""
    try:
        body = orjson.dumps(message)
    except TypeError:  # A number that JSON writers refuse.
        return
    parsed = parse(body, version)
    for one in parsed if isinstance(parsed, list) else [parsed]:
        assert isinstance(one, (Free, ToolCall, BadCall, BadEnvelope, Ignored))


@given(st.binary(max_size=64))
def test_bytes_that_are_no_json_are_refused(body: bytes) -> None:
    parsed = parse(body)
    assert isinstance(parsed, (list, BadCall, Ignored, Free, ToolCall))


@pytest.mark.parametrize("raw_id", [b"5.0", b"-1894221382912418512896", b"18446744073709551615", b'"a"'])
def test_an_id_is_every_whole_number_and_echoed_byte_for_byte(raw_id: bytes) -> None:
    """Whole numbers as JSON schemas have them, of any size."""
    parsed = parse(b'{"jsonrpc":"2.0","method":"ping","id":' + raw_id + b"}")
    assert isinstance(parsed, Free) and parsed.id == raw_id


def test_a_batch_gets_the_list_of_tools_once():
    """Threat 60: 100 lists in a batch were 5 MB of answer for 5 kB of request."""
    body = b"[" + b",".join(b'{"jsonrpc":"2.0","id":%d,"method":"tools/list"}' % number for number in range(3)) + b"]"
    parsed = parse(body)
    assert isinstance(parsed, list) and isinstance(parsed[0], Free)
    assert [message.id for message in parsed[1:]] == [b"1", b"2"]
    assert all(isinstance(message, BadCall) and "once" in message.refusal.detail for message in parsed[1:])
