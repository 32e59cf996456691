"""Sends an owner many commands in one message: commands that arrive during a message go in the next one.

Implements: design, "Measured facts" (one actor message for everything that waits, never one for each item). A shell. A
call of a Ray actor takes half a millisecond of a replica, so many WebSocket handshakes at once, each with a command of
its own, would block the event loop.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from actors.accounts.api import Command, OwnerReply, OwnerUnavailable, Value
from actors.gathered import Gathered
from actors.hosting import ActorUnreachable

MESSAGE_MAX = 128  # Commands in one message; an owner answers this many in a few milliseconds.


class GatheredAsks:
    """Gathers the commands to one owner. Used by one event loop. Bounded by its callers, each of which waits for its
    answer."""

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
