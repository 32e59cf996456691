"""Follows the log of signals for signal webhooks, and has their wallets watched.

Implements: interface, "Webhook deliveries", rule 4; decisions, "watched wallets"; threat 32. A
shell. Events are queued in one transaction with the cursor of the log, so a kill loses none; an entry that is read
again is queued once, by its cause.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol

from actors.background import Background
from actors.clock import Clock
from actors.webhooks.payloads import FedSignal, signal_event, signal_gap_event
from actors.webhooks.store import SourceCursor, WebhookStore, WebhooksUnavailable
from actors.webhooks.watched_wallets import WALLETS_PAUSED_MS, WatchedWallets

logger = logging.getLogger(__name__)

_AT_ONCE_MAX = 200
_WATCH_SECONDS = 10.0  # A wallet is watched for a minute after it was last named.
_PAUSE_SECONDS = 1.0


class FedPage(Protocol):
    """cursor: go on after it. gaps: notices as JSON of what the log has no more, before or among these signals."""

    @property
    def signals(self) -> Sequence[FedSignal]: ...
    @property
    def cursor(self) -> str: ...
    @property
    def gaps(self) -> Sequence[bytes]: ...


class SignalFeed(Protocol):
    """The log of signals; given by the wiring."""

    async def newest(self) -> str:
        """Return the cursor of the newest entry."""
        ...

    async def read(self, after_cursor: str, count: int, wait_ms: int = 0) -> FedPage:
        """Return entries after a cursor, oldest first; wait this long if there are none."""
        ...

    async def watch(self, wallets: Collection[str], now: int) -> None:
        """Have the activity of these wallets reported for the next minute."""
        ...


class SignalFollower:
    """watched: whose wallets are watched; the commands count places by the same one. away: what the feed raises while
    its stores do not answer. wait_ms: how long one read waits for signals."""

    def __init__(
        self,
        store: WebhookStore,
        feed: SignalFeed,
        clock: Clock,
        wake: Callable[[], None] = lambda: None,
        *,
        watched: WatchedWallets | None = None,
        away: tuple[type[Exception], ...] = (),
        wait_ms: int = 1_000,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store, self._feed, self._clock = store, feed, clock
        self._watched = watched or WatchedWallets()
        self._wake, self._sleep, self._wait_ms = wake, sleep, wait_ms
        self._pauses: tuple[type[Exception], ...] = (WebhooksUnavailable, *away)
        self._cursor: str | None = None  # Signals up to this cursor are queued.
        self._changed = asyncio.Event()
        self._background = Background(logger, "webhooks: following the signals failed")

    def start(self) -> None:
        self._background.start(self._follow())
        self._background.start(self._watch())

    async def stop(self) -> None:
        await self._background.stop()

    def changed(self) -> None:
        """Read the wallets again, because webhooks were created, changed or deleted."""
        self._changed.set()

    async def follow_once(self) -> None:
        """Queue the next signals of the log. Raises what the store or the feed raises; nothing is lost then."""
        if self._cursor is None:
            self._cursor = (await self._store.cursor()).log_cursor
        if self._cursor is None:  # At the first start ever, begin with new signals.
            newest = await self._feed.newest()
            await self._store.queue([], self._clock.now_ms(), SourceCursor(log_cursor=newest))
            self._cursor = newest
        page = await self._feed.read(self._cursor, _AT_ONCE_MAX, self._wait_ms)
        if page.cursor == self._cursor:
            return
        now_ms = self._clock.now_ms()
        events = [signal_gap_event(notice, now_ms) for notice in page.gaps]
        events += [signal_event(signal, now_ms) for signal in page.signals]
        if await self._store.queue(events, now_ms, SourceCursor(log_cursor=page.cursor)):
            self._wake()
        self._cursor = page.cursor

    async def watch_once(self) -> None:
        """Have the wallets watched of all signal webhooks whose accounts hold places for them."""
        self._changed.clear()
        wallets = self._watched.of(await self._store.named_wallets(self._clock.now_ms() - WALLETS_PAUSED_MS))
        if wallets:
            await self._feed.watch(wallets, self._clock.now())

    async def _follow(self) -> None:
        while True:
            if not await self._tried(self.follow_once):
                await self._sleep(_PAUSE_SECONDS)

    async def _watch(self) -> None:
        while True:
            await self._tried(self.watch_once)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_WATCH_SECONDS):
                    await self._changed.wait()

    async def _tried(self, work: Callable[[], Awaitable[None]]) -> bool:
        try:
            await work()
        except self._pauses as error:
            logger.warning("webhooks: signals pause: %s: %s", type(error).__name__, error)
            return False
        except Exception:  # A bug must not end the follower.
            logger.exception("webhooks: following the signals failed")
            return False
        return True
