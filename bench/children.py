"""A measuring process that is driven line by line over its input and output.

Attackers and their victim each run in one: what one does must not hold the event loop of another, or of the
measurement. A process ends when its input is closed.
"""

import subprocess
import sys
from types import TracebackType
from typing import Self

from bench.product import ROOT

_END_SECONDS = 10.0


class ChildFailed(Exception):
    """A measuring process ended before it answered; the text names it."""


class Child:
    def __init__(self, *module: str) -> None:
        self._name = " ".join(module)
        self._process = subprocess.Popen(
            [sys.executable, "-m", *module], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def hear(self) -> str:
        """Wait for its next line. Raises ChildFailed where it ends instead."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ChildFailed(f"{self._name} ended with {self._process.wait(_END_SECONDS)}")
        return line

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
