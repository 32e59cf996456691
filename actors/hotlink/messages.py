"""What travels between an edge and an owner: kinds of requests, and the words that may stand in place of a reply.

Implements: design, section 2 (coalesced frames). A message is one byte of kind and MessagePack
`[frame, [[sequence, item], ...]]`. An answer has the same form with replies for items, in the order in which they
become ready; there `frame` acknowledges that frame, or is 0. No rule of any context may live here.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

_KINDS = tuple(bytes((number,)) for number in range(256))
_encode = msgspec.msgpack.Encoder().encode

# On the wire in place of a reply. UNKNOWN: not known, ask again. FAILED: a fault of the owner's; asking again would
# only fail again, and would hold up everything else of this edge. START_OVER: the owner has given up the edge of this
# request, and the edge must go on under another name. OF_THE_EDGE is a sequence number that no request has: with it
# START_OVER concerns the edge of the connection.
UNKNOWN, FAILED, START_OVER = None, False, True
OF_THE_EDGE = 0


class AskAgain(Exception):
    """Raised by a handler that cannot say at the moment: the edge asks again, a little later each time."""


@dataclass(frozen=True, slots=True)
class MessageKind:
    """One sort of request. Numbers are the wire's; they must never be reused for another meaning."""

    number: int
    request_type: Any
    reply_type: Any

    def frame_decoder(self) -> Any:
        return _frame_decoder(self.request_type)

    def answer_decoder(self) -> Any:
        return _frame_decoder(self.reply_type | bool | None)


def message(kind: int, content: Any) -> bytes:
    """The bytes of a message; content: (frame, [(sequence, item), ...])."""
    return _KINDS[kind] + _encode(content)


def _frame_decoder(item: Any) -> Any:
    return msgspec.msgpack.Decoder(tuple.__class_getitem__((int, list[tuple[int, item]])))
