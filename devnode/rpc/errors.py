"""The errors of the JSON-RPC interface, with Agave's codes and texts.

Implements: JSON-RPC 2.0 reserved codes and Agave's server errors (-32001 to -32021). Pure.
A handler raises RpcError for a client's mistake, and no other exception; the dispatcher turns it into the reply.
"""

from typing import Any


class RpcError(Exception):
    """A refusal that the client caused; the dispatcher answers with it."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            body["data"] = self.data
        return body


def parse_error() -> RpcError:
    return RpcError(-32700, "Parse error")


def invalid_request(message: str = "Invalid request") -> RpcError:
    return RpcError(-32600, message)


_REMOVED = {  # Agave had these once; each with what took its place.
    "getConfirmedBlock": "getBlock",
    "getConfirmedBlocks": "getBlocks",
    "getConfirmedBlocksWithLimit": "getBlocksWithLimit",
    "getConfirmedSignaturesForAddress2": "getSignaturesForAddress",
    "getConfirmedTransaction": "getTransaction",
    "getFeeCalculatorForBlockhash": "isBlockhashValid and getFeeForMessage",
    "getFeeRateGovernor": "getFeeForMessage",
    "getFees": "getFeeForMessage",
    "getRecentBlockhash": "getLatestBlockhash",
    "getSignatureStatus": "getSignatureStatuses",
    "getSnapshotSlot": "getHighestSnapshotSlot",
    "getStakeActivation": "the stake account in jsonParsed",
}
_NAME_CHARACTERS_TOLD = 64


def method_not_found(name: str) -> RpcError:
    """Agave's code and text; the data say why, because a client cannot tell a removed method from a misspelt one."""
    if name in _REMOVED:
        reason = f"{name} is gone from Agave, and from here: use {_REMOVED[name]}"
    elif name.endswith(("Subscribe", "Unsubscribe")):
        reason = f"{name[:_NAME_CHARACTERS_TOLD]} is asked over WebSocket"
    else:
        reason = f"{name[:_NAME_CHARACTERS_TOLD]} is no method of this node, which has Agave's and simulateBundle"
    return RpcError(-32601, "Method not found", reason)


def invalid_params(message: str, data: Any = None) -> RpcError:
    return RpcError(-32602, message, data)


def internal_error(message: str = "Internal error") -> RpcError:
    return RpcError(-32603, message)


def block_cleaned_up(slot: int, first_available: int) -> RpcError:
    text = f"Block {slot} cleaned up, does not exist on node. First available block: {first_available}"
    return RpcError(-32001, text)


def preflight_failure(text: str, result: dict[str, Any]) -> RpcError:
    return RpcError(-32002, f"Transaction simulation failed: {text}", result)


def block_not_available(slot: int) -> RpcError:
    return RpcError(-32004, f"Block not available for slot {slot}")


def node_unhealthy(slots_behind: int | None) -> RpcError:
    text = "Node is unhealthy" if slots_behind is None else f"Node is behind by {slots_behind} slots"
    return RpcError(-32005, text, {"numSlotsBehind": slots_behind})


def slot_skipped(slot: int) -> RpcError:
    return RpcError(-32007, f"Slot {slot} was skipped, or missing due to ledger jump to recent snapshot")


def no_snapshot() -> RpcError:
    return RpcError(-32008, "No snapshot")


def unsupported_transaction_version(version: int) -> RpcError:
    text = (
        f"Transaction version ({version}) is not supported by the requesting client. Please try the request again "
        f'with the following configuration parameter: "maxSupportedTransactionVersion": {version}'
    )
    return RpcError(-32015, text)


def min_context_slot_not_reached(context_slot: int) -> RpcError:
    return RpcError(-32016, "Minimum context slot has not been reached", {"contextSlot": context_slot})


def transaction_not_found(signature: str) -> RpcError:
    return RpcError(-32020, f"Transaction {signature} not found")
