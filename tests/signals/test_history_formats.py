"""The forms of signals without a database: what comes before, between and after rows."""

import subprocess
import sys

import orjson
import pytest

from actors.signals.history_formats import COLUMNS, END_KEY, offered_formats, offered_types
from actors.signals.history_slices import StoredSignal
from tests.signals.test_log import signal

ROWS = [StoredSignal(1_000 + number, number, signal(number)) for number in range(3)]


@pytest.mark.parametrize("name", ["jsonl", "csv"])
def test_text_is_whole_lines_and_ends_with_its_end(name: str) -> None:
    encoder = offered_formats()[name]()
    text = encoder.head() + b"".join(encoder.write(encoder.prepare([ROWS[:2], ROWS[2:]]))) + encoder.end({"events": 3})
    *lines, last = text.splitlines()
    assert len(lines) == 3 + (name == "csv") and b"S2" in lines[-1]
    assert orjson.loads(last.removeprefix(b"# end: ")) in ({"events": 3}, {"end": {"events": 3}})


def test_a_replica_tells_the_formats_without_importing_their_library() -> None:
    """pyarrow takes 45 MB, and belongs into the process that encodes."""
    assert list(offered_types()) == list(offered_formats())
    script = "import sys; from actors.signals.history_page import offered_types; offered_types(); print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert "actors.signals.history_page" in shown.stdout and "pyarrow" not in shown.stdout.split()


def test_what_was_only_prepared_leaves_no_trace() -> None:
    """A slice that its account cannot pay for is not in the file, and the schema does not depend on rows."""
    arrow = pytest.importorskip("pyarrow")
    encoder = offered_formats()["arrow"]()
    pieces = [encoder.head(), *encoder.write(encoder.prepare([ROWS[:1]]))]
    encoder.prepare([ROWS[1:]])
    pieces.append(encoder.end({"events": 1}))
    reader = arrow.ipc.open_stream(b"".join(pieces))
    assert reader.schema.names == ["time", *COLUMNS[1:]]
    first, last = (reader.read_next_batch_with_custom_metadata() for _ in range(2))
    assert first.batch.column("cursor").to_pylist() == ["1000-0"] and last.batch.num_rows == 0
    assert orjson.loads(last.custom_metadata[END_KEY]) == {"events": 1}
