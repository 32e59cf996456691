"""The node that takes every transaction, and lands them when it is told to."""

import base64
from typing import Any

import orjson

from bench.constant import SLOT
from bench.sends_node import SendsNode


def ask(node: SendsNode, method: str, *params: Any, now: float = 100.0) -> Any:
    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    return orjson.loads(node.answer_to(body, now))["result"]


def test_what_was_sent_lands_when_it_is_told_to_and_nothing_else_does() -> None:
    node = SendsNode(100.0)
    raw = base64.b64encode(b"\x01" + b"s" * 64 + b"message").decode()
    signature = ask(node, "sendTransaction", raw)
    assert ask(node, "getSignatureStatuses", [signature])["value"] == [None]
    assert ask(node, "bench.sent") == 1 and ask(node, "bench.land", now=104.0) == 1
    known, unknown = ask(node, "getSignatureStatuses", [signature, "other"])["value"]
    assert (known["slot"], known["err"], unknown) == (SLOT + 10, None, None)


def test_slots_go_on_and_blocks_do_not() -> None:
    """So windows end and nothing expires."""
    node = SendsNode(100.0)
    assert ask(node, "getSlot", now=100.0) == SLOT and ask(node, "getSlot", now=101.0) == SLOT + 2
    assert ask(node, "getBlockHeight", now=100.0) == ask(node, "getBlockHeight", now=900.0)
    assert ask(node, "getHealth") == "ok"
    ask(node, "bench.land")  # From then on what it has not got can never land.
    assert ask(node, "getBlockHeight") > ask(node, "getEpochInfo")["blockHeight"] + 300
