"""Leases of the block engines' rates: a racer asks an engine only within a share that is its own for some seconds.

Implements: interface, "Bundle relay"; sends/README.md, invariant 5. The port, PostgreSQL, and the loop that renews.
The sum of all valid leases of an engine never exceeds its rate, and a lease ends at its racer before it ends in the
store. So an engine gets no more than its rate while racers come, go, or are cut off from the store: what one of them
had is free for others once its lease is over. Not here: how large a share is (shares.py).
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import asyncpg

from actors.clock import Clock
from actors.sends.engine import BlockEngineClient
from actors.sends.shares import share_milli
from actors.sends.store import RacesUnavailable
from actors.storage.connections import away_as

logger = logging.getLogger(__name__)

LEASE_SECONDS = 6.0
RENEW_SECONDS = 1.5
_STORE_MORE_MS = 500  # How much later a lease ends in the store than at its racer.


class LeaseStore(Protocol):
    """Every method raises RacesUnavailable."""

    async def racers(self) -> set[str]:
        """Return the racers that have a lease, even one with no share."""
        ...

    async def lease(self, engine: str, racer: str, process: str, wanted_milli: int, rate_milli: int) -> int:
        """Replace this process's lease of an engine by one that begins now; returns its share, which may be 0. It is
        what is wanted, or what the leases of other processes leave of the rate."""
        ...


class PostgresLeases:
    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def racers(self) -> set[str]:
        with away_as(RacesUnavailable):
            rows = await self._pool.fetch("SELECT DISTINCT racer FROM send_leases WHERE until > clock_timestamp()")
        return {row["racer"] for row in rows}

    async def lease(self, engine: str, racer: str, process: str, wanted_milli: int, rate_milli: int) -> int:
        valid_ms = round(LEASE_SECONDS * 1000) + _STORE_MORE_MS
        with away_as(RacesUnavailable):
            found = await self._pool.fetchval(
                "SELECT sends_lease($1, $2, $3, $4, $5, $6)",
                *(engine, racer, process, wanted_milli, rate_milli, valid_ms),
            )
        return int(found)


class EngineLeases:
    """racer: its name. process: a name that no other process ever had, since a process that was cut off has the name of
    its successor, and its lease still counts."""

    def __init__(
        self, store: LeaseStore, engines: Sequence[BlockEngineClient], racer: str, process: str, clock: Clock
    ) -> None:
        self._store, self._engines, self._racer, self._process = store, engines, racer, process
        self._clock = clock

    async def renew(self) -> None:
        """Raises RacesUnavailable; leases then end by themselves."""
        racers = sorted(await self._store.racers() | {self._racer})
        for place, engine in enumerate(self._engines):
            wanted = share_milli(place, engine.rate_milli, racers, self._racer)
            engine.shrink(wanted)  # Before the store gives the rest to another racer.
            asked_at = self._clock.monotonic()
            granted = await self._store.lease(engine.key, self._racer, self._process, wanted, engine.rate_milli)
            engine.lease(granted, asked_at + LEASE_SECONDS)

    async def keep(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Renew until cancelled."""
        while True:
            try:
                await self.renew()
            except RacesUnavailable as error:
                logger.warning("the block engine's rate is not leased: %s", error)
            except Exception:  # A bug must not end the leases for good.
                logger.exception("leasing the block engine's rate failed")
            await sleep(RENEW_SECONDS)
