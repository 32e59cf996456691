"""JSON-RPC methods about the node, the cluster and its epochs. Some values are invented.

Implements: getHealth, getVersion, getIdentity, getGenesisHash, getClusterNodes, getEpochInfo, getEpochSchedule,
getSlotLeader, getSlotLeaders, getLeaderSchedule, getVoteAccounts, getStakeMinimumDelegation, getInflationGovernor,
getInflationRate, getInflationReward, getHighestSnapshotSlot, getMaxRetransmitSlot, getMaxShredInsertSlot,
getBlockProduction.
There is one node, without votes, stake or inflation: only fees are paid to leaders. Clients still ask about these, so
each answer is a plausible constant. All of them are below, and the README names them.
"""

from collections import Counter
from typing import Any

from devnode.encoding.addresses import GENESIS_HASH
from devnode.records.commitment import Commitment
from devnode.records.leaders import LEADER_SCHEDULE_SLOT_OFFSET, SLOTS_PER_EPOCH, SLOTS_PER_TURN, epoch_of
from devnode.rpc import params as read
from devnode.rpc.errors import block_not_available, invalid_params, no_snapshot
from devnode.rpc.node import FEATURE_SET, SOLANA_CORE_VERSION, Node, in_context
from devnode.rpc.params import Params

ACTIVATED_STAKE_LAMPORTS = 42_000_000_000_000  # 42,000 SOL: the whole stake of the cluster, and all of it this node's.
VOTE_COMMISSION_PERCENT = 0
STAKE_MINIMUM_DELEGATION_LAMPORTS = 1
INFLATION_GOVERNOR = {"foundation": 0.0, "foundationTerm": 0.0, "initial": 0.0, "taper": 1.0, "terminal": 0.0}
SHRED_VERSION = 51_361
SLOT_LEADERS_MAX = 5_000
REWARD_ADDRESSES_MAX = 32


def get_health(node: Node, params: Params) -> Any:
    node.health.check()
    return "ok"


def get_version(node: Node, params: Params) -> Any:
    return {"feature-set": FEATURE_SET, "solana-core": SOLANA_CORE_VERSION}


def get_identity(node: Node, params: Params) -> Any:
    return {"identity": _identity(node)}


def get_genesis_hash(node: Node, params: Params) -> Any:
    return GENESIS_HASH


def get_cluster_nodes(node: Node, params: Params) -> Any:
    """The leaders, this node first. The others are leaders only: they have a TPU and no RPC. The address of a door that
    is not open is null."""
    return [
        {
            "clientId": "Agave",
            "featureSet": FEATURE_SET,
            "gossip": None,
            "pubkey": _identity(node, number),
            "pubsub": None if number else node.pubsub_address,
            "rpc": None if number else node.http_address,
            "serveRepair": None,
            "shredVersion": SHRED_VERSION,
            "tpu": None,
            "tpuForwards": None,
            "tpuForwardsQuic": None,
            "tpuQuic": node.tpu_addresses.get(number),
            "tpuVote": None,
            "tvu": None,
            "version": SOLANA_CORE_VERSION,
        }
        for number in range(node.leaders.count)
    ]


def get_epoch_info(node: Node, params: Params) -> Any:
    level, slot = node.bank(read.config(params, 0, "RpcContextConfig"))
    position = epoch_of(slot)
    return {
        "absoluteSlot": slot,
        "blockHeight": node.chain.levels.at(level).height,
        "epoch": position.epoch,
        "slotIndex": position.slot_index,
        "slotsInEpoch": position.slots_in_epoch,
        "transactionCount": node.chain.transaction_count_at(level),
    }


def get_epoch_schedule(node: Node, params: Params) -> Any:
    return {
        "firstNormalEpoch": 0,
        "firstNormalSlot": 0,
        "leaderScheduleSlotOffset": LEADER_SCHEDULE_SLOT_OFFSET,
        "slotsPerEpoch": SLOTS_PER_EPOCH,
        "warmup": False,
    }


def get_slot_leader(node: Node, params: Params) -> Any:
    _, slot = node.bank(read.config(params, 0, "RpcContextConfig"))
    return _identity(node, node.leaders.leader_at(slot))


def get_slot_leaders(node: Node, params: Params) -> Any:
    first = read.unsigned(read.at(params, 0))
    limit = read.unsigned(read.at(params, 1))
    if limit > SLOT_LEADERS_MAX:
        raise invalid_params(f"Invalid limit; max {SLOT_LEADERS_MAX}")
    # Leader schedules exist for the epoch of the root and the next epoch.
    last_known = epoch_of(node.chain.levels.at(Commitment.FINALIZED).slot).last_slot + SLOTS_PER_EPOCH
    if limit and first + limit - 1 > last_known:
        epoch = epoch_of(first + limit - 1).epoch
        raise invalid_params(f"Invalid slot range: leader schedule for epoch {epoch} is unavailable")
    names = [_identity(node, number) for number in range(node.leaders.count)]
    return [names[node.leaders.leader_at(slot)] for slot in range(first, first + limit)]


def get_leader_schedule(node: Node, params: Params) -> Any:
    first = read.at(params, 0)
    config = first if isinstance(first, dict) else read.config(params, 1, "RpcLeaderScheduleConfig")
    slot = None if isinstance(first, dict) else read.optional_unsigned(first)
    current = node.chain.levels.at(read.commitment(config)).slot
    epoch = epoch_of(current if slot is None else slot).epoch
    if epoch > epoch_of(current).epoch + 1:
        return None
    slots: dict[int, list[int]] = {number: [] for _, number in _wanted_leaders(node, config.get("identity"))}
    for index, leader in enumerate(node.leaders.turns(epoch)):
        if leader in slots:
            slots[leader] += range(index * SLOTS_PER_TURN, (index + 1) * SLOTS_PER_TURN)
    return {_identity(node, number): listed for number, listed in slots.items()}


def get_vote_accounts(node: Node, params: Params) -> Any:
    config = read.config(params, 0, "RpcGetVoteAccountsConfig")
    node.bank(config)
    wanted = config.get("votePubkey")
    only = None if wanted is None else read.pubkey_of(wanted)
    levels = node.chain.levels
    root = levels.at(Commitment.FINALIZED).slot
    current = [
        {
            "activatedStake": ACTIVATED_STAKE_LAMPORTS // node.leaders.count,
            "commission": VOTE_COMMISSION_PERCENT,
            "epochCredits": [[epoch_of(root).epoch, root, 0]],
            "epochVoteAccount": True,
            "lastVote": levels.at(Commitment.CONFIRMED).slot,
            "nodePubkey": str(leader.identity.pubkey()),
            "rootSlot": root,
            "votePubkey": str(leader.vote.pubkey()),
        }
        for leader in node.keys.leaders
        if only in (None, leader.vote.pubkey())
    ]
    return {"current": current, "delinquent": []}


def get_stake_minimum_delegation(node: Node, params: Params) -> Any:
    _, slot = node.bank(read.config(params, 0, "RpcContextConfig"))
    return in_context(slot, STAKE_MINIMUM_DELEGATION_LAMPORTS)


def get_inflation_governor(node: Node, params: Params) -> Any:
    node.bank(read.config(params, 0, "CommitmentConfig"))
    return INFLATION_GOVERNOR


def get_inflation_rate(node: Node, params: Params) -> Any:
    epoch = epoch_of(node.chain.levels.at(Commitment.FINALIZED).slot).epoch
    return {"epoch": epoch, "foundation": 0.0, "total": 0.0, "validator": 0.0}


def get_inflation_reward(node: Node, params: Params) -> Any:
    """Rewards of an epoch: always null. An epoch that has not ended is an error, as on a node."""
    addresses = read.listed(read.at(params, 0) or [])
    if len(addresses) > REWARD_ADDRESSES_MAX:
        raise invalid_params(f"Too many inputs provided; max {REWARD_ADDRESSES_MAX}")
    for address in addresses:
        read.pubkey_of(address)
    config = read.config(params, 1, "RpcEpochConfig")
    _, slot = node.bank(config)
    epoch = read.optional_unsigned(config.get("epoch"))
    current = epoch_of(slot).epoch
    if epoch is None:
        epoch = max(current - 1, 0)
    if epoch >= current:
        raise block_not_available((epoch + 1) * SLOTS_PER_EPOCH)
    return [None] * len(addresses)


def get_highest_snapshot_slot(node: Node, params: Params) -> Any:
    raise no_snapshot()


def get_newest_slot(node: Node, params: Params) -> Any:
    """For getMaxRetransmitSlot and getMaxShredInsertSlot. There are no shreds, so both are the slot being built."""
    return node.chain.levels.at(Commitment.PROCESSED).slot


def get_block_production(node: Node, params: Params) -> Any:
    config = read.config(params, 0, "RpcBlockProductionConfig")
    _, slot = node.bank(config)
    first, last = _production_range(config.get("range"), slot)
    produced = Counter(map(node.leaders.leader_at, node.archive.slots(first, last, last - first + 1)))
    by_identity = {
        identity: [node.leaders.slots_led(number, first, last), produced[number]]
        for identity, number in _wanted_leaders(node, config.get("identity"))
    }
    return in_context(slot, {"byIdentity": by_identity, "range": {"firstSlot": first, "lastSlot": last}})


def _production_range(value: Any, slot: int) -> tuple[int, int]:
    first, last = epoch_of(slot).first_slot, slot
    if value is not None:
        if not isinstance(value, dict) or "firstSlot" not in value:
            raise invalid_params("Invalid params: missing field `firstSlot`.")
        first = read.unsigned(value["firstSlot"])
        last = slot if value.get("lastSlot") is None else read.unsigned(value["lastSlot"])
    least = epoch_of(slot).first_slot
    if first < least:
        raise invalid_params(f"firstSlot, {first}, is too small; min {least}")
    if last < first:
        raise invalid_params(f"lastSlot, {last}, cannot be less than firstSlot, {first}")
    if last > slot:
        raise invalid_params(f"lastSlot, {last}, is too large; current {slot}")
    return first, last


def _wanted_leaders(node: Node, identity: Any) -> list[tuple[str, int]]:
    """Identity and number of each leader, or only of the one with this identity."""
    only = None if identity is None else str(read.pubkey_of(identity))
    leaders = [(_identity(node, number), number) for number in range(node.leaders.count)]
    return [leader for leader in leaders if only in (None, leader[0])]


def _identity(node: Node, leader: int = 0) -> str:
    return str(node.keys.leaders[leader].identity.pubkey())
