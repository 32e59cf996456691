"""The JSON of notifications, without account contents and blocks.

Implements: the envelope, and the results of logs, signature, slot, root and slotsUpdates notifications, field for
field as Agave sends them. Unlike in a reply, the context of a notification has no apiVersion. Pure.
Not here: accounts (account_contents.py), blocks (block_contents.py), when notifications are sent (feed.py).
"""

from collections.abc import Iterator
from typing import Any, Protocol

import orjson

from devnode.pubsub.topics import Topic
from devnode.records.records import Block, TransactionMeta

RECEIVED = "receivedSignature"  # The whole value is this string; the value of the result is an object.


class Landed(Protocol):
    """A landed transaction, from memory or from the archive."""

    @property
    def signature(self) -> str: ...
    @property
    def keys(self) -> tuple[str, ...]: ...
    @property
    def meta(self) -> TransactionMeta: ...


def notification(topic: Topic, identifier: int, result: Any) -> str:
    """The text for all subscribers of the topic."""
    params = {"result": result, "subscription": identifier}
    return orjson.dumps({"jsonrpc": "2.0", "method": topic.notification, "params": params}).decode()


def in_slot(slot: int, value: Any) -> dict[str, Any]:
    return {"context": {"slot": slot}, "value": value}


def logs_value(transaction: Landed) -> dict[str, Any]:
    meta = transaction.meta
    return {"signature": transaction.signature, "err": meta.err, "logs": list(meta.logs)}


def signature_value(err: Any) -> dict[str, Any]:
    return {"err": err}


def slot_result(slot: int, parent: int, root: int) -> dict[str, int]:
    return {"parent": parent, "root": root, "slot": slot}


def opened_updates(slot: int, parent: int, now_ms: int) -> Iterator[dict[str, Any]]:
    """Updates for a slot that opens: a real node receives its first shred, then creates a bank for it."""
    yield {"type": "firstShredReceived", "slot": slot, "timestamp": now_ms}
    yield {"type": "createdBank", "slot": slot, "parent": parent, "timestamp": now_ms}


def sealed_updates(block: Block, now_ms: int) -> Iterator[dict[str, Any]]:
    """Updates for a sealed slot. Each transaction counts as one entry, because the node runs them one by one."""
    total = len(block.transactions)
    failed = sum(record.meta.err is not None for record in block.transactions)
    yield {"type": "completed", "slot": block.slot, "timestamp": now_ms}
    stats = {
        "numTransactionEntries": total,
        "numSuccessfulTransactions": total - failed,
        "numFailedTransactions": failed,
        "maxTransactionsPerEntry": min(total, 1),
    }
    yield {"type": "frozen", "slot": block.slot, "timestamp": now_ms, "stats": stats}


def dead_update(slot: int, error: str, now_ms: int) -> dict[str, Any]:
    return {"type": "dead", "slot": slot, "timestamp": now_ms, "err": error}


def confirmed_update(slot: int, now_ms: int) -> dict[str, Any]:
    return {"type": "optimisticConfirmation", "slot": slot, "timestamp": now_ms}


def root_update(slot: int, now_ms: int) -> dict[str, Any]:
    return {"type": "root", "slot": slot, "timestamp": now_ms}
