"""Reads and verifies the newest statement of each series, for parts that publish it elsewhere.

Implements: decisions, "Signed roots". A shell. Reads the database; makes neither keys nor statements.
"""

import asyncio
import logging
import secrets
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple

import asyncpg

from actors.accounts.ledger_clock import LedgerClock
from actors.accounts.seals_store import PostgresSealsStore, SealsStore
from actors.accounts.series import Series
from actors.accounts.signing_keys import SigningKeys
from actors.accounts.stored import StoreUnavailable
from actors.clock import Clock
from actors.receipts.checks import Unproven
from actors.receipts.root_keys import KeySeal
from actors.storage.connections import borrowed
from actors.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

_WAIT_SECONDS = 10.0  # Wait for a connection.


class RootsUnavailable(Exception):
    """The database did not answer."""


class ProvenRoot(NamedTuple):
    series: int
    number: int
    digest: bytes


def open_proven_roots(pool: asyncpg.Pool, clock: Clock, cluster_secret: bytes, metrics: Metrics) -> "ProvenRoots":
    def reading() -> AbstractAsyncContextManager[Any]:
        return borrowed(pool, _WAIT_SECONDS, StoreUnavailable)

    return ProvenRoots(PostgresSealsStore(reading, asyncio.Semaphore(1)), clock, cluster_secret, metrics)


class ProvenRoots:
    def __init__(self, store: SealsStore, clock: Clock, cluster_secret: bytes, metrics: Metrics) -> None:
        self._store = store
        self._keys = SigningKeys(store, LedgerClock(clock), KeySeal(cluster_secret), secrets.token_bytes, metrics)
        self._refused: frozenset[int] = frozenset()  # Series that a log line has already named.

    async def newest(self) -> list[ProvenRoot]:
        """Return the newest statement of every series; leaves out a series with a statement that is not this service's.
        Raises RootsUnavailable."""
        found: list[ProvenRoot] = []
        refused = set[int]()
        try:
            await self._keys.read()
            for series in await self._store.series():
                try:
                    end = await Series(self._store, series, self._keys).end()
                except Unproven as error:
                    refused.add(series)
                    if series not in self._refused:
                        logger.error("series %d of the ledger's statements is not published: %s", series, error)
                    continue
                assert end.digest is not None, end
                found.append(ProvenRoot(series, end.number, end.digest))
        except StoreUnavailable as error:
            raise RootsUnavailable(str(error)) from error
        self._refused = frozenset(refused)
        return found
