"""Asks an owner many questions in one message: those that come while a message is under way go in the next one.

Implements: design, "Measured facts" (one actor message for everything that waits, never one for each item). A shell.
A call of a Ray actor takes half a millisecond of a replica, so a flood of WebSocket handshakes, each with a question of
its own, would hold up everything else on the loop.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from actors.accounts.api import Command, OwnerReply, OwnerUnavailable, Value
from actors.background import Background
from actors.hosting import ActorUnreachable

logger = logging.getLogger(__name__)

MESSAGE_MAX = 128  # Questions in one message: an owner answers so many in few milliseconds.


class GatheredAsks:
    """The questions to one owner. Belongs to one event loop. Bounded by its callers: each waits for its answer."""

    def __init__(self, ask_many: Callable[[Sequence[Command[Any]]], Awaitable[list[OwnerReply[Any]]]]) -> None:
        """ask_many: raises ActorUnreachable."""
        self._ask_many = ask_many
        self._waiting: deque[tuple[Command[Any], asyncio.Future[OwnerReply[Any]]]] = deque()
        self._background = Background(logger, "asking an owner failed")

    async def ask(self, command: Command[Value]) -> OwnerReply[Value]:
        """Raises OwnerUnavailable."""
        answer: asyncio.Future[OwnerReply[Value]] = asyncio.get_running_loop().create_future()
        self._waiting.append((command, answer))
        if not self._background:
            self._background.start(self._run())
        return await answer

    async def _run(self) -> None:
        while self._waiting:
            taken = [self._waiting.popleft() for _ in range(min(MESSAGE_MAX, len(self._waiting)))]
            asked = [(command, answer) for command, answer in taken if not answer.done()]  # Others were cancelled.
            if not asked:
                continue
            try:
                replies = await self._ask_many([command for command, _ in asked])
            except Exception as error:  # noqa: BLE001 - each that asked hears of it, and the next ones are asked.
                told = OwnerUnavailable(str(error)) if isinstance(error, ActorUnreachable) else error
                for _, answer in asked:
                    if not answer.done():
                        answer.set_exception(told)
            else:
                for (_, answer), reply in zip(asked, replies, strict=True):
                    if not answer.done():
                        answer.set_result(reply)
