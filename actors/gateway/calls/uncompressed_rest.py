"""Ends a compressed body whose begin another process has made, without compressing: the rest as stored blocks.

Implements: decisions, "Content types and codings". Pure. When the compressing process is lost in the middle of an
answer, part of it has left, so another coding comes too late, and to break the answer off would cost its client the
answer. Both formats are blocks, and both have blocks that hold their text as it is: RFC 1951, section 3.2.4, which zlib
writes at level 0, and RFC 8878, section 3.1.1.2.2, whose three bytes are written here, as no library writes them.
"""

import struct
import zlib
from typing import Protocol

from actors.gateway.calls.compressing_worker import GZIP_WINDOW, ZstdPieces

_STORED = 0  # The level of zlib that does not compress.
_HEAD_BYTES = 4 << 10  # Bytes compressed here if nothing was compressed before: a few microseconds, for the header.
_BLOCK_BYTES_MAX = 128 << 10  # Limit of zstd; smaller windows have less, but no level uses one for a large body.


class Rest(Protocol):
    def piece(self, data: memoryview, is_last: bool) -> bytes: ...


def rest_of(coding: bytes, done: int, checked: int, whole: int) -> Rest:
    """Return what encodes the bytes from `done` on. done: bytes that are in blocks which were flushed.

    checked: CRC-32 of these. whole: bytes of the body.
    """
    if coding == b"zstd":
        return _ZstdRest(done, whole)
    return _GzipRest(done, checked)


class _GzipRest:
    def __init__(self, done: int, checked: int) -> None:
        self._coder = zlib.compressobj(_STORED, zlib.DEFLATED, -zlib.MAX_WBITS if done else GZIP_WINDOW)
        self._has_head, self._size, self._checked = bool(done), done, checked

    def piece(self, data: memoryview, is_last: bool) -> bytes:
        made = self._coder.compress(data) + self._coder.flush(zlib.Z_FINISH if is_last else zlib.Z_SYNC_FLUSH)
        if not self._has_head:
            return made  # With the header, the library also adds the end.
        self._size += len(data)
        self._checked = zlib.crc32(data, self._checked)
        return made + struct.pack("<II", self._checked, self._size & 0xFFFFFFFF) if is_last else made


class _ZstdRest:
    def __init__(self, done: int, whole: int) -> None:
        self._has_head, self._whole = bool(done), whole

    def piece(self, data: memoryview, is_last: bool) -> bytes:
        made: list[bytes | memoryview] = []
        if not self._has_head:
            self._has_head = True
            made.append(ZstdPieces(self._whole).piece(data[:_HEAD_BYTES], is_last=False))
            data = data[_HEAD_BYTES:]
        for start in range(0, max(1, len(data)), _BLOCK_BYTES_MAX):
            block = data[start : start + _BLOCK_BYTES_MAX]
            ends = is_last and start + _BLOCK_BYTES_MAX >= len(data)
            made += ((len(block) << 3 | ends).to_bytes(3, "little"), block)  # Bits 1 and 2, the kind, are 0: raw.
        return b"".join(made)
