"""Compresses the bodies of large answers piece by piece, in a process of its own beside a replica.

Implements: decisions, "Content types and codings". large_bodies.py starts it. It gets bodies as they are sent to their
clients, no secret, and no access to stores or nodes.

Each piece is flushed: what was returned so far decodes to all bytes that were given so far, and ends between two blocks
of the format, so that whoever has it can go on without this process (uncompressed_rest.py).
"""

import zlib
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
import zstandard

from actors.side_program import run

# Level 1 of both. Of a block of 10 MB as JSON, zstd makes a fifth at 950 MB/s; a tenth less at level 2, with 700; level
# 3 has 360 and no shorter text. gzip makes 30 % at 135 MB/s, the same at level 3 with 122.
LEVEL = 1
GZIP_WINDOW = 16 + zlib.MAX_WBITS


class CompressPiece(msgspec.Struct, tag=True, array_like=True):
    """Answered by the compressed piece and the CRC-32 of the body up to here.

    body: its number; the first piece begins it, and the last one ends it. size: of this piece; whole: of the body.
    """

    body: int
    coding: str
    size: int
    whole: int
    is_last: bool


class ForgetBody(msgspec.Struct, tag=True, array_like=True):
    """No further piece of this body follows."""

    body: int


Request = CompressPiece | ForgetBody


class PieceCoder(Protocol):
    def piece(self, data: bytes | memoryview, is_last: bool) -> bytes: ...


class ZstdPieces:
    """whole: bytes of the body, which the format's header contains."""

    def __init__(self, whole: int) -> None:
        self._coder: Any = zstandard.ZstdCompressor(level=LEVEL).compressobj(size=whole)

    def piece(self, data: bytes | memoryview, is_last: bool) -> bytes:
        how = zstandard.COMPRESSOBJ_FLUSH_FINISH if is_last else zstandard.COMPRESSOBJ_FLUSH_BLOCK
        return b"".join((self._coder.compress(data), self._coder.flush(how)))


class GzipPieces:
    def __init__(self) -> None:
        self._coder = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP_WINDOW)

    def piece(self, data: bytes | memoryview, is_last: bool) -> bytes:
        return self._coder.compress(data) + self._coder.flush(zlib.Z_FINISH if is_last else zlib.Z_SYNC_FLUSH)


class Bodies:
    """Bodies that have begun and not ended."""

    def __init__(self) -> None:
        self._begun: dict[int, tuple[PieceCoder, int]] = {}

    def do(self, request: Request, data: bytes = b"") -> tuple[int, Sequence[bytes]]:
        match request:
            case CompressPiece():
                begun = self._begun.pop(request.body, None)
                coder, checked = (_coder(request), 0) if begun is None else begun
                checked = zlib.crc32(data, checked)
                made = coder.piece(data, request.is_last)
                if not request.is_last:
                    self._begun[request.body] = coder, checked
                return checked, [made]
            case ForgetBody():
                self._begun.pop(request.body, None)
                return 0, ()


def _coder(request: CompressPiece) -> PieceCoder:
    return ZstdPieces(request.whole) if request.coding == "zstd" else GzipPieces()


def sizes_of(request: Request) -> Sequence[int]:
    """Return the sizes of the byte strings that follow a request."""
    return (request.size,) if isinstance(request, CompressPiece) else ()


if __name__ == "__main__":
    run(Request, sizes_of, Bodies().do)
