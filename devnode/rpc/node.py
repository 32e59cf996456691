"""The node as its handlers see it: chain, archive, keys, faucet, addresses, faults and health.

Implements: the context of a reply (`apiVersion`, `slot`) and minContextSlot. Handlers only read; sending and the
faucet change the chain through `Chain.submit`.
"""

from dataclasses import dataclass, field
from typing import Any

from actors.clock import Clock
from devnode.chain.chain import Chain
from devnode.chain.crowd import Crowd
from devnode.chain.faucet import Faucet
from devnode.chain.faults import Faults
from devnode.chain.filling import BlockFilling
from devnode.chain.genesis import ChainKeys
from devnode.chain.intake import Intake
from devnode.chain.pacemaker import Pacemaker
from devnode.cloning.cloner import Cloner
from devnode.journal.archive import Archive
from devnode.market.market import Market
from devnode.records.commitment import Commitment
from devnode.records.leaders import LeaderSchedule
from devnode.rpc import params as read
from devnode.rpc.errors import min_context_slot_not_reached, node_unhealthy

SOLANA_CORE_VERSION = "4.1.2"  # The version of the runtime crates in the VM.
FEATURE_SET = 4_215_500_110  # Shown by getVersion; it does not describe the VM's features.


@dataclass(slots=True)
class Health:
    """The health for getHealth and GET /health; only fault injection changes it."""

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
    tpu_addresses: dict[int, str] = field(
        default_factory=dict
    )  # By leader; each TPU door adds its own when it listens.
    pubsub_address: str | None = None  # Set by the WebSocket door once it listens.
    markets: dict[int, Market] = field(default_factory=dict)  # By seed.
    pacemaker: Pacemaker | None = None  # Set when slots advance by themselves.
    cloner: Cloner | None = None  # Set in a chain that clones accounts from another node.
    leaders: LeaderSchedule = field(init=False)
    faults: Faults = field(init=False)
    crowd: Crowd = field(init=False)
    intake: Intake = field(init=False)
    health: Health = field(init=False)

    def __post_init__(self) -> None:
        self.leaders = LeaderSchedule(len(self.keys.leaders), self.chain.salt)
        self.chain.leader_of = lambda slot: self.keys.leaders[self.leaders.leader_at(slot)].identity.pubkey()
        self.faults = Faults(self.chain, self.leaders.leader_at)
        self.crowd = Crowd(self.chain, self.faucet)
        filling = BlockFilling(self.chain, self.crowd)
        self.intake = Intake(self.chain, filling, self.faults, self.leaders, self.clock)
        self.health = Health(self.faults)

    @property
    def tpu_quic_address(self) -> str | None:
        return self.tpu_addresses.get(0)

    def bank(self, fields: dict[str, Any]) -> tuple[Commitment, int]:
        """The commitment level and slot for a call. Refuses if the slot is below the call's minContextSlot."""
        level = read.commitment(fields)
        slot = self.chain.levels.at(level).slot
        least = fields.get("minContextSlot")
        if least is not None and slot < read.unsigned(least):
            raise min_context_slot_not_reached(slot)
        return level, slot


def in_context(slot: int, value: Any) -> dict[str, Any]:
    return {"context": {"apiVersion": SOLANA_CORE_VERSION, "slot": slot}, "value": value}
