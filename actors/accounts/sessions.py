"""Caches the session tokens of this owner's accounts; the identity store keeps them.

Implements: interface, "Session token" (one hour, sliding). A token in constant use is written at most
every WRITE_SECONDS. Only hashes of tokens are kept. A session names a public key, which may have no account yet.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from actors.accounts.expiring_map import ExpiringMap
from actors.clock import Clock
from actors.identity.store import IdentityStore, IdentityStoreUnavailable

logger = logging.getLogger(__name__)

WRITE_SECONDS = 30  # A crash shortens the sliding life of a session by at most this.
CACHED_MAX = 100_000
_DROPPED_SECONDS = 60  # Longer than any look-up that began before the session was closed.
_UNKNOWN_SECONDS = 5
_UNKNOWN_MAX = 50_000


@dataclass(slots=True)
class _Session:
    pubkey: bytes
    expires_at: int
    written_at: int


class Sessions:
    def __init__(self, store: IdentityStore, clock: Clock, session_seconds: int) -> None:
        self._store, self._clock, self._session_seconds = store, clock, session_seconds
        self._live: dict[bytes, _Session] = {}
        self._slides: dict[bytes, int] = {}
        self._drops: set[bytes] = set()  # Logged out in memory; Redis not updated yet.
        self._ended: ExpiringMap[bytes, bool] = ExpiringMap(_DROPPED_SECONDS)
        self._unknown: ExpiringMap[bytes, bool] = ExpiringMap(_UNKNOWN_SECONDS)

    def use(self, token_hash: bytes) -> bytes | None:
        """Return the public key of a live session in memory, and prolong the session."""
        session = self._live.get(token_hash)
        if session is None:
            return None
        now = self._clock.now()
        if session.expires_at <= now:
            del self._live[token_hash]
            return None
        session.expires_at = now + self._session_seconds
        if now - session.written_at >= WRITE_SECONDS:
            session.written_at = now
            self._slides[token_hash] = session.expires_at
        return session.pubkey

    async def find(self, token_hash: bytes) -> bytes | None:
        """As `use`, but asks the store when the session is not in memory. Raises IdentityStoreUnavailable."""
        pubkey = self.use(token_hash)
        if pubkey is not None or self._unknown.get(token_hash):
            return pubkey
        return self.use(token_hash) if await self._load(token_hash) else None

    async def owner_of(self, token_hash: bytes) -> bytes | None:
        """Return the public key of a live session without prolonging it. Raises IdentityStoreUnavailable."""
        if token_hash not in self._live and (self._unknown.get(token_hash) or not await self._load(token_hash)):
            return None
        session = self._live[token_hash]
        return session.pubkey if session.expires_at > self._clock.now() else None

    async def _load(self, token_hash: bytes) -> bool:
        """Load the session; return whether the store has it, alive."""
        found = await self._store.load_session(token_hash)
        now = self._clock.now()
        if found is None or found[1] <= now or self._ended.get(token_hash) or token_hash in self._drops:
            if len(self._unknown) < _UNKNOWN_MAX:
                self._unknown.put(token_hash, True, int(self._clock.monotonic()))
            return False
        self._keep(token_hash, _Session(found[0], found[1], found[1] - self._session_seconds))
        return True

    async def open(self, token_hash: bytes, pubkey: bytes) -> None:
        now = self._clock.now()
        expires_at = now + self._session_seconds
        await self._store.put_session(token_hash, pubkey, expires_at)
        self._keep(token_hash, _Session(pubkey, expires_at, now))

    async def close(self, token_hash: bytes) -> None:
        """Refuse the token from now on.

        Raises IdentityStoreUnavailable when the store cannot be updated; every flush, and closing again, then retries
        it."""
        self._ended.put(token_hash, True, int(self._clock.monotonic()))
        self._live.pop(token_hash, None)
        self._slides.pop(token_hash, None)
        if len(self._drops) < _UNKNOWN_MAX:
            self._drops.add(token_hash)
        await self._store.drop_session(token_hash)
        self._drops.discard(token_hash)

    def is_ending(self, token_hash: bytes) -> bool:
        """Return whether the session is logged out in memory and Redis is not updated yet."""
        return token_hash in self._drops

    async def flush(self) -> None:
        """Write prolonged and closed sessions. The next flush repeats a failed write."""
        for token_hash in list(self._drops):
            try:
                await self._store.drop_session(token_hash)
            except IdentityStoreUnavailable:
                break
            self._drops.discard(token_hash)
        if not self._slides:
            return
        slides, self._slides = self._slides, {}
        try:
            await self._store.slide_sessions(list(slides.items()))
        except IdentityStoreUnavailable as error:
            logger.warning("sessions cannot be prolonged for now: %s", error)
            self._slides = {token: until for token, until in slides.items() if token in self._live} | self._slides

    async def leave(self, is_leaving: Callable[[bytes], bool]) -> None:
        """Write waiting changes, and forget the sessions of leaving accounts: another owner may close them from now on.

        Raises IdentityStoreUnavailable while the store does not know of a closed session."""
        await self.flush()
        if self._drops:
            raise IdentityStoreUnavailable("the store does not know yet of sessions that have ended")
        self._live = {token: session for token, session in self._live.items() if not is_leaving(session.pubkey)}

    def forget_unknown(self) -> None:
        """Forget which tokens were unknown: after new accounts arrive, they may be known."""
        self._unknown = ExpiringMap(_UNKNOWN_SECONDS)

    def _keep(self, token_hash: bytes, session: _Session) -> None:
        if len(self._live) >= CACHED_MAX:
            del self._live[next(iter(self._live))]  # The oldest; it is loaded again at its next use.
        self._live[token_hash] = session
