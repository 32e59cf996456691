"""CPU time and memory of process trees."""

import os

from bench.processes import MemoryWatch, cpu_seconds, cpu_spent, memory_by_name, memory_sum_bytes, tree


def test_cpu_spent_counts_new_processes_whole_and_reused_ids_apart() -> None:
    """A process that started during the step counts from its beginning; a reused id is another process."""
    before = {(1, 10.0): 5.0, (2, 10.0): 1.0}
    after = {(1, 10.0): 7.0, (2, 99.0): 0.5, (3, 50.0): 0.25}
    assert cpu_spent(before, after, {"shard": 1}) == {"shard": 2.0, "other": 0.75}


def test_our_own_figures_are_read() -> None:
    """Of this very process: something, and nothing for a process that is gone."""
    own = (os.getpid(),)
    assert sum(cpu_seconds(own).values()) > 0
    assert memory_sum_bytes(own) > 1_000_000
    assert tree(2**22 + 1) == []


def test_memory_is_told_by_the_products_own_names() -> None:
    """Known process ids by the given names."""
    found = memory_by_name(os.getpid(), {"the-tests": os.getpid()})
    assert found["the-tests"] > 1_000_000


def test_the_watch_takes_a_last_sample_when_it_ends() -> None:
    """A step shorter than the sampling period still has a figure."""
    with MemoryWatch(lambda: memory_sum_bytes((os.getpid(),))) as watch:
        pass
    assert watch.bytes_max > 1_000_000
