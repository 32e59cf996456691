"""One attack beside a victim on a running product: what it did to the victim and to the memory of the replicas.

Used by the measurement (starvation.py) and by the tests. Nothing is judged here.
"""

import os
import signal
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import psutil

from bench.attackers.process import AttackerProcess
from bench.attackers.target import Target
from bench.product import Product
from bench.victim import Seen, Victim

_REPLICA_MARK = "ServeReplica"
_SAMPLE_SECONDS = 0.5
_CALM_SECONDS = 0.5
_BEFORE_KILL_SECONDS = 1.0
MEMORY_BACK_BYTES = 50 << 20


@dataclass(frozen=True, slots=True)
class Assault:
    """What one attack did. bytes_*: memory of the replicas. saw: what the attacker counted."""

    attacker: str
    quiet: Seen
    attacked: Seen
    bytes_before: int
    bytes_peak: int
    bytes_after: int
    saw: dict[str, int]


def replica_bytes(product: Product) -> int:
    """Return the resident memory of all replicas."""
    found = 0
    for pid in product.running(_REPLICA_MARK):
        try:
            found += int(psutil.Process(pid).memory_info().rss)
        except psutil.Error:
            continue
    return found


class MemoryPeak:
    """The largest memory of the replicas while a `with` block runs."""

    def __init__(self, product: Product) -> None:
        self._product, self._stop = product, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.bytes = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(_SAMPLE_SECONDS):
            self.bytes = max(self.bytes, replica_bytes(self._product))


def memory_back(product: Product, before: int, wait_seconds: float) -> int:
    """Wait until the replicas have given back what an attack took, or the time is over; return their memory."""
    deadline = time.monotonic() + wait_seconds
    while (found := replica_bytes(product)) > before + MEMORY_BACK_BYTES and time.monotonic() < deadline:
        time.sleep(_SAMPLE_SECONDS)
    return found


def target_of(product: Product, keys: tuple[str, ...], seconds: float) -> Target:
    return Target("127.0.0.1", product.ports.http, str(product.ready["grpc_target"]), keys, seconds)


def assault(
    product: Product, victim: Victim, attacker: str, target: Target, quiet_seconds: float, back_seconds: float
) -> Assault:
    """Measure the victim without and beside the attacker, and wait until memory is back.

    back_seconds: how long the replicas have to give their memory back.
    """
    process = AttackerProcess(attacker, target)
    time.sleep(_CALM_SECONDS)
    quiet = victim.measure(quiet_seconds)
    bytes_before = replica_bytes(product)
    with MemoryPeak(product) as peak:
        victim.begin(target.seconds)
        process.begin()
        attacked = victim.end()
        saw = process.end()
    bytes_after = memory_back(product, bytes_before, back_seconds)
    return Assault(attacker, quiet, attacked, bytes_before, peak.bytes, bytes_after, saw)


def kill_replica(product: Product, victim: Victim, seconds: float) -> Seen:
    """Kill a replica a second after the begin of a measurement of so many seconds; return what the victim saw."""
    victim.begin(seconds)
    time.sleep(_BEFORE_KILL_SECONDS)
    os.kill(product.running(_REPLICA_MARK)[0], signal.SIGKILL)
    return victim.end()
