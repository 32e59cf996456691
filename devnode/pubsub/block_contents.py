"""Blocks in notifications.

Implements: the value of block notifications: all transactions, or only those that mention a key, in the topic's
encoding. A transaction with a version above the client's maximum makes the block null, with an error. Pure.
Not here: when it is sent (feed.py).
"""

from collections.abc import Sequence
from typing import Any, Protocol

from devnode.parsing.transactions import (
    Shown,
    UnsupportedVersion,
    transaction_accounts_json,
    transaction_json,
)
from devnode.pubsub.payloads import Landed
from devnode.pubsub.topics import BlockTopic


class BlockHeader(Protocol):
    @property
    def slot(self) -> int: ...
    @property
    def parent_slot(self) -> int: ...
    @property
    def height(self) -> int: ...
    @property
    def blockhash(self) -> str: ...
    @property
    def previous_blockhash(self) -> str: ...
    @property
    def unix_time(self) -> int: ...


class Transaction(Landed, Shown, Protocol):
    """A landed transaction that can be shown as JSON."""


def block_value(header: BlockHeader, transactions: Sequence[Transaction], topic: BlockTopic) -> dict[str, Any] | None:
    """The JSON of a block; None if no transaction mentions the topic's key, and then there is no notification."""
    mention = topic.mention
    if mention is not None:
        transactions = [transaction for transaction in transactions if mention in transaction.keys]
        if not transactions:
            return None
    try:
        return {"slot": header.slot, "block": _block(header, transactions, topic), "err": None}
    except UnsupportedVersion as unsupported:
        err = {"UnsupportedTransactionVersion": unsupported.version}
        return {"slot": header.slot, "block": None, "err": err}


def _block(header: BlockHeader, transactions: Sequence[Transaction], topic: BlockTopic) -> dict[str, Any]:
    body: dict[str, Any] = {
        "blockHeight": header.height,
        "blockTime": header.unix_time,
        "blockhash": header.blockhash,
        "parentSlot": header.parent_slot,
        "previousBlockhash": header.previous_blockhash,
    }
    if topic.shows_rewards:
        body["rewards"] = []
    if topic.details == "signatures":
        body["signatures"] = [transaction.signature for transaction in transactions]
    elif topic.details == "accounts":
        body["transactions"] = [transaction_accounts_json(shown, topic.max_version) for shown in transactions]
    elif topic.details == "full":
        body["transactions"] = [transaction_json(shown, topic.encoding, topic.max_version) for shown in transactions]
    return body
