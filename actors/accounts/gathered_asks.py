"""Asks an owner many questions in one message: those that come while a message is under way go in the next one.

Implements: design, "Measured facts" (one actor message for everything that waits, never one for each item). A shell.
A call of a Ray actor takes half a millisecond of a replica, so a flood of WebSocket handshakes, each with a question of
its own, would hold up everything else on the loop.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from actors.accounts.api import Command, OwnerReply, OwnerUnavailable, Value
from actors.gathered import Gathered
from actors.hosting import ActorUnreachable

MESSAGE_MAX = 128  # Questions in one message: an owner answers so many in few milliseconds.


class GatheredAsks:
    """The questions to one owner. Belongs to one event loop. Bounded by its callers: each waits for its answer."""

    def __init__(self, ask_many: Callable[[Sequence[Command[Any]]], Awaitable[list[OwnerReply[Any]]]]) -> None:
        """ask_many: raises ActorUnreachable."""
        self._ask_many = ask_many
        self._gathered = Gathered[Command[Any], OwnerReply[Any]](self._asked, MESSAGE_MAX)

    async def ask(self, command: Command[Value]) -> OwnerReply[Value]:
        """Raises OwnerUnavailable."""
        return await self._gathered.ask(command)

    async def _asked(self, commands: Sequence[Command[Any]]) -> list[OwnerReply[Any]]:
        try:
            return await self._ask_many(commands)
        except ActorUnreachable as error:
            raise OwnerUnavailable(str(error)) from error
