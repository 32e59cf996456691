"""Hashes of large bodies that a thread makes: the same as in the loop, whatever arrives meanwhile."""

import asyncio
import random
from hashlib import sha256

from actors.upstream.side_hash import SideHash

CHANCE = random.Random(1)


async def test_many_bodies_at_once_have_their_own_hashes_in_their_own_order() -> None:
    """Parts of several bodies arrive mixed up, some as views, and the last of each after the thread has caught up."""
    bodies = [[CHANCE.randbytes(CHANCE.randrange(300_000)) for _ in range(8)] for _ in range(6)]
    hashes = [SideHash(b"%d" % number) for number in range(len(bodies))]
    for parts in zip(*bodies, strict=True):
        for made, part in zip(hashes, parts, strict=True):
            made.update(memoryview(part))
        await asyncio.sleep(0)
    await asyncio.gather(*(made.caught_up() for made in hashes))
    for number, (made, body) in enumerate(zip(hashes, bodies, strict=True)):
        made.update(b"the end")
        assert made.digest() == sha256(b"%d" % number + b"".join(body) + b"the end").digest()


async def test_a_body_without_parts_waits_for_nothing() -> None:
    made = SideHash(b"[5]\n")
    await made.caught_up()
    assert made.digest() == sha256(b"[5]\n").digest()


async def test_a_task_that_was_cancelled_and_a_body_that_was_dropped_leave_the_thread_to_others() -> None:
    """The thread is one for all bodies: it must outlive each of them."""
    part = bytes(4 << 20)
    left = SideHash(b"")
    for _ in range(20):
        left.update(part)
    waiting = asyncio.create_task(left.caught_up())
    await asyncio.sleep(0)
    waiting.cancel()
    left.drop()
    other = SideHash(b"")
    other.update(part)
    await other.caught_up()
    assert other.digest() == sha256(part).digest()


def test_a_loop_that_is_closed_meanwhile_leaves_the_thread_to_others() -> None:
    async def leave() -> None:
        made = SideHash(b"")
        for _ in range(5):
            made.update(bytes(1 << 20))
        waiting = asyncio.create_task(made.caught_up())
        await asyncio.sleep(0)
        waiting.cancel()

    async def stay() -> bytes:
        made = SideHash(b"x")
        made.update(b"y")
        await made.caught_up()
        return made.digest()

    asyncio.run(leave())
    assert asyncio.run(stay()) == sha256(b"xy").digest()
