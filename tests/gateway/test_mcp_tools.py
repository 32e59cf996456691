"""Tools are made from the catalog: one for each method that can be called, with its price."""

import orjson
import pytest
from jsonschema import Draft202012Validator

from actors.gateway import mcp_tools
from actors.gateway.admission import PLANS


def test_each_callable_method_is_a_tool_and_one_takes_any() -> None:
    """Decisions, "MCP tool names"; with a valid schema and the price that is charged."""
    tools = {tool["name"]: tool for tool in orjson.loads(mcp_tools.list_result(PLANS))["tools"]}
    assert set(tools) == {*PLANS, "rpc"}
    for tool in tools.values():
        Draft202012Validator.check_schema(tool["inputSchema"])
        assert tool["inputSchema"]["type"] == "object"
    for name, plan in PLANS.items():
        assert tools[name]["_meta"]["ledger-gateway/credits_max"] == plan.ceiling
        assert str(plan.ceiling) in tools[name]["description"]
    assert not tools["getBalance"]["annotations"]["destructiveHint"]
    assert tools["sendTransaction"]["annotations"]["destructiveHint"]


@pytest.mark.parametrize(
    ("requested", "answered"),
    [("2025-03-26", "2025-03-26"), ("2025-06-18", "2025-06-18"), ("2025-11-25", "2025-06-18"), (None, "2025-06-18")],
)
def test_a_served_version_is_echoed_and_the_newest_offered_for_others(requested: object, answered: str) -> None:
    """Interface, "MCP"; hostile input 38."""
    assert orjson.loads(mcp_tools.initialize_result(requested))["protocolVersion"] == answered
