"""What the handlers of the interface work on: the chain, its archive, and what the node says of itself.

Implements: the context of a reply (`apiVersion`, `slot`) and minContextSlot. Handlers read from here; only sending
and the faucet change anything, through the chain's one entrance.
"""

from dataclasses import dataclass, field
from typing import Any

from actors.clock import Clock
from actors.devnode.chain.chain import Chain
from actors.devnode.chain.commitment import Commitment
from actors.devnode.chain.faucet import Faucet
from actors.devnode.chain.genesis import ChainKeys
from actors.devnode.faults.faults import Faults
from actors.devnode.journal.archive import Archive
from actors.devnode.rpc import params as read
from actors.devnode.rpc.errors import min_context_slot_not_reached, node_unhealthy

SOLANA_CORE_VERSION = "4.1.2"  # Of the runtime crates inside the VM.
FEATURE_SET = 4_215_500_110  # Announced by getVersion; a number, not a promise about features.


@dataclass(slots=True)
class Health:
    """What getHealth and GET /health answer; changed by fault injection only."""

    faults: Faults

    @property
    def slots_behind(self) -> int | None:
        return self.faults.slots_behind

    def check(self) -> None:
        if self.slots_behind is not None or self.faults.plan.node.unhealthy:
            raise node_unhealthy(self.slots_behind)


@dataclass(slots=True)
class Node:
    chain: Chain
    archive: Archive
    keys: ChainKeys
    faucet: Faucet
    clock: Clock
    slot_ms: int
    http_address: str  # host:port, for getClusterNodes.
    tpu_quic_address: str | None = None  # Set by the TPU door once it listens.
    pubsub_address: str | None = None  # Set by the WebSocket door once it listens.
    faults: Faults = field(init=False)
    health: Health = field(init=False)

    def __post_init__(self) -> None:
        self.faults = Faults(self.chain)
        self.health = Health(self.faults)

    def bank(self, fields: dict[str, Any]) -> tuple[Commitment, int]:
        """Commitment level and slot that a call is answered at; refuses below minContextSlot."""
        level = read.commitment(fields)
        slot = self.chain.levels.at(level).slot
        least = fields.get("minContextSlot")
        if least is not None and slot < read.unsigned(least):
            raise min_context_slot_not_reached(slot)
        return level, slot


def in_context(slot: int, value: Any) -> dict[str, Any]:
    return {"context": {"apiVersion": SOLANA_CORE_VERSION, "slot": slot}, "value": value}
