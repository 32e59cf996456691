"""Follows the sources of events, the chain and the log of signals, while this dispatcher has the slice of the sources.

Implements: design, "Owners, for every kind of actor". A shell. One dispatcher reads each source for the webhooks of
all: an event is matched with every webhook in one transaction with the cursor of its source, which carries the epoch
of the slice. The next dispatcher reads on from that cursor.
"""

from collections.abc import Callable, Collection
from typing import Protocol

from actors.webhooks.slices import SOURCES_SLICE


class Follower(Protocol):
    def start(self) -> None: ...
    def changed(self) -> None: ...
    async def stop(self) -> None: ...


class EventSources:
    """open_followers: makes new ones, which read the stored cursors. changed_elsewhere: called in place of `changed` of
    the followers where another dispatcher has them."""

    def __init__(
        self, open_followers: Callable[[], Collection[Follower]], changed_elsewhere: Callable[[], object]
    ) -> None:
        self._open_followers, self._changed_elsewhere = open_followers, changed_elsewhere
        self._followers: Collection[Follower] = ()

    @property
    def are_followed(self) -> bool:
        return bool(self._followers)

    def begin(self, slices: Collection[int]) -> None:
        if SOURCES_SLICE in slices and not self._followers:
            self._followers = self._open_followers()
            for follower in self._followers:
                follower.start()

    async def finish(self, slices: Collection[int]) -> None:
        if SOURCES_SLICE in slices:
            followers, self._followers = self._followers, ()
            for follower in followers:
                await follower.stop()

    def changed(self) -> None:
        """Read the watched accounts and wallets again, because webhooks were created, changed or deleted."""
        for follower in self._followers:
            follower.changed()
        if not self._followers:
            self._changed_elsewhere()
