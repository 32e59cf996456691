"""What an agent is to change after a call that failed: a sentence for each refusal, and for the usual errors of nodes.

Implements: Model Context Protocol, server/tools, "Error Handling" (feedback by which a model corrects itself); the
error codes of Agave's RPC. Pure data.

A sentence is fixed text: what a node or the chain said is never part of it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import msgspec

from actors.errors import Err, Refusal

_WAIT = "Make the same call again"
# Hints for refusals whose row in the error table has none.
_OF_REFUSALS: Final[Mapping[Err, str]] = {
    Err.RATE_LIMITED: "Make fewer calls at once; getMultipleAccounts and getSignatureStatuses ask for many in one",
    Err.CONCURRENCY_LIMITED: "Wait for the answers of earlier calls before you make another one",
    Err.BACKEND_UNAVAILABLE: _WAIT,
    Err.SERVICE_TEMPORARILY_UNAVAILABLE: _WAIT,
    Err.TIMEOUT: "Ask for less, or make the same call again; of a send, ask getSignatureStatuses first",
    Err.SERVICE_PROFILE_DISABLED: "Use another tool: tools/list names those that can be called",
    Err.METHOD_NOT_FOUND: "Use one of the methods that the schema of this tool names",
    Err.MAX_CREDITS_EXCEEDED: (
        "Use a cheaper tool, or ask your user for a higher ceiling: "
        'the header X-Max-Credits, or _meta["ledger-gateway/max-credits"]'
    ),
    Err.INVALID_REQUEST: "Correct what the message names, then make the call again",
    Err.INTERNAL_ERROR: _WAIT,
}
# Hints for a node's own errors, whose messages address node operators.
_OF_NODES: Final[Mapping[int, str]] = {
    -32001: "The node no longer has this block: ask for one after getFirstAvailableBlock",
    -32002: "Nothing was sent. data.err and data.logs tell why it would fail: correct the transaction, then sign again",
    -32003: "Sign the transaction anew: a signature does not fit its bytes",
    -32004: "Wait until the slot is confirmed, or ask for an earlier one",
    -32005: "The node is behind: make the same call again in some seconds",
    -32007: "This slot has no block: getBlocks lists those that have one",
    -32008: "This node has no snapshots: nothing to change",
    -32009: "This slot has no block here: getBlocks lists those that have one",
    -32010: "The node keeps no index for this key: ask for another one",
    -32011: "This node keeps no history of transactions: nothing to change",
    -32013: "A signature has the wrong length: send it as the wallet gave it",
    -32014: "The status of this block is not known yet: make the same call again in some seconds",
    -32015: "Set maxSupportedTransactionVersion to the version that the message names",
    -32016: "The node has not reached minContextSlot: leave it out, or make the same call again in a second",
    -32020: "This signature is not known to the node: leave it out, or take one that getSignaturesForAddress lists",
    -32600: "Ask for encoding base64 or jsonParsed",
    -32602: "Correct the parameter that the message names; the schema of the tool has the forms",
    -32603: "The node failed: make the same call again",
}
_ANY_OF_A_NODE = "The node refused this call: read the message, change the parameters that it is about, then call again"


class _Coded(msgspec.Struct):
    code: int = 0


_CODED = msgspec.json.Decoder(_Coded)


def advised(refusal: Refusal, example: str) -> Refusal:
    """Add a hint to a refusal without one. example: JSON of arguments that the called tool accepts."""
    if refusal.hint or refusal.err.row.hint:
        return refusal
    if refusal.err is Err.INVALID_PARAMS:
        return replace(refusal, hint=f"Arguments of this form are taken: {example}" if example else "")
    return replace(refusal, hint=_OF_REFUSALS.get(refusal.err, ""))


def of_node_error(error: bytes) -> str:
    """Return what to change after this error of a node. error: its JSON."""
    try:
        code = _CODED.decode(error).code
    except msgspec.DecodeError:
        return _ANY_OF_A_NODE
    return _OF_NODES.get(code, _ANY_OF_A_NODE)
