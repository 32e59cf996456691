"""Returns memory to the system that this process holds free after many large requests.

glibc returns only the free end of its heap. After 16 connections had sent refused bodies of 256 KiB for ten seconds, a
replica held 40 MB that was free, in 1,000 pieces, and kept it until its next flood; `malloc_trim` returns such pieces.
It takes the heap's lock for about 0.07 ms a megabyte that it returns and for 0.003 ms a free one that it has returned
before (measured), so it runs often enough to find little, and only where enough is free. It is called outside of the
event loop's thread and of the interpreter's lock.

In between the heap keeps what large answers leave. glibc otherwise takes each piece above 128 kB from the system and
gives it back, and the kernel clears its pages each time: of an answer of 10 MB that was 7 ms of processor time in 20.
It stops doing so for pieces as large as one that was freed before, but the parts of an answer are smaller than others.
"""

import asyncio
import ctypes
import gc
import logging
from collections.abc import Callable
from functools import cache

from actors.background import Background

logger = logging.getLogger(__name__)

_FREE_BYTES_MAX = 24 << 20
_LOOK_SECONDS = 4.0
_NUMBERS = 10  # Number of fields of mallinfo2(3); all are size_t.
_FREE = 8  # Its field fordblks.
# Parameters of mallopt(3). Setting one of them ends glibc's own adjustment of both.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_FROM_HEAP_BYTES_MAX = 32 << 20  # The highest value that glibc accepts, and would reach by itself.


class _Numbers(ctypes.Structure):
    _fields_ = (("of", ctypes.c_size_t * _NUMBERS),)


@cache
def _glibc() -> ctypes.CDLL | None:
    """Return the C library if it is one with these two functions: glibc from 2.33 on."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2") or not hasattr(library, "malloc_trim"):
        return None
    library.mallinfo2.restype = _Numbers
    library.malloc_trim.argtypes = (ctypes.c_size_t,)
    return library


def free_bytes() -> int:
    """Return the unused bytes of the heap, including those returned to the system before; 0: unknown."""
    library = _glibc()
    return 0 if library is None else int(library.mallinfo2().of[_FREE])


def trim() -> None:
    library = _glibc()
    if library is not None:
        library.malloc_trim(0)


def reuse() -> bool:
    """Make the heap keep freed memory until it is trimmed. False: this is not glibc, or it refuses the values."""
    library = _glibc()
    if library is None:
        return False
    thresholds = (_MMAP_THRESHOLD, _FROM_HEAP_BYTES_MAX), (_TRIM_THRESHOLD, 2 * _FROM_HEAP_BYTES_MAX)
    return all(library.mallopt(name, size) == 1 for name, size in thresholds)


def tune_gc() -> None:
    """Make garbage collection rare, without all present objects, and give free memory back. Call it after a start.

    A request makes few reference cycles, and by default the collector runs every few requests. Where a
    flood makes many, one pass over 50,000 young objects holds the loop for 15 to 24 ms, and one over 10,000 for 5 ms.
    """
    gc.collect()
    trim()
    gc.freeze()
    gc.set_threshold(10_000, 50, 50)


class FreeMemory:
    """Belongs to one event loop."""

    def __init__(
        self,
        free: Callable[[], int] = free_bytes,
        give_back: Callable[[], None] = trim,
        keep: Callable[[], object] = reuse,
    ) -> None:
        self._free, self._give_back, self._keep = free, give_back, keep
        self._background = Background(logger, "free memory could not be given back")

    def start(self) -> None:
        self._keep()
        self._background.repeat(self.look, _LOOK_SECONDS)

    async def look(self) -> None:
        if self._free() > _FREE_BYTES_MAX:
            await asyncio.to_thread(self._give_back)

    async def stop(self) -> None:
        await self._background.stop()
