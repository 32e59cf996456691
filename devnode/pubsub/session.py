"""The JSON-RPC methods of one WebSocket connection.

Implements: the subscribe and unsubscribe methods of Agave, getVersion, single calls and batches. As on a node, any
unsubscribe method ends any subscription of the connection.
Not here: the socket (door.py), JSON-RPC itself (rpc/dispatch.py).
"""

from collections.abc import Callable
from typing import Any

from devnode.pubsub import reading
from devnode.pubsub.connection import Connection
from devnode.pubsub.hub import Hub
from devnode.pubsub.topics import SignatureTopic, Topic
from devnode.rpc import params as read
from devnode.rpc.cluster import get_version
from devnode.rpc.dispatch import Dispatcher, Handler, Method
from devnode.rpc.node import Node
from devnode.rpc.params import Params

Read = Callable[[Node, Params], Topic]

# (Name, reader of its parameters, least and most number of parameters).
SUBSCRIBE: tuple[tuple[str, Read, int, int], ...] = (
    ("accountSubscribe", reading.account_topic, 1, 2),
    ("blockSubscribe", reading.block_topic, 1, 2),
    ("logsSubscribe", reading.logs_topic, 1, 2),
    ("programSubscribe", reading.program_topic, 1, 2),
    ("rootSubscribe", reading.root_topic, 0, 0),
    ("signatureSubscribe", reading.signature_topic, 1, 2),
    ("slotSubscribe", reading.slot_topic, 0, 0),
    ("slotsUpdatesSubscribe", reading.slots_updates_topic, 0, 0),
    ("voteSubscribe", reading.vote_topic, 0, 0),
)
UNSUBSCRIBE = (
    "accountUnsubscribe",
    "blockUnsubscribe",
    "logsUnsubscribe",
    "programUnsubscribe",
    "rootUnsubscribe",
    "signatureUnsubscribe",
    "slotUnsubscribe",
    "slotsUpdatesUnsubscribe",
    "voteUnsubscribe",
)


class Session:
    """The methods, bound to one connection."""

    def __init__(self, node: Node, hub: Hub, connection: Connection) -> None:
        self._hub, self._connection = hub, connection
        self._unsettled: list[SignatureTopic] = []
        table = {name: Method(self._subscribing(reader), least, most) for name, reader, least, most in SUBSCRIBE}
        table |= {name: Method(self._unsubscribe, 1, 1) for name in UNSUBSCRIBE}
        table["getVersion"] = Method(get_version, 0, 0)
        self._dispatcher = Dispatcher(node, table)

    def receive(self, request: bytes) -> None:
        """Answer one message. The reply to a subscription comes before its first notification."""
        reply = self._dispatcher.answer(request)
        if reply is not None:
            self._connection.offer(reply.decode())
        unsettled, self._unsettled = self._unsettled, []
        for topic in unsettled:
            self._hub.settle(topic)

    def _subscribing(self, reader: Read) -> Handler:
        def subscribe(node: Node, params: Params) -> Any:
            topic = reader(node, params)
            identifier = self._hub.subscribe(topic, self._connection)
            if isinstance(topic, SignatureTopic):
                self._unsettled.append(topic)
            return identifier

        return subscribe

    def _unsubscribe(self, node: Node, params: Params) -> Any:
        self._hub.unsubscribe(read.unsigned(read.at(params, 0)), self._connection)
        return True
