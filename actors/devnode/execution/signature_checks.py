"""Signatures checked in a process beside this one, while this one lands what was checked before.

Implements: a check takes a quarter of all that a send costs and holds the interpreter lock, so on a machine with
several cores a node under load leaves it to `signature_process`. That is started when transactions first pile up, and
a node that is asked one thing at a time never has it. Where it is missing, not ready, silent or gone, or has enough to
do, the answer is "not known" and whoever asked checks for itself; so nothing depends on it but speed.
Runs in the loop of the owner. Not here: what a good signature permits (chain/chain.py).
"""

import asyncio
import logging
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from actors.devnode.execution.signature_process import GOOD, LENGTH_BYTES, READY

logger = logging.getLogger("devnode")
_PILE = 4  # So many in one turn of the loop, and the process is worth its memory.
_ASKED_MAX = 40  # With more on its way it is being kept from working, and checking here is sooner.
_ASKED_BYTES_MAX = 64 * 1024  # What is on its way always fits into the socket, which is never waited for.
_SILENCE_SECONDS_MAX = 2.0  # Thousands of checks: after that it has been stopped, and nobody waits for it.
_SOCKET_BYTES = 256 * 1024  # The kernel counts its own bookkeeping as well.

Then = Callable[[bool], None]


class SignatureChecks:
    def __init__(self, cores: int | None = None) -> None:
        """cores: of this machine; with a single one nothing is gained and no process is started."""
        self._may_start = (os.cpu_count() or 1 if cores is None else cores) > 1
        self._waiting: list[tuple[bytes, Then]] = []  # Of this turn of the loop.
        self._asked: deque[tuple[bytes, Then]] = deque()
        self._asked_bytes = 0
        self._heard_at = 0.0  # Or began to wait.
        self._watch: asyncio.TimerHandle | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self.ready = asyncio.Event()  # While the process takes what it is given.

    @property
    def process_id(self) -> int | None:
        return None if self._process is None else self._process.pid

    def check(self, raw: bytes, then: Then) -> None:
        """Call `then` later: True when all signatures of the transaction are good, False when that is not known."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._end_turn)
        self._waiting.append((raw, then))

    def _end_turn(self) -> None:
        waiting, self._waiting = self._waiting, []
        if self._process is None and self._may_start and len(waiting) >= _PILE:
            self._start()
        taken = self._room(waiting)
        if taken:
            self._ask(waiting[:taken])
        for _, then in waiting[taken:]:
            _tell(then, False)

    def _room(self, waiting: Sequence[tuple[bytes, Then]]) -> int:
        """How many of them the process is given."""
        if not self.ready.is_set() or (len(waiting) == 1 and not self._asked):
            return 0  # Alone, a check is over sooner here than it would be there and back.
        count, size = 0, self._asked_bytes
        for raw, _ in waiting[: _ASKED_MAX - len(self._asked)]:
            size += len(raw)
            if size > _ASKED_BYTES_MAX:
                break
            count += 1
        return count

    def _ask(self, group: Sequence[tuple[bytes, Then]]) -> None:
        assert self._channel is not None
        loop = asyncio.get_running_loop()
        if not self._asked:
            self._heard_at = loop.time()
        if self._watch is None:
            self._watch = loop.call_later(_SILENCE_SECONDS_MAX, self._look)
        self._asked += group
        self._asked_bytes += sum(len(raw) for raw, _ in group)
        text = msgspec.msgpack.encode([raw for raw, _ in group])
        try:
            sent = self._channel.send(len(text).to_bytes(LENGTH_BYTES, "big") + text)
        except OSError:
            sent = 0
        if sent != LENGTH_BYTES + len(text):  # Gone, or it has not read for so long that it might as well be.
            self._lose()

    def _start(self) -> None:
        self._may_start = False  # Once: what dies of something would die of it again.
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
        with theirs:
            command = [sys.executable, "-m", "actors.devnode.execution.signature_process", str(theirs.fileno())]
            try:
                self._process = subprocess.Popen(  # noqa: S603 - this program's own interpreter and module.
                    command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL
                )
            except OSError as error:
                logger.warning("signatures are checked without a process of their own: %s", error)
                ours.close()
                return
        self._channel = ours
        asyncio.get_running_loop().add_reader(ours, self._hear)

    def _hear(self) -> None:
        assert self._channel is not None
        try:
            verdicts = self._channel.recv(_ASKED_MAX)
        except BlockingIOError:
            return
        except OSError:
            verdicts = b""
        if not verdicts:
            self._lose()
        elif not self.ready.is_set():
            assert verdicts == READY, verdicts
            self.ready.set()
        else:
            self._heard_at = asyncio.get_running_loop().time()
            for verdict in verdicts:
                raw, then = self._asked.popleft()
                self._asked_bytes -= len(raw)
                _tell(then, verdict == GOOD)

    def _look(self) -> None:
        self._watch = None
        if not self._asked:
            return
        loop = asyncio.get_running_loop()
        left = self._heard_at + _SILENCE_SECONDS_MAX - loop.time()
        if left > 0:
            self._watch = loop.call_later(left, self._look)
        else:
            self._lose()

    def _lose(self) -> None:
        """The process is gone, or as good as gone: everybody it owes an answer checks for himself."""
        logger.warning("the process that checked signatures is gone; they are checked without it from now on")
        self.close()
        asked, self._asked = self._asked, deque()
        for _, then in asked:
            _tell(then, False)

    def close(self) -> None:
        """End the process; what is still being asked stays without an answer. A second time changes nothing."""
        self._may_start = False
        self.ready.clear()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._channel is not None:
            asyncio.get_running_loop().remove_reader(self._channel)
            self._channel.close()
            self._channel = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _tell(then: Then, is_signed: bool) -> None:
    """Whatever goes wrong with it, the others are told theirs: verdicts have no names, so if those that came with it
    were dropped, the next ones would be taken for theirs."""
    try:
        then(is_signed)
    except Exception:
        logger.exception("what follows from a check of signatures failed")
