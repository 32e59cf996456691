"""What the process that encodes exports keeps of them, without the process."""

import msgspec
import pytest

from actors.signals.history_slices import StoredSignal
from actors.signals.history_worker import CloseExport, Exports, OpenExport, PrepareSlice, WriteSlice
from tests.signals.test_log import signal

LINE = msgspec.json.encode(StoredSignal(1_000, 1, signal(1))) + b"\n"


def test_a_slice_is_kept_until_it_is_written_given_up_or_its_export_ends() -> None:
    exports = Exports()
    exports.do(OpenExport(1, "jsonl"))
    assert [exports.do(PrepareSlice(1, 1, number, 0, 0), LINE)[0] for number in (1, 2)] == [1, 1]
    assert b'"S1"' in exports.do(WriteSlice(1, 1))[1][0]
    with pytest.raises(KeyError):
        exports.do(WriteSlice(1, 1))
    exports.do(PrepareSlice(1, 2, 3, 0, 0), LINE)
    with pytest.raises(KeyError):
        exports.do(WriteSlice(1, 2))  # Of a reading that was given up.
    exports.do(CloseExport(1))
    assert not exports._encoders and not exports._prepared
