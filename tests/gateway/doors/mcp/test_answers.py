"""Results of tools as MCP clients expect them."""

import orjson

from actors.gateway.calls.outcomes import Reply
from actors.gateway.doors.mcp import advice
from actors.gateway.doors.mcp import answers as mcp_answers
from actors.upstream import replies


def told(answer: replies.NodeAnswer) -> dict:
    return orjson.loads(mcp_answers.tool_result(Reply(b'"a"', answer, None)))


def test_a_result_is_text_and_structured_content() -> None:
    """The protocol takes objects alone as structured content; the text is the exact JSON of the node."""
    response = told(replies.made(b'{"value": 1.50}'))
    assert response["id"] == "a"
    assert response["result"] == {
        "content": [{"type": "text", "text": '{"value": 1.50}'}],
        "structuredContent": {"value": 1.5},
        "isError": False,
        "_meta": {"ledger-gateway/credits": {"spent": 0, "left": None}},
    }
    assert told(replies.made(b"[1,2]"))["result"]["structuredContent"] == {"result": [1, 2]}
    assert told(replies.made(b"null"))["result"]["structuredContent"] == {"result": None}


def test_an_error_of_the_node_is_a_result_that_the_model_sees() -> None:
    """Its code, message and data are the text; a second one says what to change."""
    result = told(replies.made_error(-32009, "Slot 5 was skipped", b'{"a":1}'))["result"]
    assert result["isError"] is True and "structuredContent" not in result
    assert orjson.loads(result["content"][0]["text"]) == {
        "code": -32009,
        "message": "Slot 5 was skipped",
        "data": {"a": 1},
    }
    assert result["content"][1] == {"type": "text", "text": advice.of_node_error(b'{"code":-32009}')}
