"""Compresses answers for clients that take a coding: most in threads beside the event loop, with bounds.

Implements: decisions, "Content types and codings". A shell; which coding a client likes is accepted.py's.

An answer of up to AT_ONCE_BYTES_MAX is compressed where it is made: 50 us at most, less than handing it to a thread
costs. Others are one job of one of two threads, so that those up to SMALL_BYTES_MAX wait for no larger one. A job is
one call that works without Python's lock. In pieces it would ask for the lock forty times for 10 MB, and each time the
event loop waits until the kernel lets the thread run: on a busy machine small calls beside took a second. For the same
reason the threads have no lower priority. Above LARGE_BYTES_MAX, threads hold the event loop for too long: another
process has that work (large_bodies.py). An answer that finds no room is sent as it is, at once.
"""

import asyncio
import logging
import zlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeAlias

import zstandard

from actors.gateway.calls import headers
from actors.gateway.calls.accepted import coding_of
from actors.gateway.calls.compressing_worker import GZIP_WINDOW, LEVEL
from actors.gateway.calls.large_bodies import LargeBodies
from actors.gateway.calls.replies import Response
from actors.gateway.calls.requests import AsgiClient, Client, Request
from actors.http_server.responses import CHUNKED
from actors.side_process import IDLE_SECONDS

logger = logging.getLogger(__name__)

LEAST_BYTES = 1_024  # An answer of up to this size fits into a packet uncompressed.
AT_ONCE_BYTES_MAX = 16 << 10
SMALL_BYTES_MAX = 256 << 10  # 2 ms of gzip.
_SMALL_WAITING_BYTES_MAX = 1 << 20  # 8 ms of gzip, the longest wait of a small answer for others.
LARGE_BYTES_MAX = 1 << 20  # 8 ms of gzip. Another process compresses longer answers (large_bodies.py).
_LARGE_JOBS_MAX = 4
_LARGE_JOBS_OF_OWNER_MAX = 2
_KEPT_BYTES_MAX = 8 << 20  # Bytes of cached public documents, which are the same for every client.
_ROOM_BYTES = 1_024  # Spare room for content that does not become shorter.

_KINDS = (b"application/json", b"text/", b"image/svg+xml", b"application/openmetrics-text")
_STREAMED = b"text/event-stream"
# Of answers below these paths nothing is compressed: they hold keys, tokens and secrets, and the length of compressed
# text can tell what is in it. Most say `no-store` too, which is a second reason.
Pieces: TypeAlias = Sequence[bytes | memoryview]
_SECRET_PATHS = (b"/auth/", b"/account/api-key", b"/account/keys", b"/webhooks", b"/x402/")


def may_be_compressed(response: Response, path: bytes) -> bool:
    """Return whether an answer may be compressed: not too small, text, and without secrets."""
    if size_of(response) <= LEAST_BYTES or response.stream is not None or path.startswith(_SECRET_PATHS):
        return False
    kind = response.content_type
    if not kind.startswith(_KINDS) or kind.startswith(_STREAMED):
        return False
    for name, value in response.headers:
        if name == b"content-encoding" or (name == b"cache-control" and b"no-store" in value):
            return False
    return True


def size_of(response: Response) -> int:
    return sum(map(len, response.parts)) if response.parts else len(response.body)


class Compressing:
    """The threads of one process, and what may wait for them; the process beside it. name_of: of a client's address."""

    def __init__(self, name_of: Callable[[Client], str], idle_seconds: float = IDLE_SECONDS) -> None:
        self._name_of = name_of
        self.large_bodies = LargeBodies(idle_seconds)
        self._small = ThreadPoolExecutor(1, "compress-small")
        self._large = ThreadPoolExecutor(1, "compress-large")
        self._small_bytes = 0
        self._jobs: Counter[bytes | str] = Counter()  # Large jobs, by account or address.
        self._kept: OrderedDict[tuple[bytes, bytes], bytes] = OrderedDict()
        self._kept_bytes = 0

    async def close(self) -> None:
        for pool in (self._small, self._large):
            pool.shutdown(wait=False, cancel_futures=True)
        await self.large_bodies.close()

    async def answer(self, response: Response, request: Request) -> None:
        """Compress an answer if its client takes a coding. On any failure the answer stays uncompressed."""
        if not may_be_compressed(response, request.path):
            return
        response.headers.append(headers.VARY_ENCODING)
        coding, client, size = coding_of(request.headers), request.client, size_of(response)
        if coding is None:
            return
        if size > LARGE_BYTES_MAX and isinstance(client, AsgiClient) and not client.takes_chunks:
            return
        if request.method == "HEAD":  # A HEAD has no body to compress, so its length stays unknown.
            response.headers.append((b"content-encoding", coding))
            response.is_head = True
            return
        owner = response.charges[0].pubkey if response.charges else self._name_of(client)
        if size > LARGE_BYTES_MAX:
            self._begin_large(response, coding, owner)
            return
        try:
            await self.compress(response, coding, owner, lambda: client.disconnected)
        except Exception:
            logger.exception("request %s: its answer could not be compressed", request.id)

    def _begin_large(self, response: Response, coding: bytes, owner: bytes | str) -> None:
        made = self.large_bodies.take(coding, response.parts or (response.body,), response.kept, owner)
        if made is not None:
            _put(response, coding, b"")
            response.headers.append(CHUNKED)
            response.made = made

    async def compress(
        self, response: Response, coding: bytes, owner: bytes | str, is_gone: Callable[[], bool]
    ) -> bool:
        """Compress the answer. False: there is no room, it would not be shorter, or its client left; it is as it was.

        owner: of the answer: an account or the address of a client. is_gone: whether the client has left.
        """
        tag = next((value for name, value in response.headers if name == b"etag"), None) if response.is_public else None
        kept = None if tag is None else self._kept.get((tag, coding))
        if kept is not None and tag is not None:
            self._kept.move_to_end((tag, coding))
            _put(response, coding, kept)
            return True
        size, pieces = size_of(response), response.parts or (response.body,)
        if size <= AT_ONCE_BYTES_MAX:
            made: bytes | None = _whole(coding, pieces)
        elif size <= SMALL_BYTES_MAX:
            made = await self._small_job(coding, pieces, size)
        else:
            made = await self._large_job(coding, pieces, owner, is_gone)
        if made is None or len(made) >= size:
            return False
        if tag is not None:
            self._keep((tag, coding), made)
        _put(response, coding, made)
        return True

    async def _small_job(self, coding: bytes, pieces: Pieces, size: int) -> bytes | None:
        if self._small_bytes + size > _SMALL_WAITING_BYTES_MAX:
            return None
        self._small_bytes += size
        try:
            return await asyncio.get_running_loop().run_in_executor(self._small, _whole, coding, pieces)
        finally:
            self._small_bytes -= size

    async def _large_job(
        self, coding: bytes, pieces: Pieces, owner: bytes | str, is_gone: Callable[[], bool]
    ) -> bytes | None:
        if self._jobs.total() >= _LARGE_JOBS_MAX or self._jobs[owner] >= _LARGE_JOBS_OF_OWNER_MAX:
            return None
        self._jobs[owner] += 1
        try:
            work = partial(_unless, is_gone, coding, pieces)
            return await asyncio.get_running_loop().run_in_executor(self._large, work)
        finally:
            self._jobs[owner] -= 1
            if not self._jobs[owner]:
                del self._jobs[owner]

    def _keep(self, key: tuple[bytes, bytes], whole: bytes) -> None:
        if key in self._kept or len(whole) > _KEPT_BYTES_MAX // 4:
            return
        self._kept[key] = whole
        self._kept_bytes += len(whole)
        while self._kept_bytes > _KEPT_BYTES_MAX:
            self._kept_bytes -= len(self._kept.popitem(last=False)[1])


class _Written:
    """Collects the output of a coder."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def write(self, piece: bytes) -> int:
        self.pieces.append(piece)
        return len(piece)


def _unless(is_gone: Callable[[], bool], coding: bytes, pieces: Pieces) -> bytes | None:
    """Compress in a thread; return None if the client has left by then."""
    return None if is_gone() else _whole(coding, pieces)


def _whole(coding: bytes, pieces: Pieces) -> bytes:
    if coding == b"zstd":
        made: Any = _Written()  # The library only needs `write` of a file.
        size = sum(map(len, pieces))
        # One large buffer takes all output, so that the library takes Python's lock once.
        coder: Any = zstandard.ZstdCompressor(level=LEVEL).stream_writer(
            made, size=size, write_size=size + _ROOM_BYTES, closefd=False
        )
        for piece in pieces:
            coder.write(piece)
        coder.close()
        return b"".join(made.pieces)
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP_WINDOW)
    return b"".join((*map(packer.compress, pieces), packer.flush()))


def _put(response: Response, coding: bytes, made: bytes) -> None:
    """Set the body. Its tag becomes weak, because it no longer names these exact bytes."""
    if len(made) <= SMALL_BYTES_MAX:
        response.body, response.parts = made, ()
    else:
        response.body, response.parts = b"", (made,)
    response.headers = [
        (name, b"W/" + value if name == b"etag" and not value.startswith(b"W/") else value)
        for name, value in response.headers
    ]
    response.kept = ()
    response.headers.append((b"content-encoding", coding))
