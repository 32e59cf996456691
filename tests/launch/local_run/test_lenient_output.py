"""Guards that a print which nobody can read stops nothing."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from actors.launch.local_run import lenient_output

ROOT = Path(lenient_output.__file__).parents[2]


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_what_can_be_read_is_printed_as_before(unbuffered: str) -> None:
    """Rule: output in a log or on a terminal is the same, in its order and encoding, and nothing of it is lost."""
    script = (
        "from actors.launch.local_run.lenient_output import make_lenient; print('✓ one'); "
        "make_lenient(); print('✓ two' * 100_000); "
        "import os, sys; print('three', file=sys.stderr); sys.stdout.flush(); os._exit(0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", "PYTHONUNBUFFERED": unbuffered},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert (done.stdout, done.stderr) == ("✓ one\n" + "✓ two" * 100_000 + "\n", "three\n")


@pytest.mark.parametrize("kind", ["a pipe without a reader", "a full disk"])
def test_what_cannot_be_read_is_no_error(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: printing never raises, neither at once nor when it is flushed."""
    if kind == "a full disk":
        descriptor = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, descriptor = os.pipe()
        os.close(reader)
    stream = io.TextIOWrapper(io.FileIO(descriptor, "wb"), encoding="utf-8", write_through=True)
    with pytest.raises(OSError):
        stream.write("x")
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    lenient_output.make_lenient()
    for number in range(3):
        print("x" * 10_000 * number, flush=True)
        print("x", file=sys.stderr)
    monkeypatch.undo()
    with pytest.raises(OSError):
        stream.write("x")


def test_without_an_output_there_is_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: a process whose outputs were closed from the start has none."""
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    lenient_output.make_lenient()
    assert sys.stdout is None
