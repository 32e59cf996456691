"""Runs many equal small tasks as one: tasks that arrive during one group form the next group.

Implements: design, "Measured facts" (one message for everything that waits, never one for each item). A shell. A racer
with thousands of races asks a node, and writes to PostgreSQL, once for many of them; a flood of handshakes asks an
owner of accounts once for many of them. A task does not wait for others: while no group is running, it begins with the
next turn of the event loop. Callers never join a group that has begun: its answer may be outdated for them.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

# Callers resumed in one turn of the event loop: each then has work of its own.
WOKEN_AT_ONCE = 16

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Gathered(Generic[Item, Answer]):
    """Belongs to one event loop. Bounded by its callers: each waits for its answer.

    work: gives the answers to some items, in their order; what it raises, each of their callers gets.
    most: items in one group. alone: an exception of a group that each item is tried again for by itself, as one item
    may be the cause of it.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]],
        most: int,
        alone: tuple[type[Exception], ...] = (),
    ) -> None:
        self._work, self._most, self._alone = work, most, alone
        self._waiting: deque[tuple[Item, asyncio.Future[Answer]]] = deque()
        self._running: asyncio.Task[None] | None = None

    async def ask(self, item: Item) -> Answer:
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await answer

    async def _run(self) -> None:
        try:
            while self._waiting:
                taken = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
                asked = [(item, answer) for item, answer in taken if not answer.done()]  # The other callers have left.
                if asked:
                    await self._answer(asked)
        finally:
            self._running = None

    async def _answer(self, asked: Sequence[tuple[Item, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._work([item for item, _ in asked])
        except Exception as error:  # noqa: BLE001 - each caller gets it; the next groups are done.
            if len(asked) > 1 and isinstance(error, self._alone):
                for one in asked:
                    await self._answer([one])
                return
            for _, answer in asked:
                if not answer.done():
                    answer.set_exception(error)
            return
        for number, ((_, answer), found) in enumerate(zip(asked, answers, strict=True), 1):
            if not answer.done():
                answer.set_result(found)
            if number % WOKEN_AT_ONCE == 0:
                await asyncio.sleep(0)
