"""Gives the memory that a flood of large requests leaves free in this process back to the system.

glibc returns only the free end of its heap. After 16 connections had sent refused bodies of 256 KiB for ten seconds, a
replica held 40 MB that was free, in 1,000 pieces, and kept it until its next flood; `malloc_trim` returns such pieces.
It takes the heap's lock for about 0.07 ms a megabyte that it returns and for 0.003 ms a free one that it has returned
before (measured), so it runs often enough to find little, and only where enough is free. It is called outside of the
event loop's thread and of the interpreter's lock.
"""

import asyncio
import ctypes
import logging
from collections.abc import Callable
from functools import cache

from actors.background import Background

logger = logging.getLogger(__name__)

_FREE_BYTES_MAX = 24 << 20
_LOOK_SECONDS = 4.0
_NUMBERS = 10  # Of mallinfo2(3): all are size_t.
_FREE = 8  # Its field fordblks.


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
    """Return how much the heap holds that nothing uses, also what was given back before; 0 where that is not known."""
    library = _glibc()
    return 0 if library is None else int(library.mallinfo2().of[_FREE])


def trim() -> None:
    library = _glibc()
    if library is not None:
        library.malloc_trim(0)


class FreeMemory:
    """Belongs to one event loop."""

    def __init__(self, free: Callable[[], int] = free_bytes, give_back: Callable[[], None] = trim) -> None:
        self._free, self._give_back = free, give_back
        self._background = Background(logger, "free memory could not be given back")

    def start(self) -> None:
        self._background.repeat(self.look, _LOOK_SECONDS)

    async def look(self) -> None:
        if self._free() > _FREE_BYTES_MAX:
            await asyncio.to_thread(self._give_back)

    async def stop(self) -> None:
        await self._background.stop()
