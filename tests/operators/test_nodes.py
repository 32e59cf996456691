"""Nodes, for operators: what the desk is asked, what is refused before. Rule: decisions, "The operators' page"."""

import logging

import pytest

from tests.operators.world import operated

URL = "https://node.example/secret-key"


async def test_a_node_is_added_weighed_drained_and_removed(caplog: pytest.LogCaptureFixture) -> None:
    """Each change is one command to the desk, and one line of the log without the URL, which may be a key."""
    async with operated() as one:
        assert (await one.ask("GET", "nodes")).json()["nodes"] == [{"id": "node-1", "weight": 1}]
        with caplog.at_level(logging.WARNING):
            added = await one.ask("POST", "nodes", {"id": "node-2", "url": URL, "weight": 3})
            await one.ask("PATCH", "nodes/node-1", {"weight": 5})
            await one.ask("PATCH", "nodes/node-1", {"drained": True, "unreachable": True})
            await one.ask("DELETE", "nodes/node-1")
        assert added.status_code == 200 and "secret-key" not in added.text + caplog.text
        assert one.nodes.asked == [
            ("add", "node-2", URL, None, 3, ["read", "send"], False),
            ("change", "node-1", 5, None, False),
            ("change", "node-1", None, True, True),
            ("remove", "node-1"),
        ]
        assert sum(record.name == "actors.operators.nodes" for record in caplog.records) == 4
        unknown = await one.ask("PATCH", "nodes/node-9", {"weight": 5})
        assert unknown.status_code == 404 and unknown.json()["error"]["reason"] == "unknown_node"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        *(("POST", "nodes", {"id": "Node 2", "url": URL}), ("POST", "nodes", {"id": "node-2"})),
        *(
            ("POST", "nodes", {"id": "node-2", "url": "x" * 3_000}),
            ("POST", "nodes", {"id": "n", "url": URL, "weight": -1}),
        ),
        *(("POST", "nodes", {"id": "n", "url": URL, "roles": []}), ("POST", "nodes", b"{" * 1_000)),
        *(("PATCH", "nodes/node-1", {"weight": 1_001}), ("PATCH", "nodes/node-1", {"weight": "5"})),
        ("PATCH", "nodes/node-1", {"url": URL}),
    ],
)
async def test_a_malformed_change_of_nodes_reaches_no_desk(method: str, path: str, body: object) -> None:
    async with operated() as one:
        answer = await one.ask(method, path, body)
        assert answer.status_code == 400 and "secret-key" not in answer.text and one.nodes.asked == []
