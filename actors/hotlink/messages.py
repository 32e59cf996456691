"""Defines the messages between an edge and an owner: kinds of requests, and marks in place of a reply.

Implements: design, section 2 (coalesced frames). A message is one byte of kind and MessagePack
`[frame, [[sequence, item], ...]]`. An answer has the same form with replies for items, in the order in which they
become ready; its `frame` acknowledges that frame, or is 0. No rule of any context may live here.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

_KINDS = tuple(bytes((number,)) for number in range(256))
_encode = msgspec.msgpack.Encoder().encode

# Marks on the wire in place of a reply. UNKNOWN: the owner does not know the outcome; ask again. FAILED: a bug of the
# owner; a second request would fail too, and would delay other requests of the edge. START_OVER: the owner has given up
# the edge, which must continue under another name. OF_THE_EDGE is a sequence number that no request has; with it,
# START_OVER concerns the edge of the connection.
UNKNOWN, FAILED, START_OVER = None, False, True
OF_THE_EDGE = 0


class AskAgain(Exception):
    """A handler cannot answer at the moment: the edge asks again, a little later each time."""


@dataclass(frozen=True, slots=True)
class MessageKind:
    """One kind of request. Its number is on the wire, and must never be reused for another meaning."""

    number: int
    request_type: Any
    reply_type: Any

    def frame_decoder(self) -> Any:
        return _frame_decoder(self.request_type)

    def answer_decoder(self) -> Any:
        return _frame_decoder(self.reply_type | bool | None)


def message(kind: int, content: Any) -> bytes:
    """Encode a message. content: (frame, [(sequence, item), ...])."""
    return _KINDS[kind] + _encode(content)


def _frame_decoder(item: Any) -> Any:
    return msgspec.msgpack.Decoder(tuple.__class_getitem__((int, list[tuple[int, item]])))
