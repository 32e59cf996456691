"""Guards the form of commands about nodes: what is refused, and that no URL is shown."""

import orjson
import pytest

from actors.upstream.node_commands import (
    AddNode,
    ChangeNode,
    ListNodes,
    NodeCommand,
    NodeList,
    NodeRefused,
    ProcessRow,
    Refused,
    RemoveNode,
    refusal_of,
    row_of,
)

KEY = "SECRETKEY"


@pytest.mark.parametrize(
    ("command", "word"),
    [
        (AddNode(id="Tokyo", url=f"http://x/{KEY}"), "id"),
        (AddNode(id="", url=f"http://x/{KEY}"), "id"),
        (AddNode(id="a", url=f"ftp://x/{KEY}"), "url"),
        (AddNode(id="a", url=f"http://x/{KEY}", ws_url=f"http://x/{KEY}"), "ws_url"),
        (AddNode(id="a", url=f"http://x/{KEY}" + "y" * 3_000), "longer"),
        (AddNode(id="a", url=f"http://x/{KEY}é"), "ASCII"),
        (AddNode(id="a", url=f"http://x/{KEY}", weight=1_001), "weight"),
        (AddNode(id="a", url=f"http://x/{KEY}", roles=("write",)), "roles"),
        (AddNode(id="a", url=f"http://x/{KEY}", roles=()), "roles"),
        (ChangeNode(id="a"), "nothing"),
        (ChangeNode(id="a", weight=-1), "weight"),
    ],
)
def test_a_malformed_command_is_refused_without_its_url(command: NodeCommand, word: str) -> None:
    refused = refusal_of(command)
    assert refused is not None and refused.reason is Refused.INVALID
    assert word in refused.detail and KEY not in refused.detail, refused


@pytest.mark.parametrize("command", [ListNodes(), AddNode(id="a", url="http://x"), ChangeNode(id="a", weight=0)])
def test_a_well_formed_command_is_not_refused(command: NodeCommand) -> None:
    assert refusal_of(command) is None and refusal_of(RemoveNode(id="a")) is None


def test_urls_are_redacted_wherever_a_node_is_shown() -> None:
    """They may hold keys of providers."""
    command = AddNode(id="a", url=f"http://user:{KEY}@x/{KEY}?k={KEY}", ws_url=f"wss://x/{KEY}")
    row = row_of(command.config(), origin="operator", settings_weight=None, drained=False, removed=False)
    assert (row.url, row.ws_url) == ("http://x/...", "wss://x/...")
    assert KEY not in repr(command) + repr(command.config()) + repr(row)


def test_the_json_form_says_whether_every_process_is_current() -> None:
    new = ProcessRow(process="a", version=2, is_current=True, age_seconds=0)
    found = NodeList(version=2, nodes=(), processes=(new,))
    assert orjson.loads(orjson.dumps(found.as_json()))["taken_over"] is True
    late = ProcessRow(process="b", version=1, is_current=False, age_seconds=1)
    assert NodeList(version=2, nodes=(), processes=(new, late)).as_json()["taken_over"] is False
    refused = NodeRefused(Refused.LAST_NODE, "why")
    assert (refused.as_json(), refused.reason.http) == ({"reason": "last_node", "message": "why"}, 409)
