"""The JSON of notifications, field for field as Agave sends them.

Implements: the envelope, whose context has no apiVersion, unlike that of a reply, and all values in it.
- Accounts: a notification cannot refuse as a read does. Data too long for base58 is replaced by Agave's text for this
  case, and a closed account is shown as an empty one. As on a node, a token program's account that cannot be parsed has
  no notification where the client asked for jsonParsed.
- Blocks: all transactions, or only those that mention a key. A transaction with a version above the client's maximum
  makes the block null, with an error.
- Votes are invented: this node's vote account votes once for each sealed block. No vote transaction exists: the
  signature is made by the identity over slot and hash, and never lands; the hash is the blockhash, because there are no
  bank hashes.
Reads only. Not here: encodings (encoding/accounts.py), when notifications are sent (feed.py).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import orjson
from solders.account import Account
from solders.pubkey import Pubkey

from devnode.chain.genesis import ChainKeys
from devnode.encoding.addresses import SYSTEM_PROGRAM, TOKEN_PROGRAMS
from devnode.parsing.transactions import UnsupportedVersion, block_json
from devnode.pubsub.topics import AccountTopic, BlockTopic, ProgramTopic, Topic
from devnode.records.records import Block, BlockHeader, TransactionRecord
from devnode.rpc.accounts import AccountView
from devnode.rpc.errors import RpcError
from devnode.rpc.node import Node

TOO_LARGE = "error: data too large for bs58 encoding"
RECEIVED = "receivedSignature"  # The whole value is this string; the value of the result is an object.
_CLOSED = Account(0, b"", SYSTEM_PROGRAM)


def account_value(
    node: Node, topic: AccountTopic | ProgramTopic, pubkey: Pubkey, account: Account | None
) -> dict[str, Any]:
    """The JSON of an account. account None: it was closed."""
    config = topic.shape.config()
    shown = account if account is not None else _CLOSED
    try:
        value = AccountView(node, topic.level, config, "binary").of(pubkey, shown)
    except RpcError:  # The shape is already validated, so the data is too long for base58.
        value = AccountView(node, topic.level, config | {"encoding": "base64"}, "binary").of(pubkey, shown)
        assert value is not None
        value["data"] = TOO_LARGE if topic.shape.encoding == "binary" else [TOO_LARGE, "base58"]
    assert value is not None, pubkey
    if account is None:
        value["rentEpoch"] = 0
    return value


def program_value(node: Node, topic: ProgramTopic, pubkey: Pubkey, account: Account) -> dict[str, Any] | None:
    """The JSON of a program's account; None: it has no notification."""
    value = account_value(node, topic, pubkey, account)
    is_parsed = isinstance(value["data"], dict)
    if topic.shape.encoding == "jsonParsed" and topic.program in TOKEN_PROGRAMS and not is_parsed:
        return None
    return {"account": value, "pubkey": str(pubkey)}


def block_value(
    header: BlockHeader, transactions: Sequence[TransactionRecord], topic: BlockTopic
) -> dict[str, Any] | None:
    """The JSON of a block; None if no transaction mentions the topic's key, and then there is no notification."""
    reward = header.reward if isinstance(header, Block) else None
    mention = topic.mention
    if mention is not None:
        transactions = [transaction for transaction in transactions if mention in transaction.keys]
        if not transactions:
            return None
    try:
        shown = (topic.details, topic.encoding, topic.max_version, topic.shows_rewards)
        block = block_json(header, transactions, *shown, reward)
        return {"slot": header.slot, "block": block, "err": None}
    except UnsupportedVersion as unsupported:
        err = {"UnsupportedTransactionVersion": unsupported.version}
        return {"slot": header.slot, "block": None, "err": err}


def vote_of(keys: ChainKeys, block: Block) -> dict[str, Any]:
    """The invented vote for a sealed block."""
    signed = keys.identity.sign_message(f"vote {block.slot} {block.blockhash}".encode())
    return {
        "votePubkey": str(keys.vote.pubkey()),
        "slots": [block.slot],
        "hash": block.blockhash,
        "timestamp": block.unix_time,
        "signature": str(signed),
    }


def notification(topic: Topic, identifier: int, result: Any) -> str:
    """The text for all subscribers of the topic."""
    params = {"result": result, "subscription": identifier}
    return orjson.dumps({"jsonrpc": "2.0", "method": topic.notification, "params": params}).decode()


def in_slot(slot: int, value: Any) -> dict[str, Any]:
    return {"context": {"slot": slot}, "value": value}


def logs_value(transaction: TransactionRecord) -> dict[str, Any]:
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
