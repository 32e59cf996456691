"""Counts the nodes' work for the parts of one composed call, also if the client leaves early.

Implements: decisions, "Free work of nodes". A variable says for which call a task works, as account_view.py has it.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TypeVar

from actors.upstream.replies import CACHE_HIT, AnswerKind, NodeAnswer

_R = TypeVar("_R")
_OVERSIZED_CALLS = 16  # An answer of 16 MB that was read and thrown away.


class NodeWork:
    """Work for one call of a client. calls: to a node, including running ones; each whole MiB of an answer counts as
    one more."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls = 0

    def began(self) -> None:
        self.calls += 1

    def ended(self, answer: NodeAnswer) -> None:
        if answer.kind is AnswerKind.UNREACHABLE or answer.cache == CACHE_HIT:
            self.calls -= 1  # No node has worked.
        elif answer.kind is AnswerKind.OVERSIZED:
            self.calls += _OVERSIZED_CALLS
        else:
            self.calls += answer.size >> 20


_WORK: ContextVar[NodeWork | None] = ContextVar("node_work", default=None)
current_work = _WORK.get  # None: nobody counts the work of this task.


async def counting(work: NodeWork, ask: Callable[..., Awaitable[_R]], *arguments: object) -> _R:
    """Ask, and count what is asked of nodes for it, in the tasks that the asked one begins too."""
    before = _WORK.set(work)
    try:
        return await ask(*arguments)
    finally:
        _WORK.reset(before)
