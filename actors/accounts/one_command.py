"""Sends one command to the owner of its account, from a process in the cluster that has no client.

Implements: design, "Owners, for every kind of actor". For operators' commands.
"""

import asyncio
import secrets
from typing import Any

from actors import hosting
from actors.accounts.api import Command, OwnerReply, Value, owner_name
from actors.accounts.routes import OwnerRoutes

_MOVED_SECONDS = 5.0  # How long the command waits until an owner serves its shard.
_PAUSE_SECONDS = 0.1


async def ask_owner_of(command: Command[Value], find: Any = hosting.Reference) -> OwnerReply[Value]:
    """Raises ActorUnreachable; the command may have been carried out. find: returns the owner with a name."""
    routes, first = OwnerRoutes(secrets.randbelow(1 << 16)), find(owner_name(0))
    deadline = asyncio.get_running_loop().time() + _MOVED_SECONDS
    while True:
        routes.update(*await hosting.ask(first, "routes"))
        owner = find(owner_name(routes.of_command(command)))
        reply: OwnerReply[Value] = await hosting.ask(owner, "ask", command)
        if not reply.moved or asyncio.get_running_loop().time() > deadline:
            return reply
        await asyncio.sleep(_PAUSE_SECONDS)
