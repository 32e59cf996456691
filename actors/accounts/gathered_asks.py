"""Sends an owner many commands in one message: commands that arrive during a message go in the next one.

Implements: design, "Measured facts" (one actor message for everything that waits, never one for each item). A shell. A
call of a Ray actor takes half a millisecond of a replica, so many WebSocket handshakes at once, each with a command of
its own, would block the event loop.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from actors.accounts.api import Command, OwnerReply, Value
from actors.gathered import Gathered

MESSAGE_MAX = 128  # Commands in one message; an owner answers this many in a few milliseconds.


class GatheredAsks:
    """Gathers the commands to one owner. Used by one event loop. Bounded by its callers, each of which waits for its
    answer."""

    def __init__(self, ask_many: Callable[[Sequence[Command[Any]]], Awaitable[list[OwnerReply[Any]]]]) -> None:
        self._gathered = Gathered[Command[Any], OwnerReply[Any]](ask_many, MESSAGE_MAX)

    async def ask(self, command: Command[Value]) -> OwnerReply[Value]:
        """Raises what ask_many raises."""
        return await self._gathered.ask(command)
