"""JSON-RPC methods about slots, blocks and blockhashes.

Implements: getSlot, getBlockHeight, getBlockTime, getBlock, getBlocks, getBlocksWithLimit, getFirstAvailableBlock,
minimumLedgerSlot, getLatestBlockhash, isBlockhashValid, getBlockCommitment, getRecentPrioritizationFees,
getRecentPerformanceSamples. Reads only.
"""

from typing import Any

from solders.hash import Hash, ParseHashError

from devnode.chain.recent_blocks import SAMPLES_KEPT
from devnode.parsing.transactions import DETAILS, ENCODINGS, UnsupportedVersion, block_json
from devnode.records.blockhashes import RecentBlockhash
from devnode.records.commitment import Commitment
from devnode.records.records import BlockHeader
from devnode.rpc import params as read
from devnode.rpc.cluster import ACTIVATED_STAKE_LAMPORTS
from devnode.rpc.errors import (
    block_cleaned_up,
    block_not_available,
    invalid_params,
    slot_skipped,
    unsupported_transaction_version,
)
from devnode.rpc.node import Node, in_context
from devnode.rpc.params import Params

BLOCKS_RANGE_MAX = 500_000
FEE_ACCOUNTS_MAX = 128
_VOTE_LOCKOUT_DEPTHS = 32


def get_slot(node: Node, params: Params) -> Any:
    return node.bank(read.config(params, 0, "RpcContextConfig"))[1]


def get_block_height(node: Node, params: Params) -> Any:
    level, _ = node.bank(read.config(params, 0, "RpcContextConfig"))
    return node.chain.levels.at(level).height


def get_first_available_block(node: Node, params: Params) -> Any:
    first = node.archive.first_slot()
    assert first is not None, "a running chain has at least one durable block"
    return first


def get_block_time(node: Node, params: Params) -> Any:
    slot = read.unsigned(read.at(params, 0))
    return _existing_block(node, slot, Commitment.CONFIRMED).unix_time


def get_block(node: Node, params: Params) -> Any:
    slot = read.unsigned(read.at(params, 0))
    config = _encoding_config(read.at(params, 1))
    encoding = read.variant(config.get("encoding") or "json", ENCODINGS)
    details = read.variant(config.get("transactionDetails") or "full", DETAILS)
    shows_rewards = read.boolean(config, "rewards", default=True)
    max_version = read.optional_unsigned(config.get("maxSupportedTransactionVersion"), bits=8)
    level = read.confirmed_or_higher(config)
    block = _existing_block(node, slot, level)
    # Signatures alone are read without the transactions, which are much larger.
    shown = node.archive.block_transactions(slot) if details in ("full", "accounts") else []
    reward = node.archive.reward(slot) if shows_rewards else None
    try:
        body = block_json(block, shown, details, encoding, max_version, shows_rewards, reward)
    except UnsupportedVersion as error:
        raise unsupported_transaction_version(error.version) from None
    return body | {"signatures": node.archive.block_signatures(slot)} if details == "signatures" else body


def _encoding_config(value: Any) -> dict[str, Any]:
    """Read the second parameter: a configuration object or, in the old form, only the encoding."""
    if value is None:
        return {}
    if isinstance(value, str):
        return {"encoding": value}
    if not isinstance(value, dict):
        raise read.wrong_type(value, "struct RpcBlockConfig")
    return value


def _existing_block(node: Node, slot: int, level: Commitment) -> BlockHeader:
    """The block at the slot if it has reached the level; otherwise raises the node's error for the reason."""
    if slot > node.chain.levels.at(level).slot:
        raise block_not_available(slot)
    block = node.archive.block(slot)
    if block is not None:
        return block
    first = node.archive.first_slot() or 0
    raise block_cleaned_up(slot, first) if slot < first else slot_skipped(slot)


def get_blocks(node: Node, params: Params) -> Any:
    first = read.unsigned(read.at(params, 0))
    # The last slot is optional; without it the configuration is the second parameter.
    end_is_config = isinstance(read.at(params, 1), dict)
    last = None if end_is_config else read.optional_unsigned(read.at(params, 1))
    level = read.confirmed_or_higher(read.config(params, 1 if end_is_config else 2, "RpcContextConfig"))
    newest = node.chain.levels.at(level).slot
    last = newest if last is None else last
    if last < first:
        return []
    if last - first > BLOCKS_RANGE_MAX:
        raise invalid_params(f"Slot range too large; max {BLOCKS_RANGE_MAX}")
    return node.archive.slots(first, min(last, newest), BLOCKS_RANGE_MAX + 1)


def get_blocks_with_limit(node: Node, params: Params) -> Any:
    first = read.unsigned(read.at(params, 0))
    limit = read.unsigned(read.at(params, 1))
    level = read.confirmed_or_higher(read.config(params, 2, "RpcContextConfig"))
    if limit > BLOCKS_RANGE_MAX:
        raise invalid_params(f"Limit too large; max {BLOCKS_RANGE_MAX}")
    return node.archive.slots(first, node.chain.levels.at(level).slot, limit)


def get_latest_blockhash(node: Node, params: Params) -> Any:
    _, slot = node.bank(read.config(params, 0, "RpcContextConfig"))
    entry = node.chain.blockhashes.latest_at(slot)
    return in_context(slot, blockhash_json(entry))


def blockhash_json(entry: RecentBlockhash) -> dict[str, Any]:
    return {"blockhash": str(entry.blockhash), "lastValidBlockHeight": entry.last_valid_height}


def is_blockhash_valid(node: Node, params: Params) -> Any:
    try:
        blockhash = Hash.from_string(read.text(params, 0))
    except ParseHashError:
        raise invalid_params("Invalid param: Invalid") from None
    level, slot = node.bank(read.config(params, 1, "RpcContextConfig"))
    return in_context(slot, node.chain.blockhashes.is_usable(blockhash, slot, node.chain.levels.at(level).height))


def get_block_commitment(node: Node, params: Params) -> Any:
    """Votes on a block by depth. All stake is this node's, and it votes for every block."""
    slot = read.unsigned(read.at(params, 0))
    levels = node.chain.levels
    newest = levels.at(Commitment.PROCESSED).slot
    commitment = None
    if levels.at(Commitment.FINALIZED).slot < slot <= newest:
        depth = min(newest - slot, _VOTE_LOCKOUT_DEPTHS - 1)
        commitment = [0] * _VOTE_LOCKOUT_DEPTHS
        commitment[depth] = ACTIVATED_STAKE_LAMPORTS
    return {"commitment": commitment, "totalStake": ACTIVATED_STAKE_LAMPORTS}


def get_recent_prioritization_fees(node: Node, params: Params) -> Any:
    addresses = read.listed(read.at(params, 0) or [])
    if len(addresses) > FEE_ACCOUNTS_MAX:
        raise invalid_params(f"Too many inputs provided; max {FEE_ACCOUNTS_MAX}")
    accounts = [str(read.pubkey_of(address)) for address in addresses]
    newest = node.chain.levels.at(Commitment.PROCESSED).slot
    recent = node.chain.fees.recent(accounts)
    return [{"prioritizationFee": fee, "slot": slot} for slot, fee in recent if slot <= newest]


def get_recent_performance_samples(node: Node, params: Params) -> Any:
    limit = read.optional_unsigned(read.at(params, 0))
    if limit is not None and limit > SAMPLES_KEPT:
        raise invalid_params(f"Invalid limit; max {SAMPLES_KEPT}")
    return [
        {
            "numNonVoteTransactions": sample.transactions,
            "numSlots": sample.slots,
            "numTransactions": sample.transactions,
            "samplePeriodSecs": sample.period_seconds,
            "slot": sample.slot,
        }
        for sample in node.chain.performance.recent(SAMPLES_KEPT if limit is None else limit)
    ]
