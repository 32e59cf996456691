"""The same call in two ways: both ask the same, and a step counts the processor time of each answer."""

import orjson
import pytest

from actors.gateway.calls.admission import PLANS
from actors.gateway.calls.jsonrpc import Call, parse
from actors.gateway.doors.mcp import messages as mcp_messages
from actors.gateway.doors.mcp.messages import ToolCall
from bench import two_doors
from bench.figures import Load
from bench.systems import System


def test_both_kinds_are_the_same_call() -> None:
    """Else their ratio would mean nothing."""
    requests = two_doors.MCP_REQUESTS
    asked = mcp_messages.parse(requests["MCP"]["BENCH_BODY"].encode(), {}, frozenset(PLANS)).content
    assert isinstance(asked, ToolCall) and isinstance(asked.call, Call)
    plain = parse(requests["JSON-RPC"]["BENCH_BODY"].encode())
    assert isinstance(plain, Call)
    assert (asked.call.method, orjson.loads(asked.call.params)) == (plain.method, orjson.loads(plain.params))


def test_a_step_has_the_processor_time_of_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all processes, over the answers, which are no errors."""
    readings = iter([{(1, 0.0): 1.0, (2, 0.0): 1.0}, {(1, 0.0): 2.0, (2, 0.0): 1.5}])
    monkeypatch.setattr(two_doors, "cpu_seconds", lambda pids: next(readings))
    system = System("x", "http://127.0.0.1:1/", "key", lambda: (1,))
    found = two_doors.step(system, lambda: Load("wrk", 64, 5.0, 10_000, 3, 1.0, 2.0))
    assert (found.cpu_us, found.load.errors) == (pytest.approx(150.0), 3)
