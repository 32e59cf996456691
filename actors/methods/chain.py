"""Methods that read blocks, slots, epochs and the cluster from the node.

Implements: interface, "Method classes and credits"; limits of Agave's RPC, which answers -32602 beyond them. Pure.
"""

from typing import Any

from actors.methods import forms, results
from actors.methods.entries import MethodRow, node, with_version
from actors.methods.forms import (
    Form,
    Parameter,
    Schema,
    an_object,
    checks_of,
    choice,
    config,
    documented,
    needed,
    up_to,
)
from actors.methods.prices import MethodClass
from actors.methods.values import InvalidError, at, at_most, fields, u64, whole_number

_LEADERS_MAX = 5_000
_BLOCK_RANGE_MAX = 500_000
_SAMPLES_MAX = 720
_EXAMPLE_BLOCKHASH = "1" * 32
_BLOCK = {
    **forms.TRANSACTIONS,
    "transactionDetails": choice("full", "accounts", "signatures", "none"),
    "rewards": forms.BOOLEAN,
}
_BLOCK_CHECKS, _LATER_CHECKS = checks_of(_BLOCK), checks_of(forms.LATER)
_LEADERS = {"commitment": forms.COMMITMENT, "identity": forms.PUBKEY}
_LEADERS_CHECKS = checks_of(_LEADERS)
_RANGE_CHECKS = {"firstSlot": u64, "lastSlot": u64}


def _block(arguments: list[Any], raw: bytes) -> bytes:
    at_most(arguments, 2)
    whole_number(at(arguments, 0, "slot"), "slot")
    return with_version(arguments, raw, _BLOCK_CHECKS)


def _blocks(arguments: list[Any], raw: bytes) -> bytes:
    at_most(arguments, 3)
    first = whole_number(at(arguments, 0, "start slot"), "start slot")
    # Parameter 2 is the last slot, or already the configuration; null and absent let the node choose the end.
    second = arguments[1] if len(arguments) > 1 else None
    if type(second) is dict:
        fields(second, "parameter 2", _LATER_CHECKS)
    elif second is not None:
        last = whole_number(second, "end slot")
        if last - first > _BLOCK_RANGE_MAX:
            raise InvalidError(f"the range of slots is {last - first}, at most {_BLOCK_RANGE_MAX} is allowed")
    if len(arguments) > 2 and arguments[2] is not None:
        fields(arguments[2], "parameter 3", _LATER_CHECKS)
    return raw


def _slot_or_leaders_config(value: Any, name: str) -> None:
    if type(value) is dict:
        fields(value, name, _LEADERS_CHECKS)
    else:
        whole_number(value, name)


def _slot_range(value: Any, name: str) -> None:
    bounds = fields(value, name, _RANGE_CHECKS, required=("firstSlot",))
    last = bounds.get("lastSlot")
    if last is not None and last < bounds["firstSlot"]:
        raise InvalidError(f"{name}: lastSlot is before firstSlot")


_RANGE = an_object("slots", ("firstSlot",), firstSlot=forms.UNSIGNED, lastSlot=forms.UNSIGNED)
_LEADERS_SLOT = {"description": "slot of the epoch; null: the current one; or the configuration"}


def _cheap(
    name: str, summary: str, when: str, result: Schema, *parameters: Parameter, example: tuple[Any, ...] = ()
) -> MethodRow:
    return node(name, MethodClass.READ_CHEAP, summary, when, result, *parameters, example=example)


def _now(name: str, summary: str, when: str, result: Schema) -> MethodRow:
    """A method that takes nothing but a commitment and a least slot."""
    return _cheap(name, summary, when, result, config(**forms.CONTEXT))


METHODS = (
    _cheap(
        "getBlockCommitment",
        "Returns the stake that voted on a block.",
        "Use it to see how far a recent block is from being final.",
        results.BLOCK_COMMITMENT,
        forms.SLOT,
        example=(1,),
    ),
    _cheap(
        "getBlockTime",
        "Returns the time of a block in Unix seconds.",
        "Use it when you need only the time of a slot; getBlock costs more.",
        results.TIME,
        forms.SLOT,
        example=(1,),
    ),
    _cheap(
        "getBlockProduction",
        "Returns how many blocks each leader made.",
        "Use it to see which leaders missed their slots.",
        results.BLOCK_PRODUCTION,
        config(commitment=forms.COMMITMENT, identity=forms.PUBKEY, range=Form(_slot_range, _RANGE.schema)),
    ),
    node(
        "getClusterNodes",
        MethodClass.READ_MEDIUM,
        "Lists the nodes of the cluster.",
        "Use it to find the addresses and versions of the cluster's nodes.",
        results.CLUSTER_NODES,
    ),
    _cheap(
        "getEpochSchedule",
        "Returns how slots divide into epochs.",
        "Use it to compute the epoch of a slot.",
        results.EPOCH_SCHEDULE,
    ),
    _cheap(
        "getFirstAvailableBlock",
        "Returns the oldest slot whose block the node still has.",
        "Use it before you ask for an old block.",
        results.SLOT,
    ),
    _cheap(
        "getGenesisHash",
        "Returns the hash that names the chain.",
        "Use it to make sure that this is the cluster that you mean.",
        results.TEXT,
    ),
    _cheap(
        "getHealth",
        "Tells whether the node keeps up with the chain.",
        "Use it when other answers look old.",
        results.TEXT,
    ),
    _cheap(
        "getHighestSnapshotSlot",
        "Returns the slots of the node's newest snapshots.",
        "Use it when you run a node that is to start from a snapshot.",
        results.SNAPSHOT_SLOTS,
    ),
    _cheap(
        "getIdentity", "Returns the node's own public key.", "Use it to tell which node has answered.", results.IDENTITY
    ),
    _cheap(
        "getInflationGovernor",
        "Returns the parameters of inflation.",
        "Use it to compute future inflation.",
        results.INFLATION_GOVERNOR,
        config(commitment=forms.COMMITMENT),
    ),
    _cheap(
        "getInflationRate",
        "Returns the inflation of the current epoch.",
        "Use it for the inflation of today.",
        results.INFLATION_RATE,
    ),
    _cheap(
        "getLeaderSchedule",
        "Returns which validator leads which slots of an epoch.",
        "Use it to learn who leads for a whole epoch; getSlotLeaders tells the next slots.",
        results.LEADERS,
        Parameter("slot", Form(_slot_or_leaders_config, _LEADERS_SLOT)),
        config(**_LEADERS),
    ),
    _cheap(
        "getMaxRetransmitSlot",
        "Returns the highest slot that the node retransmitted.",
        "Use it to watch how a node keeps up.",
        results.SLOT,
    ),
    _cheap(
        "getMaxShredInsertSlot",
        "Returns the highest slot of which the node has a shred.",
        "Use it to watch how a node keeps up.",
        results.SLOT,
    ),
    _cheap(
        "getRecentPerformanceSamples",
        "Returns transactions and slots of recent minutes.",
        "Use it to see how busy the chain is: transactions a second are numTransactions / samplePeriodSecs.",
        results.SAMPLES,
        Parameter("limit", up_to(_SAMPLES_MAX)),
        example=(5,),
    ),
    _cheap(
        "getSlotLeaders",
        "Lists the leaders of slots, from a first slot.",
        "Use it to learn who leads the next slots.",
        results.KEYS,
        needed("start_slot", forms.UNSIGNED),
        needed("limit", up_to(_LEADERS_MAX)),
        example=(1, 4),
    ),
    _cheap(
        "getVersion",
        "Returns the software version of the node.",
        "Use it to learn which features the node can have.",
        results.VERSION,
    ),
    _cheap(
        "isBlockhashValid",
        "Tells whether a blockhash can still be used.",
        "Use it before you send a transaction that was signed a while ago.",
        results.VALID,
        needed("blockhash", forms.BLOCKHASH),
        config(**forms.CONTEXT),
        example=(_EXAMPLE_BLOCKHASH,),
    ),
    _cheap(
        "minimumLedgerSlot",
        "Returns the oldest slot of which the node has anything.",
        "Use it before you ask for old transactions.",
        results.SLOT,
    ),
    _now(
        "getBlockHeight",
        "Returns the current block height.",
        "Use it to tell whether a lastValidBlockHeight has passed.",
        results.INTEGER,
    ),
    _now(
        "getEpochInfo",
        "Returns the current epoch, slot and block height.",
        "Use it to learn how far the current epoch is.",
        results.EPOCH,
    ),
    _now(
        "getLatestBlockhash",
        "Returns a blockhash to sign with, and the last block height at which it is valid.",
        "Use it right before you sign a transaction.",
        results.BLOCKHASH,
    ),
    _now("getSlot", "Returns the newest slot.", "Use it to learn how far the chain is.", results.SLOT),
    _now(
        "getSlotLeader",
        "Returns the leader of the newest slot.",
        "Use it to learn who makes the block of now.",
        results.KEY,
    ),
    _now(
        "getTransactionCount",
        "Returns the number of transactions of the chain.",
        "Use it to measure how many transactions the chain executes.",
        results.INTEGER,
    ),
    node(
        "getBlock",
        MethodClass.READ_HEAVY,
        "Returns one block with its transactions.",
        "Use it to read a slot's transactions; whole blocks are large: ask for transactionDetails signatures or none.",
        results.BLOCK,
        forms.SLOT,
        config(**_BLOCK),
        example=(1, {"transactionDetails": "signatures"}),
        rule=_block,
    ),
    node(
        "getBlocks",
        MethodClass.READ_HEAVY,
        "Lists the slots that have a block, from a first to a last slot.",
        "Use it to learn which slots were skipped; at most 500,000 slots at once.",
        results.SLOTS,
        needed("start_slot", forms.UNSIGNED),
        Parameter("end_slot", documented(description="last slot; or the configuration")),
        config(**forms.LATER),
        example=(1, 10),
        rule=_blocks,
    ),
    node(
        "getBlocksWithLimit",
        MethodClass.READ_HEAVY,
        "Lists a number of slots that have a block, from a first slot.",
        "Use it as getBlocks, where you know a number of blocks and not the last slot.",
        results.SLOTS,
        needed("start_slot", forms.UNSIGNED),
        needed("limit", up_to(_BLOCK_RANGE_MAX)),
        config(**forms.LATER, **forms.VERSIONED),
        example=(1, 10),
    ),
)
