"""Lines of the database to rows: however they are cut, and with the corrections that came later."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.signals.events import SignalEvent
from actors.signals.history_slices import StoredCorrection, StoredSignal, last_place, parts_of, read_signals
from tests.signals.test_log import signal

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=8)


def copied(rows: list[msgspec.Struct]) -> bytes:
    """As COPY writes JSON: JSON has no control characters, and COPY doubles each backslash."""
    return msgspec.json.Encoder().encode_lines(rows).replace(b"\\", b"\\\\")


def stored(number: int, event: SignalEvent) -> StoredSignal:
    return StoredSignal(1_000 + number, number, event)


def pieces(data: bytes, length: int) -> list[bytes]:
    return [data[start : start + length] for start in range(0, len(data), length)]


@settings(max_examples=40)
@given(st.lists(TEXT, min_size=1, max_size=20), st.integers(1, 200), st.integers(1, 300))
def test_rows_survive_every_cut_and_every_text(texts: list[str], length: int, at_once: int) -> None:
    rows = [stored(number, msgspec.structs.replace(signal(number), mint=text)) for number, text in enumerate(texts)]
    cut = pieces(copied(list(rows)), length)
    assert [
        row for part in parts_of(cut, at_once) for row in msgspec.json.Decoder(StoredSignal).decode_lines(part)
    ] == rows
    groups = read_signals(cut, [])
    assert [row for group in groups for row in group] == rows
    assert last_place(cut) == (1_000, rows[-1].cursor_ms, rows[-1].cursor_seq)


changes = st.lists(st.tuples(st.sampled_from(("moved", "removed")), st.integers(0, 9), st.integers(1, 3)), max_size=6)


@settings(max_examples=60)
@given(changes)
def test_a_signal_is_as_its_later_corrections_left_it(found: list[tuple[str, int, int]]) -> None:
    """Those before it are of an earlier landing; the first removal after it takes it away."""
    row = StoredSignal(5, 0, signal(1, slot=100))
    found = sorted(found, key=lambda each: each[1])
    corrections = [
        StoredCorrection(at, 1, change, msgspec.structs.replace(row.event, slot=slot)) for change, at, slot in found
    ]
    groups = read_signals([copied([row])], [copied(list(corrections))])
    later = [each for each in found if each[1] >= 5]
    removed = any(change == "removed" for change, _, _ in later)
    wanted = [] if removed else [[row.event.slot, *(slot for _, _, slot in later)][-1]]
    assert [each.event.slot for group in groups for each in group] == wanted
