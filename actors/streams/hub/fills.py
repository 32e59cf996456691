"""Reads from a node what happened while a topic was not served.

Implements: interface, "WebSocket /ws"; decisions, "gaps of native subscriptions".
A signature's state can be asked for, so nothing of it is missed. Of an account only the newest contents can: they are
delivered when they changed, and the gap is told all the same, as contents in between may be missing. An account that is
the same as before missed nothing that can be known. Everything else is a gap.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import orjson

from actors.streams.hub.native import TopicKey
from actors.upstream.replies import AnswerKind, Node

_TIMEOUT_MS = 5_000
_LEVELS = {"processed": 0, "confirmed": 1, "finalized": 2}


@dataclass(frozen=True, slots=True)
class Fill:
    """result: to deliver, unless something newer has come. has_gap: events may be missing."""

    result: bytes | None = None
    has_gap: bool = True


async def fill(key: TopicKey, last_digest: bytes | None, last_slot: int, node: Node) -> Fill:
    """Ask what happened since. last_digest, last_slot: of the value that was delivered last."""
    params = orjson.loads(key.params)
    config = params[1] if len(params) > 1 else {}
    if key.method == "accountSubscribe" and last_digest is not None:
        return await _account(params[0], config, last_digest, last_slot, node)
    if key.method == "signatureSubscribe":
        return await _signature(params[0], config, node)
    return Fill()


async def newest_slot(node: Node) -> int:
    """Return the newest slot that a node has processed; 0: none answers."""
    slot = await _ask(node, "getSlot", [{"commitment": "processed"}])
    return slot if isinstance(slot, int) else 0


def digest(result: Any) -> bytes:
    """Return the digest of a notification's or answer's value, independent of the order of names."""
    return hashlib.sha256(orjson.dumps(result["value"], option=orjson.OPT_SORT_KEYS)).digest()


async def _account(address: str, config: dict[str, Any], last_digest: bytes, last_slot: int, node: Node) -> Fill:
    # Another node may be behind: its value must not be older than the delivered one.
    result = await _ask(node, "getAccountInfo", [address, config | {"minContextSlot": last_slot}])
    if result is None or result.get("value") is None:
        return Fill()
    if digest(result) == last_digest:
        return Fill(has_gap=False)
    body = {"context": {"slot": result["context"]["slot"]}, "value": result["value"]}
    return Fill(orjson.dumps(body))


async def _signature(signature: str, config: dict[str, Any], node: Node) -> Fill:
    result = await _ask(node, "getSignatureStatuses", [[signature], {"searchTransactionHistory": True}])
    if result is None:
        return Fill()
    [status] = result["value"]
    wanted = _LEVELS[config.get("commitment", "finalized")]
    if status is None or _LEVELS.get(status.get("confirmationStatus") or "processed", 0) < wanted:
        return Fill(has_gap=False)
    body = {"context": {"slot": status["slot"]}, "value": {"err": status["err"]}}
    return Fill(orjson.dumps(body), has_gap=False)


async def _ask(node: Node, method: str, params: list[Any]) -> Any:
    """Return the result; None if no node has it."""
    answer = await node.call(method, orjson.dumps(params), _TIMEOUT_MS)
    if answer.kind is not AnswerKind.RESULT:
        return None
    return orjson.loads(answer.body)["result"]
