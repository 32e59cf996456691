"""Reads CPU time and memory of a tree of processes from the operating system.

Memory is the proportional set size: a page shared by n processes counts as 1/n in each, so the sum over a tree is its
real size. macOS does not report it, so there the unique set size is used, which is smaller.
"""

import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

import psutil

_SAMPLE_SECONDS = 2.0  # Reading the memory of a large process takes milliseconds of a measured core.


def tree(pid: int) -> list[psutil.Process]:
    """Return the process and all its present descendants; empty when it has ended."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def cpu_seconds(pids: tuple[int, ...]) -> dict[tuple[int, float], float]:
    """Return the user and system time so far of each process in these trees."""
    found: dict[tuple[int, float], float] = {}
    for pid in pids:
        for process in tree(pid):
            try:
                times = process.cpu_times()
                found[process.pid, process.create_time()] = times.user + times.system
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
    return found


def cpu_spent(
    before: Mapping[tuple[int, float], float], after: Mapping[tuple[int, float], float], names: Mapping[str, int]
) -> dict[str, float]:
    """Return the seconds between two readings by name; unknown process ids count under "other".

    A process that ended in between is missing from it.
    """
    return cpu_spent_by_kind(before, after, {pid: name for name, pid in names.items()})


def cpu_spent_by_kind(
    before: Mapping[tuple[int, float], float], after: Mapping[tuple[int, float], float], kinds: Mapping[int, str]
) -> dict[str, float]:
    """Do as cpu_spent, where several processes are of one kind. kinds: by process id (kinds_of)."""
    found: dict[str, float] = {}
    for key, seconds in after.items():
        kind = kinds.get(key[0], "other")
        found[kind] = found.get(kind, 0.0) + seconds - before.get(key, 0.0)
    return found


def kinds_of(pid: int, marks: Mapping[str, str]) -> dict[int, str]:
    """Return the kind of each process in this tree that has one. marks: of each kind, a part of its command line."""
    found: dict[int, str] = {}
    for process in tree(pid):
        try:
            line = " ".join(process.cmdline())
        except psutil.Error:
            continue
        if (kind := next((kind for kind, mark in marks.items() if mark in line), None)) is not None:
            found[process.pid] = kind
    return found


def memory_bytes(process: psutil.Process) -> int:
    """Return the memory of a process; 0 when it has ended."""
    try:
        info = process.memory_full_info()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return 0
    return int(getattr(info, "pss", info.uss))


def memory_sum_bytes(pids: tuple[int, ...]) -> int:
    return sum(memory_bytes(process) for pid in pids for process in tree(pid))


def memory_by_name(root_pid: int, names: Mapping[str, int]) -> dict[str, int]:
    """Return the memory of each process in the tree. names: the product's names; others keep their own name."""
    known = {pid: name for name, pid in names.items()}
    found: dict[str, int] = {}
    for process in tree(root_pid):
        try:
            name = known.get(process.pid) or process.name()
        except psutil.NoSuchProcess:
            continue
        unique, number = name, 1
        while unique in found:
            unique, number = f"{name}-{number}", number + 1
        found[unique] = memory_bytes(process)
    return found


class MemoryWatch:
    """The largest memory seen while a `with` block runs. measure: reads it, in bytes."""

    def __init__(self, measure: Callable[[], int], sample_seconds: float = _SAMPLE_SECONDS) -> None:
        self._measure, self._sample_seconds, self._stop = measure, sample_seconds, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.bytes_max = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._sample()

    def _watch(self) -> None:
        while not self._stop.wait(self._sample_seconds):
            self._sample()

    def _sample(self) -> None:
        self.bytes_max = max(self.bytes_max, self._measure())
