"""How each method can be kept from going back: which answers name their slot, and which methods take a minimum slot.

Implements: decisions, "Monotonic reads". Pure data, read by the nodes' client (upstream/) and by the documents.

`SHOWN` answers name the slot of the state that they were read from, so that an answer below an account's floor is seen
and another node is asked. Of `ASKED` methods only the question names a slot: `minContextSlot`. Of `PLACED` methods
neither does, so a node that has shown the slot before is asked. All others answer the same whatever the slot of a node
is, or are about that node alone.
"""

from enum import Enum
from types import MappingProxyType
from typing import Any

from actors.methods.catalog import METHODS
from actors.methods.prices import Availability

MIN_SLOT = "minContextSlot"
CONSISTENCIES = ("any", "monotonic")  # Values of X-Consistency; the first one is the default.


class Monotony(Enum):
    """The value is the promise, as the reference tells it."""

    SHOWN = "no answer is older than one before it: the slot of the answer is checked"
    ASKED = (
        "no answer is older than the answers before it that named their slot; two answers of this method are not "
        "compared, as neither names its slot"
    )
    PLACED = (
        "asked of a node that has shown the slot before; neither question nor answer names a slot, so the node is "
        "believed"
    )
    PARTS = "each question to a node that the answer is made of is kept by the rule of its own method"
    NONE = "not kept: the answer does not depend on the slot of a node, or is about one node"


_BY_KIND: dict[Monotony, tuple[str, ...]] = {
    Monotony.SHOWN: (
        *("getAccountInfo", "getBalance", "getBlockProduction", "getEpochInfo", "getFeeForMessage"),
        *("getLatestBlockhash", "getMultipleAccounts", "getSignatureStatuses", "getSlot", "getStakeMinimumDelegation"),
        *("getTokenAccountBalance", "getTokenAccountsByOwner", "getTokenSupply", "isBlockhashValid"),
        "simulateTransaction",
    ),
    Monotony.ASKED: ("getBlockHeight", "getSignaturesForAddress", "getSlotLeader", "getTransactionCount"),
    Monotony.PLACED: (
        *("getBlock", "getBlockCommitment", "getBlockTime", "getBlocks", "getBlocksWithLimit", "getTransaction"),
        *("getVoteAccounts", "simulateBundle"),
    ),
    # These ask nodes by the methods above, each question for itself.
    Monotony.PARTS: (
        *("getAsset", "getAssetBatch", "getAssets", "getAssetsByOwner", "getTokenAccounts", "getPriorityFeeEstimate"),
        *("getTransactionHistory", "executeSell", "executeSnipe"),
    ),
}
_KEPT = MappingProxyType({method: kind for kind, methods in _BY_KIND.items() for method in methods})

# The place of the configuration that takes a minimum slot, of methods whose answers depend on it.
_CONFIG_AT: MappingProxyType[str, int] = MappingProxyType(
    {
        name: place
        for name, row in METHODS.items()
        if _KEPT.get(name) in (Monotony.SHOWN, Monotony.ASKED) and row.document is not None
        for place, parameter in enumerate(row.document.parameters)
        if MIN_SLOT in parameter.schema.get("properties", {})
    }
)


def kept(method: str) -> Monotony:
    return _KEPT.get(method, Monotony.NONE)


def takes_min_slot(method: str) -> bool:
    return method in _CONFIG_AT


def table() -> list[tuple[Monotony, list[str]]]:
    """Return every offered method with its kind of monotony."""
    offered = [name for name, row in METHODS.items() if row.availability in (Availability.NODE, Availability.COMPOSED)]
    return [(kind, sorted(name for name in offered if kept(name) is kind)) for kind in Monotony]


def config_of(method: str, arguments: list[Any]) -> dict[str, Any]:
    """Return the options of a call; empty where it has none."""
    place = _CONFIG_AT.get(method)
    if place is not None:
        found = arguments[place] if place < len(arguments) else None
    else:
        found = arguments[-1] if arguments else None
    return found if type(found) is dict else {}


def with_min_slot(method: str, arguments: list[Any], slot: int) -> list[Any] | None:
    """Return the arguments with this minimum slot, or with the client's own where that is larger. None: the method
    takes none, or the client's own stays."""
    place = _CONFIG_AT.get(method)
    if place is None:
        return None
    config = config_of(method, arguments)
    own = config.get(MIN_SLOT)
    if type(own) is int and own >= slot:
        return None
    padded = [*arguments, *([None] * (place + 1 - len(arguments)))]
    padded[place] = {**config, MIN_SLOT: slot}
    return padded
