"""Collects the parts of a node's large body as they arrive, and hashes them on the way.

Implements: large answers (10 MB blocks pass through unparsed); decisions, "Signed roots" (the hash of an answer).
Pure, beside a variable that says for which caller a task asks. client.py reads the parts, replies.py judges them.

The parts of a large body are never joined: of 10 MB that took a thread 5 to 9 ms, after the last byte. They are hashed
while the next ones are on their way (here, or by side_hash.py), so the hash is there soon after the body. It covers the
parameters and the id of the client that asked; of the callers who share the answer, the others have it hashed by
calls/evidence.py.
"""

import re
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from hashlib import sha256
from typing import Protocol

import msgspec

ENDS_BYTES = 256  # Bytes at each end of a large result, which contain its other members.
_PART_BYTES_MIN = 64 << 10  # Smaller parts are joined: each would cost a write, and 60 bytes of memory.
# The two ends of a large result: its members in any order and spacing, and nothing else beside them.
_START = re.compile(
    rb"""\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?(?:"id"\s*:\s*(?P<id>[0-9]+)\s*,\s*)?"""
    rb"""(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"result"\s*:"""
)
_END_WITH_ID = re.compile(rb""",\s*"id"\s*:\s*(?P<id>[0-9]+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z""")
_END = re.compile(rb"\}\s*\Z")


class PartsHash(Protocol):
    def update(self, data: bytes | memoryview, /) -> None: ...

    def digest(self) -> bytes: ...


class HashedAnswer(msgspec.Struct, frozen=True):
    """The SHA-256 of parameters as they were sent, a line feed, and an answer with this id."""

    params: bytes
    raw_id: bytes
    digest: bytes


# The parameters and the id of the paid call that a task asks for, and its account. None: nobody needs a hash.
HASHED_FOR: ContextVar[tuple[bytes, bytes, bytes] | None] = ContextVar("hashed_for", default=None)


def place_by_the_ends(parts: Sequence[bytes], request_id: bytes) -> tuple[int, int] | None:
    """Find the id of a large result, whose length was checked by HTTP, without reading what is between its two ends.

    parts: of the body; the first and the last are at least ENDS_BYTES long. None: another layout, an error, or another
    id.
    """
    start = _START.match(parts[0], 0, ENDS_BYTES)
    if start is None:
        return None
    last, before = parts[-1], sum(map(len, parts[:-1]))
    ends_from = max(0, len(last) - ENDS_BYTES)
    if start["id"] is not None:
        return start.span("id") if start["id"] == request_id and _END.search(last, ends_from) else None
    named = _END_WITH_ID.search(last, ends_from)
    if named is None or named["id"] != request_id:
        return None
    return before + named.start("id"), before + named.end("id")


class LargeBody:
    """One body on its way. asked: as HASHED_FOR; None: it is not hashed. hashing: begins a hash with these bytes."""

    def __init__(
        self, asked: tuple[bytes, bytes, bytes] | None, hashing: Callable[[bytes], PartsHash] = sha256
    ) -> None:
        self.size = 0
        self._parts: list[bytes] = []
        self._small: list[bytes] = []  # The last bytes, too few for a part.
        self._small_bytes = 0
        self._asked = asked
        self.hash = None if asked is None else hashing(asked[0] + b"\n")
        self._hashed_parts = 0
        self._place: tuple[int, int] | None = None  # Place of an id in the first part.

    def add(self, received: bytes) -> None:
        self.size += len(received)
        self._small.append(received)
        self._small_bytes += len(received)
        if self._small_bytes >= _PART_BYTES_MIN:
            self._end_part()
            self._hash_parts(len(self._parts) - 1)  # The last part may contain the id.

    def drop(self) -> None:
        """The body is no answer. An error that its reader got may refer to it for long, but to none of its parts."""
        self._parts, self._small = [], []

    def parts(self) -> list[bytes]:
        """End the body. Its parts in order; each but the only one is at least _PART_BYTES_MIN long."""
        if self._small:
            if self._parts:
                self._small.insert(0, self._parts.pop())  # It is not hashed yet.
            self._end_part()
        if not self._parts:
            return [b""]
        if self._parts[-1].endswith(b"\n"):  # Agave ends its bodies with a line feed.
            self._parts[-1] = self._parts[-1][:-1]
        return self._parts

    def hashed(self, place: tuple[int, int]) -> HashedAnswer | None:
        """The hash of the answer, once its parts are judged. place: of its id. None: nobody asked for it, or the id
        does not stand where it was looked for."""
        if self._asked is None or self.hash is None:
            return None
        last = self._parts[-1]
        before = sum(map(len, self._parts[:-1]))
        if self._hashed_parts == 0:
            self._update(last, place[0], place[1])
        elif self._place is not None:
            if place != self._place:
                return None
            self.hash.update(last)
        elif place[0] < before:
            return None
        else:
            self._update(last, place[0] - before, place[1] - before)
        return HashedAnswer(*self._asked[:2], self.hash.digest())

    def _end_part(self) -> None:
        self._parts.append(self._small[0] if len(self._small) == 1 else b"".join(self._small))
        self._small, self._small_bytes = [], 0

    def _hash_parts(self, count: int) -> None:
        if self.hash is None:
            return
        for part in self._parts[self._hashed_parts : count]:
            start = _START.match(part, 0, ENDS_BYTES) if self._hashed_parts == 0 else None
            if start is not None and start["id"] is not None:
                self._place = start.span("id")
                self._update(part, *self._place)
            else:
                self.hash.update(part)
            self._hashed_parts += 1

    def _update(self, part: bytes, id_start: int, id_end: int) -> None:
        assert self._asked is not None and self.hash is not None
        view = memoryview(part)
        for piece in (view[:id_start], self._asked[1], view[id_end:]):
            self.hash.update(piece)
