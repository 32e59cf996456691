"""One attack beside a victim on a running product: what it did to the victim and to the memory of the replicas.

Used by the measurement (starvation.py) and by the tests. Nothing is judged here.
"""

import os
import signal
import time
from dataclasses import dataclass

import psutil

from bench.attackers.process import AttackerProcess
from bench.attackers.target import Target
from bench.processes import MemoryWatch
from bench.product import Product
from bench.victim import Seen, Victim

_REPLICA_MARK = "ServeReplica"
_SAMPLE_SECONDS = 0.5
_CALM_SECONDS = 0.5
_BEFORE_KILL_SECONDS = 1.0
MEMORY_BACK_BYTES = 50 << 20


@dataclass(frozen=True, slots=True)
class Assault:
    """Result of one attack. bytes_*: memory of the replicas. saw: counts of the attacker."""

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


def memory_back(product: Product, before: int, wait_seconds: float) -> int:
    """Wait until the replicas have given back what an attack took, or the time is over; return their memory."""
    deadline = time.monotonic() + wait_seconds
    while (found := replica_bytes(product)) > before + MEMORY_BACK_BYTES and time.monotonic() < deadline:
        time.sleep(_SAMPLE_SECONDS)
    return found


def target_of(product: Product, keys: tuple[str, ...], seconds: float) -> Target:
    return Target("127.0.0.1", product.ports.http, str(product.ready["grpc_target"]), keys, seconds)


def assault(
    product: Product, victim: Victim, attacker: str, target: Target, quiet: Seen | float, back_seconds: float
) -> Assault:
    """Measure the victim without and beside the attacker, and wait until memory is back.

    quiet: what was measured without an attacker before, or for how many seconds to measure that now. back_seconds: how
    long the replicas have to give their memory back.
    """
    process = AttackerProcess(attacker, target)
    if isinstance(quiet, float):
        time.sleep(_CALM_SECONDS)
        quiet = victim.measure(quiet)
    bytes_before = replica_bytes(product)
    with MemoryWatch(lambda: replica_bytes(product), _SAMPLE_SECONDS) as peak:
        victim.begin(target.seconds)
        process.begin()
        attacked = victim.end()
        saw = process.end()
    bytes_after = memory_back(product, bytes_before, back_seconds)
    return Assault(attacker, quiet, attacked, bytes_before, peak.bytes_max, bytes_after, saw)


def kill_replica(product: Product, victim: Victim, seconds: float) -> Seen:
    """Kill a replica a second after the begin of a measurement of so many seconds; return what the victim saw."""
    victim.begin(seconds)
    time.sleep(_BEFORE_KILL_SECONDS)
    os.kill(product.running(_REPLICA_MARK)[0], signal.SIGKILL)
    return victim.end()
