"""Whose frames are taken in which pass of the event loop."""

import asyncio
import contextlib

from actors.grpc_http2.turns import Turns


async def test_one_has_its_turn_in_each_pass() -> None:
    """Who waits again comes behind the others, also after one that failed."""
    turns, seen = Turns(), list[str]()
    asyncio.get_running_loop().set_exception_handler(lambda _, found: seen.append(type(found["exception"]).__name__))

    def first() -> None:
        seen.append("first")
        if seen.count("first") < 3:
            turns.wait(first)

    def second() -> None:
        seen.append("second")
        raise ValueError

    turns.wait(first)
    turns.wait(second)
    passes = []
    for _ in range(6):
        await asyncio.sleep(0)
        passes.append(len([one for one in seen if one != "ValueError"]))
    assert seen == ["first", "second", "ValueError", "first", "first"]
    assert passes == [1, 2, 3, 4, 4, 4]
    with contextlib.suppress(ValueError):
        turns.wait(second)
    await asyncio.sleep(0)
    assert seen[-2:] == ["second", "ValueError"]
