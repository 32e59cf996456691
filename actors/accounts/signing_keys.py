"""Manages the keys of statements at one owner: which are this service's, which one signs, and their changes.

Implements: decisions, "Signed roots". A shell; receipts/root_keys.py says which rows are proven. An unproven row is
neither published nor used, and a log line names it: either a person with access to the database wrote it, or it was
made with another cluster secret. Only the operator can tell these two apart (`accept`).
"""

import logging
from collections.abc import Callable, Mapping, Sequence

from nacl.signing import SigningKey

from actors.accounts.ledger_clock import LedgerClock
from actors.accounts.seals_store import SealsStore
from actors.accounts.stored import StoreUnavailable
from actors.receipts.root_keys import (
    NONCE_BYTES,
    SEED_BYTES,
    KeySeal,
    ProvenKey,
    ProvenKeys,
    RootKey,
    name_of,
)
from actors.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

_KEYS_SECONDS = 30.0  # A retired key stops signing within twice this (receipts/checks.py).


class SigningKeys:
    """Keys of statements. All methods raise StoreUnavailable; a change may then have been made."""

    def __init__(
        self,
        store: SealsStore,
        clock: LedgerClock,
        seal: KeySeal,
        random_bytes: Callable[[int], bytes],
        metrics: Metrics,
    ) -> None:
        self._store, self._clock, self._seal, self._random_bytes = store, clock, seal, random_bytes
        self._rows: Sequence[RootKey] | None = None
        self._proven = ProvenKeys([], None, [])
        self._known: Mapping[str, ProvenKey] = {}
        self._signing: tuple[ProvenKey, SigningKey] | None = None
        self._read_again_at = 0.0
        self._told: frozenset[str] = frozenset()  # Unproven rows already named in a log line.
        metrics.watch(
            "unproven_ledger_keys",
            "Rows of ledger_keys that are not known to be this service's; they are neither published nor used.",
            lambda: len(self._proven.unproven),
        )

    @property
    def signing(self) -> tuple[ProvenKey, SigningKey]:
        """Return the key that signs. Call `refresh` before."""
        assert self._signing is not None
        return self._signing

    @property
    def known(self) -> Mapping[str, ProvenKey]:
        """Return all proven keys by name, as last read."""
        return self._known

    async def read(self) -> ProvenKeys:
        """Read all keys."""
        rows = await self._store.keys()
        if rows != self._rows:
            self._rows, self._proven = rows, self._seal.proven(rows)
            self._known = {key.id: key for key in self._proven.keys}
            self._tell_unproven()
        return self._proven

    def _tell_unproven(self) -> None:
        unproven = frozenset(row.id for row in self._proven.unproven)
        if unproven - self._told:
            logger.error(
                "ledger keys %s are not known to be this service's: somebody has written them into the database, or "
                "they are of another cluster secret; they are not published, and nothing that they signed is used. If "
                "one was published before the secret changed: `serve_app.py ledger-key accept ID`",
                ", ".join(sorted(unproven)),
            )
        self._told = unproven

    def expire(self) -> None:
        """Have the next `refresh` read all keys."""
        self._read_again_at = 0.0

    async def refresh(self) -> None:
        """Open the signing key, or make one where none can sign. Cheap if it was read recently."""
        steady = self._clock.monotonic()
        if self._signing is not None and steady < self._read_again_at:
            return
        proven = await self.read()
        newest = proven.keys[0] if proven.signing is not None else None
        if newest is not None and proven.signing is not None and self._may_sign(newest):
            self._signing = newest, proven.signing
        else:
            await self._make(proven.keys)
        self._read_again_at = steady + _KEYS_SECONDS

    def _may_sign(self, newest: ProvenKey) -> bool:
        """Return whether the newest own key is the signing key in the database too.

        If not, a key of another secret came after it. A foreign row that arrives while this process signs changes
        nothing."""
        if self._signing is not None and self._signing[0].id == newest.id:
            return True
        return newest.id == self._unretired()

    def _unretired(self) -> str | None:
        return next((row.id for row in self._rows or () if row.retired_ms is None), None)

    async def rotate(self) -> None:
        """Sign with a new key from now on."""
        self.expire()
        await self.refresh()
        await self._make(self._proven.keys)

    async def accept(self, key_id: str) -> bool:
        """Trust a key made with another cluster secret: a new key vouches for it from now on. False: there is no such
        row."""
        self.expire()
        await self.refresh()
        if key_id in self._known:
            return True
        row = next((row for row in self._proven.unproven if row.id == key_id), None)
        if row is None or name_of(row.public) != row.id:
            return False
        await self._make([*self._proven.keys, ProvenKey(row.id, row.public, row.made_ms, row.retired_ms)])
        logger.warning("the operator has accepted the ledger key %s", key_id)
        return True

    async def _make(self, older: Sequence[ProvenKey]) -> None:
        seed, nonce = self._random_bytes(SEED_BYTES), self._random_bytes(NONCE_BYTES)
        now_ms = max([self._clock.now_ms(), *(key.made_ms + 1 for key in older)])
        self.expire()
        if not await self._store.change_key(self._unretired(), self._seal.make(seed, nonce, now_ms, older)):
            raise StoreUnavailable("the key was changed by another command or owner at this moment")
        proven = await self.read()
        if proven.signing is None:
            raise StoreUnavailable("the key that was made is not in the database")
        self._signing = proven.keys[0], proven.signing
