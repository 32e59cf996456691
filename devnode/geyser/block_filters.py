"""Filters of blocks, which select the parts of each block to send.

Implements: one named filter of `blocks`. By default a block has its transactions, and neither accounts nor entries.
Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from actors.geyser_proto import geyser_pb2
from devnode.geyser.account_filters import checked_cuckoo
from devnode.geyser.block_messages import BlockShape
from devnode.geyser.limits import BadFilter, BlockLimits, check_any, check_count, check_names, read_keys
from devnode.geyser.messages import Slices


@dataclass(frozen=True, slots=True)
class BlockFilter:
    name: str
    shape: BlockShape


def read_block_filters(
    asked: Mapping[str, geyser_pb2.SubscribeRequestFilterBlocks], limits: BlockLimits, slices: Slices
) -> tuple[BlockFilter, ...]:
    """Read all block filters. Raises BadFilter."""
    check_count(len(asked), limits.max)
    check_names(list(asked))
    return tuple(BlockFilter(name, _read(asked[name], limits, slices)) for name in sorted(asked))


def _read(asked: geyser_pb2.SubscribeRequestFilterBlocks, limits: BlockLimits, slices: Slices) -> BlockShape:
    check_any(not asked.account_include, limits.account_include_any)
    shape = BlockShape(
        has_transactions=asked.include_transactions or not asked.HasField("include_transactions"),
        has_accounts=asked.include_accounts,
        has_entries=asked.include_entries,
        keys=read_keys(list(asked.account_include), limits.account_include_max, limits.account_include_reject),
        cuckoo=checked_cuckoo(asked.cuckoo_account_include, limits.cuckoo_max_size)
        if asked.HasField("cuckoo_account_include")
        else None,
        slices=slices,
    )
    for wanted, allowed, part in (
        (shape.has_transactions, limits.include_transactions, "transactions"),
        (shape.has_accounts, limits.include_accounts, "accounts"),
        (shape.has_entries, limits.include_entries, "entries"),
    ):
        if wanted and not allowed:
            raise BadFilter(f"`include_{part}` is not allowed")
    return shape
