"""What must survive of identity: taken nonces, sessions, burned challenges, and the counts of client addresses.

Implements: decisions, money rule 11; interface, "Session token"; design, "What must survive what".
A port and its two stores, which pass one suite. Decides nothing: the account's owner says which nonce is fresh and
which session lives, and calls this to remember it.

Redis 6.2 is enough. Lifetimes are given to Redis as durations from this process's clock, never as instants, so that
a Redis whose clock is off keeps nothing too short. Everything expires by itself.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from redis.asyncio import Redis
from redis.exceptions import RedisError

from actors.clock import Clock, SystemClock
from actors.identity.addresses import WINDOW_SECONDS, Counts

_PREFIX = "identity:"
_COUNT_SECONDS = 2 * WINDOW_SECONDS + 10  # A replica whose clock lags may still count in the minute before.


class IdentityStoreUnavailable(Exception):
    """The store did not do what was asked, or it is not known whether it did."""


class IdentityStore(Protocol):
    async def take_nonces(self, entries: Sequence[tuple[bytes, str, int]]) -> None:
        """Persist (pubkey, nonce, expires_at) in one round trip. Taking one again changes nothing."""
        ...

    async def load_nonces(self, pubkey: bytes) -> list[tuple[str, int]]:
        """The unexpired (nonce, expires_at) of one public key, in no particular order."""
        ...

    async def put_session(self, token_hash: bytes, pubkey: bytes, expires_at: int) -> None: ...

    async def load_session(self, token_hash: bytes) -> tuple[bytes, int] | None:
        """(pubkey, expires_at) of a session that is neither dropped nor expired."""
        ...

    async def slide_sessions(self, entries: Sequence[tuple[bytes, int]]) -> None:
        """Move (token_hash, expires_at) later. Never earlier, and never brings a dropped session back."""
        ...

    async def drop_session(self, token_hash: bytes) -> None: ...

    async def burn_challenge(self, challenge_id: bytes, expires_at: int) -> bool:
        """False: it was burned before. Of two that burn it at once, one gets True."""
        ...

    async def count_address(self, address: str, minute: int, amount: int) -> int:
        """Total of that address in that minute, this amount included."""
        ...


class MemoryIdentityStore:
    """For tests and single processes: keeps what Redis would keep, while the process lives."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock: Clock = clock or SystemClock()
        self._nonces: dict[bytes, dict[str, int]] = {}
        self._sessions: dict[bytes, tuple[bytes, int]] = {}
        self._burned: dict[bytes, int] = {}
        self._counts = Counts()

    async def take_nonces(self, entries: Sequence[tuple[bytes, str, int]]) -> None:
        now = self._clock.now()
        for pubkey in {entry[0] for entry in entries}:
            kept = self._nonces.get(pubkey, {})
            self._nonces[pubkey] = {nonce: expires_at for nonce, expires_at in kept.items() if expires_at > now}
        for pubkey, nonce, expires_at in entries:
            self._nonces[pubkey][nonce] = expires_at

    async def load_nonces(self, pubkey: bytes) -> list[tuple[str, int]]:
        now = self._clock.now()
        return [entry for entry in self._nonces.get(pubkey, {}).items() if entry[1] > now]

    async def put_session(self, token_hash: bytes, pubkey: bytes, expires_at: int) -> None:
        self._sessions[token_hash] = (pubkey, expires_at)

    async def load_session(self, token_hash: bytes) -> tuple[bytes, int] | None:
        session = self._sessions.get(token_hash)
        if session is not None and session[1] <= self._clock.now():
            del self._sessions[token_hash]
            return None
        return session

    async def slide_sessions(self, entries: Sequence[tuple[bytes, int]]) -> None:
        now = self._clock.now()
        for token_hash, expires_at in entries:
            session = self._sessions.get(token_hash)
            if session is not None and now < session[1] < expires_at:
                self._sessions[token_hash] = (session[0], expires_at)

    async def drop_session(self, token_hash: bytes) -> None:
        self._sessions.pop(token_hash, None)

    async def burn_challenge(self, challenge_id: bytes, expires_at: int) -> bool:
        now = self._clock.now()
        if self._burned.get(challenge_id, 0) > now:
            return False
        self._burned = {burned: until for burned, until in self._burned.items() if until > now}
        self._burned[challenge_id] = expires_at
        return True

    async def count_address(self, address: str, minute: int, amount: int) -> int:
        return self._counts.add(address, minute, amount)


# KEYS: one set per public key. ARGV: now, then (index of key, nonce, expires_at) of every nonce.
# A script, because Redis 6.2 cannot lengthen an expiry without ever shortening it (EXPIRE GT came with 7).
_TAKE_NONCES = """
local now = tonumber(ARGV[1])
local last = {}
for i = 2, #ARGV, 3 do
  local k, expires_at = tonumber(ARGV[i]), tonumber(ARGV[i + 2])
  redis.call('ZADD', KEYS[k], expires_at, ARGV[i + 1])
  if expires_at > (last[k] or 0) then last[k] = expires_at end
end
for k, expires_at in pairs(last) do
  redis.call('ZREMRANGEBYSCORE', KEYS[k], '-inf', now)
  local seconds = math.max(expires_at - now, 1)
  if seconds > redis.call('TTL', KEYS[k]) then redis.call('EXPIRE', KEYS[k], seconds) end
end
"""

# KEYS: sessions. ARGV: now, then the new expires_at of each. The existing value is "<expires_at> <public key>".
_SLIDE_SESSIONS = """
local now = tonumber(ARGV[1])
for i, key in ipairs(KEYS) do
  local value = redis.call('GET', key)
  local old, pubkey = string.match(value or '', '^(%d+) (%x+)$')
  local new = tonumber(ARGV[i + 1])
  if old and now < tonumber(old) and tonumber(old) < new then
    redis.call('SET', key, string.format('%d', new) .. ' ' .. pubkey, 'EX', new - now)
  end
end
"""


class RedisIdentityStore:
    """All replicas and shards share one Redis. Every failure of it is IdentityStoreUnavailable."""

    def __init__(self, client: Redis, clock: Clock | None = None) -> None:
        """client: with its own timeouts; answers in bytes or text, as it likes."""
        self._client = client
        self._clock: Clock = clock or SystemClock()

    async def take_nonces(self, entries: Sequence[tuple[bytes, str, int]]) -> None:
        if not entries:
            return
        keys: dict[bytes, int] = {}
        arguments: list[str | int] = [self._clock.now()]
        for pubkey, nonce, expires_at in entries:
            arguments += (keys.setdefault(pubkey, len(keys) + 1), nonce, expires_at)
        with _unavailable_on_failure():
            await self._eval(_TAKE_NONCES, [_nonces_key(pubkey) for pubkey in keys], arguments)

    async def load_nonces(self, pubkey: bytes) -> list[tuple[str, int]]:
        now = self._clock.now()
        with _unavailable_on_failure():
            reply: Any = await self._client.zrangebyscore(_nonces_key(pubkey), f"({now}", "+inf", withscores=True)
        rows: list[tuple[bytes | str, float]] = reply
        return [(_text(nonce), int(expires_at)) for nonce, expires_at in rows]

    async def put_session(self, token_hash: bytes, pubkey: bytes, expires_at: int) -> None:
        value = f"{expires_at} {pubkey.hex()}"
        with _unavailable_on_failure():
            await self._client.set(_session_key(token_hash), value, ex=self._seconds_until(expires_at))

    async def load_session(self, token_hash: bytes) -> tuple[bytes, int] | None:
        with _unavailable_on_failure():
            value = await self._client.get(_session_key(token_hash))
        if value is None:
            return None
        expires_at, _, pubkey = _text(value).partition(" ")
        return (bytes.fromhex(pubkey), int(expires_at)) if int(expires_at) > self._clock.now() else None

    async def slide_sessions(self, entries: Sequence[tuple[bytes, int]]) -> None:
        if not entries:
            return
        keys = [_session_key(token_hash) for token_hash, _ in entries]
        arguments: list[str | int] = [self._clock.now(), *(expires_at for _, expires_at in entries)]
        with _unavailable_on_failure():
            await self._eval(_SLIDE_SESSIONS, keys, arguments)

    async def drop_session(self, token_hash: bytes) -> None:
        with _unavailable_on_failure():
            await self._client.delete(_session_key(token_hash))

    async def burn_challenge(self, challenge_id: bytes, expires_at: int) -> bool:
        key = f"{_PREFIX}challenge:{challenge_id.hex()}"
        with _unavailable_on_failure():
            return bool(await self._client.set(key, 1, nx=True, ex=self._seconds_until(expires_at)))

    async def count_address(self, address: str, minute: int, amount: int) -> int:
        key = f"{_PREFIX}address:{minute}:{address}"
        with _unavailable_on_failure():
            async with self._client.pipeline(transaction=False) as pipeline:
                pipeline.incrby(key, amount)
                pipeline.expire(key, _COUNT_SECONDS)
                total, _ = await pipeline.execute()
        return int(total)

    def _seconds_until(self, expires_at: int) -> int:
        return max(1, expires_at - self._clock.now())

    async def _eval(self, script: str, keys: list[str], arguments: list[str | int]) -> None:
        # EVAL with the text, not its digest: a Redis that was restarted knows no digests, and the text is short.
        await self._client.eval(script, len(keys), *keys, *arguments)


def _nonces_key(pubkey: bytes) -> str:
    return f"{_PREFIX}nonces:{pubkey.hex()}"


def _session_key(token_hash: bytes) -> str:
    return f"{_PREFIX}session:{token_hash.hex()}"


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode()


@contextmanager
def _unavailable_on_failure() -> Iterator[None]:
    try:
        yield
    except (RedisError, OSError) as error:  # OSError includes TimeoutError.
        raise IdentityStoreUnavailable(f"{type(error).__name__}: {error}") from error
