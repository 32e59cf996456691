"""Account contents in notifications.

Implements: the value of account and program notifications. A notification cannot refuse as a read does: data too long
for base58 is replaced by Agave's text for this case, and a closed account is shown as an empty one. As on a node, a
token program's account that cannot be parsed has no notification where the client asked for jsonParsed.
Reads only. Not here: encodings (encoding/accounts.py), when notifications are sent (feed.py).
"""

from typing import Any

from solders.account import Account
from solders.pubkey import Pubkey

from devnode.encoding.addresses import SYSTEM_PROGRAM, TOKEN_PROGRAMS
from devnode.pubsub.topics import AccountTopic, ProgramTopic
from devnode.rpc.accounts import AccountView
from devnode.rpc.errors import RpcError
from devnode.rpc.node import Node

TOO_LARGE = "error: data too large for bs58 encoding"
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
