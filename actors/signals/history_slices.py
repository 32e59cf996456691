"""Parses history lines from the database, and applies corrections of forks.

Implements: decisions, "history of signals". Pure. Rows are read in a process of their own, history_worker.py; an event
loop calls `last_place` alone.

A signal that a fork removed is left out; a moved one has its new slot; one that landed again is where the log restored
it. Corrections come within seconds of a signal; those that come later than CORRECTED_MS_MAX are not seen.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from actors.signals.events import SignalEvent

CORRECTED_MS_MAX = 3_600_000  # A slot is final after seconds; a classifier that was away corrects when it is back.
_BYTES_AT_ONCE = 50_000  # About 120 rows, parsed in 0.3 ms.


class StoredSignal(msgspec.Struct, frozen=True, array_like=True, gc=False):
    cursor_ms: int
    cursor_seq: int
    event: SignalEvent

    @property
    def cursor(self) -> str:
        return f"{self.cursor_ms}-{self.cursor_seq}"


class StoredCorrection(msgspec.Struct, frozen=True, array_like=True):
    cursor_ms: int
    cursor_seq: int
    change: str
    event: SignalEvent


_signals, _corrections = msgspec.json.Decoder(StoredSignal), msgspec.json.Decoder(StoredCorrection)


def parts_of(pieces: Iterable[bytes], bytes_at_once: int = _BYTES_AT_ONCE) -> Iterator[bytes]:
    """Join the pieces of a COPY to parts of whole lines, and undo its doubled backslashes."""
    kept, length = list[bytes](), 0
    for piece in pieces:
        kept.append(piece)
        length += len(piece)
        if length < bytes_at_once:
            continue
        joined = b"".join(kept)
        start = 0
        while len(joined) - start >= bytes_at_once and (end := joined.find(b"\n", start + bytes_at_once - 1) + 1):
            yield _single(joined[start:end])
            start = end
        kept, length = [joined[start:]], len(joined) - start
    if length:
        yield _single(b"".join(kept))


def _single(part: bytes) -> bytes:
    return part.replace(b"\\\\", b"\\") if b"\\" in part else part


def read_signals(lines: Iterable[bytes], corrections: Iterable[bytes]) -> list[list[StoredSignal]]:
    """Return the signals in groups of about a hundred; none is empty. Raises msgspec.MsgspecError."""
    later: dict[tuple[str, str, str], list[StoredCorrection]] = {}
    for part in parts_of(corrections):
        for each in _corrections.decode_lines(part):
            later.setdefault(each.event.identity, []).append(each)
    groups: list[list[StoredSignal]] = []
    for part in parts_of(lines):
        found = _signals.decode_lines(part)
        if later:
            found = [now for each in found if (now := _corrected(each, later.get(each.event.identity, ())))]
        if found:
            groups.append(found)
    return groups


def _corrected(row: StoredSignal, corrections: Sequence[StoredCorrection]) -> StoredSignal | None:
    """corrections: of its signal, oldest first. None: it was removed."""
    slot = row.event.slot
    for each in corrections:
        if (each.cursor_ms, each.cursor_seq) < (row.cursor_ms, row.cursor_seq):
            continue
        if each.change == "removed":
            return None
        slot = each.event.slot
    if slot == row.event.slot:
        return row
    return StoredSignal(row.cursor_ms, row.cursor_seq, msgspec.structs.replace(row.event, slot=slot))


def last_place(pieces: Sequence[bytes]) -> tuple[int, int, int]:
    """Return the time of the first line, and the place of the last one. pieces: of at least one line."""
    head = tail = b""
    for piece in pieces:
        head += piece
        if b"," in head:
            break
    for piece in reversed(pieces):
        tail = piece + tail
        if b"\n" in tail[:-1]:
            break
    return _number(head, 1)[0], *_place(tail[tail.rfind(b"\n", 0, -1) + 1 :])


def _place(line: bytes) -> tuple[int, int]:
    at_ms, end = _number(line, 1)
    return at_ms, _number(line, end + 1)[0]


def _number(line: bytes, start: int) -> tuple[int, int]:
    end = line.index(b",", start)
    return int(line[start:end]), end
