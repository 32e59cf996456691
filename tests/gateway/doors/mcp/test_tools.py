"""Tools are made from the catalog: one for each method that can be called, with its price."""

import orjson
import pytest
from jsonschema import Draft202012Validator

from actors.gateway.calls.admission import PLANS
from actors.gateway.doors.mcp import tools as mcp_tools
from actors.methods.catalog import METHODS
from actors.methods.entries import price_of
from actors.pricing_config import PricingConfig

PRICING = PricingConfig()


def test_each_callable_method_is_a_tool_and_one_takes_any() -> None:
    """Decisions, "MCP tool names"; with a valid schema and the price that is charged."""
    tools = {tool["name"]: tool for tool in orjson.loads(mcp_tools.list_result(PLANS, PRICING))["tools"]}
    assert set(tools) == {*PLANS, "rpc"}
    for tool in tools.values():
        Draft202012Validator.check_schema(tool["inputSchema"])
        assert tool["inputSchema"]["type"] == "object"
    for name in PLANS:
        words, most = price_of(METHODS[name], PRICING)
        assert tools[name]["_meta"]["ledger-gateway/credits_max"] == most
        told = tools[name]["description"].split("\n")
        assert told[2] == (f"Costs {words}." if most != 0 else "Costs no credits."), name
    # Of a price that only a quote can tell, no smaller one is told.
    for name in ("executeSnipe", "executeSell"):
        assert "25 credits and" in tools[name]["description"] and "of the trade's SOL" in tools[name]["description"]
    assert not tools["getBalance"]["annotations"]["destructiveHint"]
    assert tools["sendTransaction"]["annotations"]["destructiveHint"]


def test_each_tool_says_what_when_for_how_much_and_with_which_arguments() -> None:
    """A model chooses by these lines alone: none may be missing, and the example is taken by the tool's own schema."""
    for tool in orjson.loads(mcp_tools.list_result(PLANS, PRICING))["tools"]:
        what, when, price, example = tool["description"].split("\n")
        assert what.endswith(".") and when.startswith("Use it ") and price.startswith("Costs "), tool["name"]
        label, _, arguments = example.partition(": ")
        assert label == "Example of arguments"
        Draft202012Validator(tool["inputSchema"]).validate(orjson.loads(arguments))
        assert mcp_tools.examples(PLANS)[tool["name"]] == arguments
        assert len(tool["description"]) < 700, "the list is read by a model, whose context it takes"


@pytest.mark.parametrize(
    ("requested", "answered"),
    [("2025-03-26", "2025-03-26"), ("2025-06-18", "2025-06-18"), ("2025-11-25", "2025-11-25"), (None, "2025-11-25")],
)
def test_a_served_version_is_echoed_and_the_newest_offered_for_others(requested: object, answered: str) -> None:
    """Interface, "MCP"; threat 38."""
    assert orjson.loads(mcp_tools.initialize_result(requested, ""))["protocolVersion"] == answered


def test_the_instructions_name_every_tool_once_at_its_price() -> None:
    """Interface, "MCP": `initialize` lists the tool catalog."""
    lines = mcp_tools.instructions(PLANS, PRICING).splitlines()[1:]
    named = [(name, line[2:].split(": ")[0]) for line in lines for name in line.split(": ")[1].split(", ")]
    priced = dict(named)
    assert sorted(priced) == sorted(PLANS) and len(named) == len(PLANS)
    assert priced["getSlot"] == "1 credit" and priced["getSendStatus"] == "no credits"
    assert priced["executeSell"] == "25 credits and 50 basis points of the trade's SOL"
