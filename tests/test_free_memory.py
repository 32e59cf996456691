"""Memory that nothing uses goes back to the system, and is looked for where there is much of it alone."""

import subprocess
import sys

from actors.free_memory import FreeMemory, free_bytes

_FRAGMENTED = """
import ctypes, random, sys, psutil
from actors import free_memory

M_MMAP_THRESHOLD = -3
ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 1 << 25)
sizes = random.Random(1)
made = [bytearray(sizes.randrange(600, 100_000)) for _ in range(4_000)]
made = made[::10]
before = psutil.Process().memory_info().rss
assert free_memory.free_bytes() > 100 << 20
free_memory.trim()
print(before - psutil.Process().memory_info().rss)
"""


def test_pieces_between_used_ones_are_given_back() -> None:
    """In a process of its own: the heap of this one has a past."""
    if not free_bytes():
        return
    done = subprocess.run([sys.executable, "-c", _FRAGMENTED], capture_output=True, text=True, check=True, timeout=60)
    assert int(done.stdout) > 100 << 20


async def test_a_heap_with_little_to_give_is_left_alone() -> None:
    given: list[int] = []
    for free in (0, 1 << 20, 30 << 20):
        await FreeMemory(lambda free=free: free, lambda free=free: given.append(free)).look()
    assert given == [30 << 20]


_PIECES = """
import resource
from actors import free_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        pieces = [b"x" * 700_000 for _ in range(3)]
        del pieces
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults(), free_memory.reuse(), faults(), faults())
"""


def test_pieces_of_large_answers_use_the_same_memory_again() -> None:
    """Else the kernel clears 170 pages for each, again and again: most of the time that an answer takes."""
    if not free_bytes():
        return
    done = subprocess.run([sys.executable, "-c", _PIECES], capture_output=True, text=True, check=True, timeout=60)
    before, is_kept, _, after = done.stdout.split()
    assert is_kept == "True"
    assert int(after) < 600 < int(before)
