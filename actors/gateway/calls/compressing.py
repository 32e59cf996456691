"""Compresses answers for clients that take a coding: in threads, beside the event loop, with bounds.

Implements: decisions, "Content types and codings". A shell; which coding a client likes is accepted.py's.

An answer of up to SMALL_BYTES_MAX is one job of the first thread. A larger one is a row of pieces in the second thread,
where all large answers take turns, so that none waits for the whole of another, and a small one waits for none of them.
Both threads yield to the event loop: the kernel gives them a processor when nothing else wants it. An answer that finds
no room is sent as it is, at once: compression is a courtesy, and nobody waits for it longer than the rooms are deep.
"""

import asyncio
import logging
import os
import threading
import zlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import zstandard

from actors.gateway.calls import headers
from actors.gateway.calls.accepted import coding_of
from actors.gateway.calls.replies import Response
from actors.gateway.calls.requests import Client, Request

logger = logging.getLogger(__name__)

LEAST_BYTES = 1_024  # An answer up to here fits into a packet as it is.
SMALL_BYTES_MAX = 64 << 10
_SMALL_WAITING_BYTES_MAX = 512 << 10  # 4 ms of gzip: so long a small answer may wait for others.
_LARGE_BYTES_MAX = 64 << 20  # Of all large answers that are worked on at once.
_LARGE_JOBS_MAX = 8
_LARGE_JOBS_OF_OWNER_MAX = 2
_PIECE_BYTES = 256 << 10  # 2 ms of gzip.
_KEPT_BYTES_MAX = 8 << 20  # Of public documents, which are the same for everybody.
_NICENESS = 10
# Level 1 of both: level 3 of gzip takes a fifth more time for 1 % less, level 3 of zstd three times as much.
_LEVEL = 1
_GZIP_WINDOW = 16 + zlib.MAX_WBITS

_KINDS = (b"application/json", b"text/", b"image/svg+xml", b"application/openmetrics-text")
_STREAMED = b"text/event-stream"
# Of answers below these paths nothing is compressed: they hold keys, tokens and secrets, and the length of compressed
# text can tell what is in it. Most say `no-store` too, which is a second reason.
_SECRET_PATHS = (b"/auth/", b"/account/api-key", b"/account/keys", b"/webhooks", b"/x402/")


def may_be_compressed(response: Response, path: bytes) -> bool:
    """Whether the answer is one that is compressed for whoever takes it: large enough, text, and without secrets."""
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
    """The threads of one process, and what may wait for them. name_of: of a client's address."""

    def __init__(self, name_of: Callable[[Client], str]) -> None:
        self._name_of = name_of
        self._small = ThreadPoolExecutor(1, "compress-small", _yield_to_others)
        self._large = ThreadPoolExecutor(1, "compress-large", _yield_to_others)
        self._small_bytes = self._large_bytes = 0
        self._jobs: Counter[bytes | str] = Counter()  # Large ones, by whom they are for.
        self._kept: OrderedDict[tuple[bytes, bytes], bytes] = OrderedDict()
        self._kept_bytes = 0

    def close(self) -> None:
        for pool in (self._small, self._large):
            pool.shutdown(wait=False, cancel_futures=True)

    async def answer(self, response: Response, request: Request) -> None:
        """Compress an answer for a client that takes a coding. Whatever happens, it stays an answer."""
        if not may_be_compressed(response, request.path):
            return
        response.headers.append(headers.VARY_ENCODING)
        coding = coding_of(request.headers)
        if coding is None:
            return
        if request.method == "HEAD":  # Nobody works for a body that is not sent, so its length stays unknown.
            response.headers.append((b"content-encoding", coding))
            response.is_head = True
            return
        client = request.client
        owner = response.charges[0].pubkey if response.charges else self._name_of(client)
        try:
            await self.compress(response, coding, owner, lambda: client.disconnected)
        except Exception:
            logger.exception("request %s: its answer could not be compressed", request.id)

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
            _put(response, coding, (kept,))
            return True
        size = size_of(response)
        made = await (
            self._at_once(response, coding, size)
            if size <= SMALL_BYTES_MAX
            else self._in_pieces(response, coding, size, owner, is_gone)
        )
        if made is None or sum(map(len, made)) >= size:
            return False
        if tag is not None:
            self._keep((tag, coding), made)
        _put(response, coding, made)
        return True

    async def _at_once(self, response: Response, coding: bytes, size: int) -> Sequence[bytes] | None:
        if self._small_bytes + size > _SMALL_WAITING_BYTES_MAX:
            return None
        self._small_bytes += size
        try:
            pieces = response.parts or (response.body,)
            return [await asyncio.get_running_loop().run_in_executor(self._small, _whole, coding, pieces, size)]
        finally:
            self._small_bytes -= size

    async def _in_pieces(
        self, response: Response, coding: bytes, size: int, owner: bytes | str, is_gone: Callable[[], bool]
    ) -> Sequence[bytes] | None:
        if (
            self._large_bytes + size > _LARGE_BYTES_MAX
            or self._jobs.total() >= _LARGE_JOBS_MAX
            or self._jobs[owner] >= _LARGE_JOBS_OF_OWNER_MAX
        ):
            return None
        self._large_bytes += size
        self._jobs[owner] += 1
        run = asyncio.get_running_loop().run_in_executor
        try:
            coder, made = _coder(coding, size), []
            for part in response.parts or (response.body,):
                for start in range(0, len(part), _PIECE_BYTES):
                    if is_gone():
                        return None
                    piece = memoryview(part)[start : start + _PIECE_BYTES]
                    made.append(await run(self._large, coder.compress, piece))
            made.append(await run(self._large, coder.flush))
            return [piece for piece in made if piece]
        finally:
            self._large_bytes -= size
            self._jobs[owner] -= 1
            if not self._jobs[owner]:
                del self._jobs[owner]

    def _keep(self, key: tuple[bytes, bytes], made: Sequence[bytes]) -> None:
        whole = b"".join(made)
        if key in self._kept or len(whole) > _KEPT_BYTES_MAX // 4:
            return
        self._kept[key] = whole
        self._kept_bytes += len(whole)
        while self._kept_bytes > _KEPT_BYTES_MAX:
            self._kept_bytes -= len(self._kept.popitem(last=False)[1])


def _yield_to_others() -> None:
    with suppress(OSError):  # On other systems than Linux it may not be for a single thread.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


def _coder(coding: bytes, size: int) -> Any:
    if coding == b"zstd":
        return zstandard.ZstdCompressor(level=_LEVEL).compressobj(size=size)
    return zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)


def _whole(coding: bytes, pieces: Sequence[bytes | memoryview], size: int) -> bytes:
    coder = _coder(coding, size)
    return b"".join((*map(coder.compress, pieces), coder.flush()))


def _put(response: Response, coding: bytes, made: Sequence[bytes]) -> None:
    """The tag of the content becomes a weak one: it is no longer that of these very bytes. Of the node's answers only
    the claim on memory is kept until the answer has left, as the compressed bytes are fewer."""
    if len(made) == 1 and len(made[0]) <= SMALL_BYTES_MAX:
        response.body, response.parts = made[0], ()
    else:
        response.body, response.parts = b"", made
    response.headers = [
        (name, b"W/" + value if name == b"etag" and not value.startswith(b"W/") else value)
        for name, value in response.headers
    ]
    response.kept = [lease for one in response.kept if (lease := getattr(one, "lease", None)) is not None]
    response.headers.append((b"content-encoding", coding))
