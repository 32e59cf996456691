"""Checks signatures in a second process, while this process executes transactions.

Implements: a check takes a quarter of the time of a send and holds the interpreter lock, so on a machine with several
cores a node under load leaves checks to `signature_process`. The process is started when several transactions first
arrive in one turn of the loop. While it is missing, not ready, silent or busy, the answer is "not known", and the
caller checks the signatures itself: only speed depends on the process.
Runs in the chain's event loop. Not here: what a valid signature permits (chain/chain.py).
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

from devnode.execution.signature_process import GOOD, LENGTH_BYTES, READY

logger = logging.getLogger("devnode")
_START_AT = 4  # Transactions in one turn of the loop from which the process is worth its memory.
_PENDING_MAX = 40  # With more than this, the process is too slow and a check in this process ends sooner.
_PENDING_BYTES_MAX = 64 * 1024  # Always fits into the socket's buffer, so that sending never blocks.
_SILENCE_SECONDS_MAX = 2.0  # Enough for thousands of checks: a process silent for longer has been stopped.
_SOCKET_BYTES = 256 * 1024  # More than the pending bytes, because the kernel counts its own overhead too.

Callback = Callable[[bool], None]


class SignatureChecks:
    def __init__(self, cores: int | None = None) -> None:
        """cores: those of this machine. With one core a second process gains nothing and is not started."""
        self._may_start = (os.cpu_count() or 1 if cores is None else cores) > 1
        self._waiting: list[tuple[bytes, Callback]] = []  # Checks of this turn of the loop.
        self._pending: deque[tuple[bytes, Callback]] = deque()  # Checks sent to the process, in order.
        self._pending_bytes = 0
        self._last_reply_at = 0.0  # Or the time of sending, when nothing was pending before.
        self._watch: asyncio.TimerHandle | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self.ready = asyncio.Event()  # Set while the process accepts checks.

    @property
    def process_id(self) -> int | None:
        return None if self._process is None else self._process.pid

    def check(self, raw: bytes, then: Callback) -> None:
        """Call `then` later: True if all signatures of the transaction are valid, False if that is not known."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._end_turn)
        self._waiting.append((raw, then))

    def _end_turn(self) -> None:
        waiting, self._waiting = self._waiting, []
        if self._process is None and self._may_start and len(waiting) >= _START_AT:
            self._start()
        taken = self._accepted(waiting)
        if taken:
            self._send(waiting[:taken])
        for _, then in waiting[taken:]:
            _call_back(then, False)

    def _accepted(self, waiting: Sequence[tuple[bytes, Callback]]) -> int:
        """How many of the waiting checks to send to the process."""
        if not self.ready.is_set() or (len(waiting) == 1 and not self._pending):
            return 0  # A single check ends sooner in this process than a round trip.
        count, size = 0, self._pending_bytes
        for raw, _ in waiting[: _PENDING_MAX - len(self._pending)]:
            size += len(raw)
            if size > _PENDING_BYTES_MAX:
                break
            count += 1
        return count

    def _send(self, group: Sequence[tuple[bytes, Callback]]) -> None:
        assert self._channel is not None
        loop = asyncio.get_running_loop()
        if not self._pending:
            self._last_reply_at = loop.time()
        if self._watch is None:
            self._watch = loop.call_later(_SILENCE_SECONDS_MAX, self._check_silence)
        self._pending += group
        self._pending_bytes += sum(len(raw) for raw, _ in group)
        text = msgspec.msgpack.encode([raw for raw, _ in group])
        try:
            sent = self._channel.send(len(text).to_bytes(LENGTH_BYTES, "big") + text)
        except OSError:
            sent = 0
        if sent != LENGTH_BYTES + len(text):  # The process has ended, or it does not read.
            self._give_up()

    def _start(self) -> None:
        self._may_start = False  # Start it once: a process that died of an error would die of it again.
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
        with theirs:
            command = [sys.executable, "-m", "devnode.execution.signature_process", str(theirs.fileno())]
            try:
                self._process = subprocess.Popen(  # noqa: S603 - this program's own interpreter and module.
                    command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL
                )
            except OSError as error:
                logger.warning("signatures are checked without a process of their own: %s", error)
                ours.close()
                return
        self._channel = ours
        asyncio.get_running_loop().add_reader(ours, self._receive)

    def _receive(self) -> None:
        assert self._channel is not None
        try:
            verdicts = self._channel.recv(_PENDING_MAX)
        except BlockingIOError:
            return
        except OSError:
            verdicts = b""
        if not verdicts:
            self._give_up()
        elif not self.ready.is_set():
            assert verdicts == READY, verdicts
            self.ready.set()
        else:
            self._last_reply_at = asyncio.get_running_loop().time()
            for verdict in verdicts:
                raw, then = self._pending.popleft()
                self._pending_bytes -= len(raw)
                _call_back(then, verdict == GOOD)

    def _check_silence(self) -> None:
        self._watch = None
        if not self._pending:
            return
        loop = asyncio.get_running_loop()
        left = self._last_reply_at + _SILENCE_SECONDS_MAX - loop.time()
        if left > 0:
            self._watch = loop.call_later(left, self._check_silence)
        else:
            self._give_up()

    def _give_up(self) -> None:
        """End a process that is dead or silent, and answer "not known" to all pending checks."""
        logger.warning("the process that checked signatures is gone; they are checked without it from now on")
        self.close()
        pending, self._pending = self._pending, deque()
        for _, then in pending:
            _call_back(then, False)

    def close(self) -> None:
        """End the process; pending checks get no answer. A second call changes nothing."""
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


def _call_back(then: Callback, is_signed: bool) -> None:
    """Call back and log an exception. Verdicts are matched to checks by their order alone, so an exception must not
    skip the ones after it."""
    try:
        then(is_signed)
    except Exception:
        logger.exception("the callback of a signature check failed")
