"""Keeps the usage rollup close behind the ledger, for the accounts that are in memory.

Implements: README.md, "Usage". A shell; part of the owner's tick. Only accounts in memory are charged, so only they can
fall behind. Nothing depends on it but speed: usage is exact whatever was rolled up.
"""

import logging
from collections.abc import Mapping

from actors.accounts.account import Account
from actors.accounts.store import StoreUnavailable
from actors.accounts.usage_store import UsageStore
from actors.clock import Clock

logger = logging.getLogger(__name__)

BEHIND_ENTRIES = 500  # Entries that an account may be behind; reading them takes a few milliseconds.
_LOOK_SECONDS = 10.0
_CHUNK_ENTRIES = 5_000
_TICK_ENTRIES = 20_000  # In one tick, about 0.2 s of the database; what is left waits for the next.
_TICK_ACCOUNTS = 200


class UsageRollup:
    """accounts: those in memory, by public key."""

    def __init__(self, store: UsageStore, clock: Clock, accounts: Mapping[bytes, Account]) -> None:
        self._store, self._clock, self._accounts = store, clock, accounts
        self._rolled: dict[bytes, int] = {}  # Account in memory to the newest entry that is known to be rolled up.
        self._failed: set[bytes] = set()  # Accounts that come last: a damaged one holds up no other.
        self._look_at = 0.0

    async def tick(self) -> None:
        """Once a second. A store that is away is tried again later."""
        steady = self._clock.monotonic()
        if steady < self._look_at:
            return
        self._look_at = steady + _LOOK_SECONDS
        self._rolled = {pubkey: seq for pubkey, seq in self._rolled.items() if pubkey in self._accounts}
        self._failed &= self._accounts.keys()
        behind = [
            pubkey
            for pubkey, account in self._accounts.items()
            if account.seq - self._rolled.get(pubkey, 0) >= BEHIND_ENTRIES
        ]
        behind.sort(key=self._failed.__contains__)
        left = _TICK_ENTRIES
        for pubkey in behind[:_TICK_ACCOUNTS]:
            try:
                left -= await self._roll(pubkey, left)
            except StoreUnavailable as error:
                logger.info("usage of account %s is rolled up later: %s", pubkey.hex(), error)
                self._failed.add(pubkey)
                return
            self._failed.discard(pubkey)
            if left <= 0:
                break
        if left <= 0 or len(behind) > _TICK_ACCOUNTS:
            self._look_at = steady  # More is waiting.

    async def _roll(self, pubkey: bytes, entries_max: int) -> int:
        entries = 0
        while entries < entries_max:
            rolled = await self._store.roll(pubkey, _CHUNK_ENTRIES)
            self._rolled[pubkey] = rolled.seq
            entries += rolled.entries
            if rolled.entries < _CHUNK_ENTRIES:
                break
        return entries
