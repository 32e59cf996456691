"""Reads the fields of an account that a native program wrote, one after the other.

Implements: the little-endian layout that Rust's bincode gives numbers, options, keys and lists. Every read past the end
raises struct.error or ValueError, so a list that claims more entries than the data holds ends at the data's end.
Pure. Not here: which fields an account has (validators.py).
"""

import struct
from collections.abc import Callable
from typing import Any, TypeVar

from solders.pubkey import Pubkey

_Item = TypeVar("_Item")


def key_at(data: bytes, at: int) -> str:
    """Return the public key at this position. Raises ValueError where the data ends before it does."""
    return str(Pubkey(data[at : at + 32]))  # Not from_bytes, which panics on short input.


class Fields:
    """A position in the data, which each read moves on."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data, self._at = data, at

    def take(self, layout: str) -> Any:
        """One value of a struct layout, for example "<Q"."""
        (value,) = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return value

    def u8(self) -> int:
        return int(self.take("<B"))

    def u32(self) -> int:
        return int(self.take("<I"))

    def u64(self) -> int:
        return int(self.take("<Q"))

    def i64(self) -> int:
        return int(self.take("<q"))

    def key(self) -> str:
        return key_at(self.raw(32), 0)

    def raw(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise ValueError("the data ends too early")
        self._at += size
        return taken

    def optional(self, read: Callable[[], _Item]) -> _Item | None:
        flag = self.u8()
        if flag > 1:
            raise ValueError(f"{flag} is not the flag of an option")
        return read() if flag else None

    def listed(self, read: Callable[[], _Item]) -> list[_Item]:
        return [read() for _ in range(self.u64())]
