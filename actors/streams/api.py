"""Messages between the stream hub and replicas.

Implements: design, "Measured facts" (never one actor call for one item: everything that waits goes in one message). The
messages go over a hot link: a replica opens and closes topics, and always has one poll open, which the hub answers when
there are events. A poll names the last batch that arrived, so nothing is lost or repeated when the link breaks. No
rules live here.
"""

from collections.abc import Sequence

import msgspec

from actors.hotlink.frames import MessageKind

HUB_ACTOR_PREFIX = "stream-hub-"  # Followed by the id of the Ray node (hosting.name_on).

# Flags of an event.
ENDS = 1  # The last event of its topic.
GAP = 2  # Events may be missing; the payload tells from where to where.
MORE = 4  # The next event of this topic has the rest of the payload.


class OpenTopic(msgspec.Struct, frozen=True, array_like=True, tag="o"):
    """Subscribe. handle: the replica's number for it, never used twice; asking again with it changes nothing.

    from_slot: events were delivered up to here before, so the hub fills or tells the gap. None: a new subscription.
    """

    replica: bytes
    handle: int
    method: str
    params: bytes
    from_slot: int | None = None


class CloseTopic(msgspec.Struct, frozen=True, array_like=True, tag="c"):
    """Unsubscribe. An unknown handle changes nothing."""

    replica: bytes
    handle: int


class TopicReply(msgspec.Struct, frozen=True, array_like=True):
    """error: the node's JSON-RPC error object, or empty. session: as in TopicEvents."""

    session: int
    error: bytes = b""


class PollEvents(msgspec.Struct, frozen=True, array_like=True):
    """acked: number of the last batch that arrived in this session; 0: none."""

    replica: bytes
    session: int
    acked: int


class TopicEvent(msgspec.Struct, frozen=True, array_like=True):
    handle: int
    flags: int
    payload: bytes


class TopicEvents(msgspec.Struct, frozen=True, array_like=True):
    """session: the hub's number for all that it knows of this replica; another one than before means that it knows no
    topics any more. batch: 0 where there is nothing new. slot, root: the newest that the hub has seen. overran: events
    were dropped, because this replica took too few."""

    session: int
    batch: int
    slot: int
    root: int
    events: Sequence[TopicEvent]
    overran: bool = False


class AskWindow(msgspec.Struct, frozen=True, array_like=True):
    """Ask for the entries of the Yellowstone window after this number, of slots from from_slot on.

    epoch: of the window that is meant; 0: whichever there is. every_after: entries after this number come whatever
    their slot. wait_ms: how long to wait where there is no such entry.
    """

    epoch: int
    after: int
    from_slot: int
    every_after: int
    wait_ms: int


class WindowEntry(msgspec.Struct, frozen=True, array_like=True):
    """One event of the window, in the node's order. status: of the slot, and body its update without names of filters;
    None: the block of the slot is there, and body is empty."""

    number: int
    slot: int
    status: int | None
    body: bytes


class WindowPart(msgspec.Struct, frozen=True, array_like=True):
    """first: the first slot that can be replayed whole; None: none can. last: the newest slot. newest: number of the
    newest entry; dropped: number of the newest entry that is gone. Another epoch than the one that was asked for:
    updates may be missing between the two windows."""

    epoch: int
    first: int | None = None
    last: int = 0
    newest: int = 0
    dropped: int = 0
    entries: Sequence[WindowEntry] = ()


class AskBlock(msgspec.Struct, frozen=True, array_like=True):
    """Ask for a part of the whole block of a slot."""

    epoch: int
    slot: int
    offset: int


class BlockPart(msgspec.Struct, frozen=True, array_like=True):
    """size: of the whole block's bytes; None: the window does not have it any more."""

    size: int | None
    data: bytes = b""


CHANGE = MessageKind(20, OpenTopic | CloseTopic, TopicReply)
POLL = MessageKind(21, PollEvents, TopicEvents)
WINDOW = MessageKind(22, AskWindow, WindowPart)
BLOCK = MessageKind(23, AskBlock, BlockPart)
LINK_KINDS = (CHANGE, POLL, WINDOW, BLOCK)
