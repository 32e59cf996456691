"""The steps of a race at which a test may kill the racer's process.

Implements: threat 18. The racer reports each step through a port, which does nothing in a product: only the
setting `sends.fault_file`, which tests alone set, puts a switch there.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path

# In the order of a race. A step with a colon is just before that leg takes the bytes.
STEPS = (
    "stored",
    "claimed",
    "leg:local_rpc",
    "leg:jito",
    "leg:tpu_quic",
    "broadcast",
    "reported",
    "proven",
    "ended",
    "settled",
    "ticket_ended",
)
Reached = Callable[[str], None]


def pass_by(step: str) -> None:
    """Do nothing: the port of a racer that is no test's."""
    assert step in STEPS, step


class KillFile:
    """Kills this process at the step that the file names. The file is removed first, so it happens once."""

    def __init__(self, path: Path, kill: Callable[[int, int], None] = os.kill) -> None:
        self._path, self._kill = path, kill

    def reached(self, step: str) -> None:
        assert step in STEPS, step
        try:
            wanted = self._path.read_text().strip()
        except FileNotFoundError:
            return
        if wanted == step:
            self._path.unlink()
            self._kill(os.getpid(), signal.SIGKILL)
