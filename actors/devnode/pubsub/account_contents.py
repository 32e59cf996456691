"""Account contents in notifications.

Implements: the value of account and program notifications. Where a read would refuse, a notification cannot: data
too long for base58 is replaced by Agave's text for it, and a closed account is shown as the empty one.
Reads only. Not here: encodings (encoding/accounts.py), when it is sent (feed.py).
"""

from typing import Any

from solders.account import Account
from solders.pubkey import Pubkey

from actors.devnode.encoding.addresses import SYSTEM_PROGRAM
from actors.devnode.pubsub.topics import AccountTopic, ProgramTopic
from actors.devnode.rpc.accounts import AccountView
from actors.devnode.rpc.errors import RpcError
from actors.devnode.rpc.node import Node

TOO_LARGE = "error: data too large for bs58 encoding"
_CLOSED = Account(0, b"", SYSTEM_PROGRAM)


def account_value(
    node: Node, topic: AccountTopic | ProgramTopic, pubkey: Pubkey, account: Account | None
) -> dict[str, Any]:
    """account None: closed."""
    config = topic.shape.config()
    shown = account if account is not None else _CLOSED
    try:
        value = AccountView(node, topic.level, config, "binary").of(pubkey, shown)
    except RpcError:  # The shape was read without complaint, so it is base58 of too many bytes.
        value = AccountView(node, topic.level, config | {"encoding": "base64"}, "binary").of(pubkey, shown)
        assert value is not None
        value["data"] = TOO_LARGE if topic.shape.encoding == "binary" else [TOO_LARGE, "base58"]
    assert value is not None, pubkey
    if account is None:
        value["rentEpoch"] = 0
    return value


def program_value(node: Node, topic: ProgramTopic, pubkey: Pubkey, account: Account) -> dict[str, Any]:
    return {"account": account_value(node, topic, pubkey, account), "pubkey": str(pubkey)}
