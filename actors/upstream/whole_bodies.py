"""Joins the parts of a large answer for readers of its whole body, without blocking the event loop.

Implements: large answers. A shell: a thread joins, which lets go of the interpreter's lock; in the loop's thread 16 MB
took up to 12 ms. Most readers need no whole body: it leaves in its parts (large_bodies.py).
"""

import asyncio
from collections.abc import Sequence

import msgspec

from actors.upstream.replies import NodeAnswer

_AT_ONCE_BYTES_MAX = 2 << 20  # In the event loop's thread: 1 to 2 ms.


async def joined(parts: Sequence[bytes]) -> bytes:
    if len(parts) == 1:
        return parts[0]
    if sum(map(len, parts)) < _AT_ONCE_BYTES_MAX:
        return b"".join(parts)
    return await asyncio.to_thread(b"".join, parts)


async def in_one_part(answer: NodeAnswer) -> NodeAnswer:
    """The answer with its body in one part, so that `body` and `value()` copy nothing.

    Callers who share an answer share the copy too: it is in memory once beside the parts, however many look up the same
    wallet at once.
    """
    if not answer.further:
        return answer
    parts, lease = (answer.first, *answer.further), answer.lease
    if lease is None:
        return msgspec.structs.replace(answer, first=await joined(parts), further=())
    if lease.whole is None:
        lease.whole = asyncio.get_running_loop().create_task(joined(parts))
    return msgspec.structs.replace(answer, first=await asyncio.shield(lease.whole), further=())
