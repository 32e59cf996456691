"""The durable state of identity: taken nonces, sessions, and the counts of client addresses.

Implements: money rule 11; interface, "Session token"; design, "What must survive what".
A port and its Redis store. Decides nothing: the account's owner decides which nonce is new and which session is valid,
and stores that here.

Each virtual shard has one record of nonces, and a record has one owner at a time. An owner claims its records with the
epoch of its takeover, and reads their contents. From then on Redis refuses every write of an earlier owner, even one
that was sent before, so the new owner has read all nonces. A record that was lost, or that has lost some of its nonces,
is recognised by its epoch and its count.

Redis 6.2 is enough. Redis gets lifetimes as durations from this process's clock, never as points in time, so that a
wrong clock of Redis shortens no lifetime. Sessions and counts expire by themselves. Nonces do not, because a Redis
whose clock is set ahead would forget all of them; their owner removes the old ones.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Protocol

from redis.asyncio import Redis
from redis.exceptions import RedisError

from actors.clock import Clock, SystemClock
from actors.identity.client_addresses import WINDOW_SECONDS
from actors.units import PUBKEY_BYTES, VirtualShard

_PREFIX = "identity:"
_PUBKEY_HEX = 2 * PUBKEY_BYTES
_COMMAND_SECONDS_MAX = 5.0  # A whole command with its retries; Redis answers in less than a millisecond.
_COUNT_SECONDS_MAX = 1.0  # A replica that gets no answer in this time counts addresses by itself.
_COUNT_SECONDS = 2 * WINDOW_SECONDS + 10  # A replica whose clock lags may still count in the minute before.


class IdentityStoreUnavailable(Exception):
    """The store did not answer: the change may or may not have been made."""


class NotTheOwner(Exception):
    """Another owner has a nonce record, or the record was lost. Nothing was written. epoch: of the owner; 0:
    unknown."""

    def __init__(self, epoch: int = 0) -> None:
        super().__init__(f"the owner of the nonce record has epoch {epoch}" if epoch else "not the owner")
        self.epoch = epoch


class TakenNonce(NamedTuple):
    """text: the nonce in the owner's stored form (nonces.stored_form). good_until: Unix seconds, of the message."""

    shard: VirtualShard
    pubkey: bytes
    text: str
    good_until: int


class ClaimedRecord(NamedTuple):
    """The nonces of one virtual shard, as the claim read them.

    epoch_before: of the previous owner; 0: there was no record. forgotten_until: nonces of messages that were valid
    until then at the latest have been removed. lost_until: the record was lost, and nonces that were used until then
    may be missing.
    """

    epoch_before: int
    forgotten_until: int
    lost_until: int
    nonces: list[tuple[bytes, str, int]]  # Public key, text and good_until, in no particular order.


class IdentityStore(Protocol):
    async def claim_nonces(
        self, epoch: int, shards: Sequence[VirtualShard], *, expected: int | None, over: int, lost_until: int
    ) -> list[ClaimedRecord]:
        """Claim these records with this epoch and read them, in one step. Returns one answer for each shard.

        expected: the epoch that complete records have; None: any. A record with another epoch, a missing record and one
        that has lost nonces get lost_until. Raises NotTheOwner when a record has an epoch above this one and above
        `over`.
        """
        ...

    async def take_nonces(self, epoch: int, entries: Sequence[TakenNonce]) -> None:
        """Store these nonces, in one round trip. Storing one again changes nothing. Raises NotTheOwner."""
        ...

    async def forget_nonces(self, epoch: int, shards: Sequence[VirtualShard], until: int) -> None:
        """Remove the nonces whose messages were valid until then at the latest. Raises NotTheOwner."""
        ...

    async def put_session(self, token_hash: bytes, pubkey: bytes, expires_at: int) -> None: ...

    async def load_session(self, token_hash: bytes) -> tuple[bytes, int] | None:
        """Return (pubkey, expires_at) of a session. None: it was dropped or has expired."""
        ...

    async def slide_sessions(self, entries: Sequence[tuple[bytes, int]]) -> None:
        """Extend sessions, given as (token_hash, expires_at). Never shortens one, never restores a dropped one."""
        ...

    async def drop_session(self, token_hash: bytes) -> None: ...

    async def count_address(self, address: str, minute: int, amount: int) -> int:
        """Add an amount to the count of an address in a minute, and return the total."""
        ...


# A nonce record is a hash (epoch of its owner; count of its nonces; `forgotten` and `lost`, as in ClaimedRecord) and a
# sorted set of its nonces. KEYS has both keys of every record. Each script checks all epochs before it writes.

# ARGV: epoch, the epoch of complete records ('' for any), the epoch that may be overwritten, lost_until.
# Returns the records, or a number: the epoch of another owner.
_CLAIM_NONCES = """
local epoch, over = tonumber(ARGV[1]), tonumber(ARGV[3])
for i = 1, #KEYS, 2 do
  local owner = tonumber(redis.call('HGET', KEYS[i], 'epoch') or 0)
  if owner > epoch and owner > over then return owner end
end
local claimed = {}
for i = 1, #KEYS, 2 do
  local row = redis.call('HMGET', KEYS[i], 'epoch', 'count', 'forgotten', 'lost')
  local count = redis.call('ZCARD', KEYS[i + 1])
  local lost = row[4] or '0'
  local whole = row[1] and tonumber(row[2]) == count and (ARGV[2] == '' or ARGV[2] == row[1])
  if not whole and tonumber(ARGV[4]) > tonumber(lost) then lost = ARGV[4] end
  redis.call('HSET', KEYS[i], 'epoch', ARGV[1], 'count', count, 'forgotten', row[3] or '0', 'lost', lost)
  local nonces = redis.call('ZRANGE', KEYS[i + 1], 0, -1, 'WITHSCORES')
  claimed[#claimed + 1] = {row[1] or '0', row[3] or '0', lost, nonces}
end
return claimed
"""

# ARGV: epoch, then (index of the record, good_until, member) of every nonce. Returns 0 when a record has another owner.
_TAKE_NONCES = """
for i = 1, #KEYS, 2 do
  if redis.call('HGET', KEYS[i], 'epoch') ~= ARGV[1] then return 0 end
end
local added = {}
for i = 2, #ARGV, 3 do
  local k = tonumber(ARGV[i])
  added[k] = (added[k] or 0) + redis.call('ZADD', KEYS[k + 1], ARGV[i + 1], ARGV[i + 2])
end
for k, count in pairs(added) do redis.call('HINCRBY', KEYS[k], 'count', count) end
return 1
"""

# ARGV: epoch, until. Returns 0 when a record has another owner.
_FORGET_NONCES = """
for i = 1, #KEYS, 2 do
  if redis.call('HGET', KEYS[i], 'epoch') ~= ARGV[1] then return 0 end
end
for i = 1, #KEYS, 2 do
  local removed = redis.call('ZREMRANGEBYSCORE', KEYS[i + 1], '-inf', ARGV[2])
  if removed > 0 then
    redis.call('HINCRBY', KEYS[i], 'count', -removed)
    if tonumber(ARGV[2]) > tonumber(redis.call('HGET', KEYS[i], 'forgotten')) then
      redis.call('HSET', KEYS[i], 'forgotten', ARGV[2])
    end
  end
end
return 1
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
    """In Redis, for all replicas and shards. Every failure of Redis raises IdentityStoreUnavailable."""

    def __init__(self, client: Redis, clock: Clock | None = None) -> None:
        """client: has its own timeouts, and may answer in bytes or text."""
        self._client = client
        self._clock: Clock = clock or SystemClock()

    async def claim_nonces(
        self, epoch: int, shards: Sequence[VirtualShard], *, expected: int | None, over: int, lost_until: int
    ) -> list[ClaimedRecord]:
        arguments = [epoch, "" if expected is None else expected, over, lost_until]
        async with _unavailable_on_failure():
            reply = await self._eval(_CLAIM_NONCES, _record_keys(shards), arguments)
        if isinstance(reply, int):
            raise NotTheOwner(reply)
        return [
            ClaimedRecord(int(epoch_before), int(forgotten), int(lost), _nonces(nonces))
            for epoch_before, forgotten, lost, nonces in reply
        ]

    async def take_nonces(self, epoch: int, entries: Sequence[TakenNonce]) -> None:
        shards: dict[VirtualShard, int] = {}
        arguments: list[str | int] = [epoch]
        for shard, pubkey, text, good_until in entries:
            arguments += (shards.setdefault(shard, 2 * len(shards) + 1), good_until, f"{pubkey.hex()}{text}")
        async with _unavailable_on_failure():
            taken = await self._eval(_TAKE_NONCES, _record_keys(shards), arguments)
        if not taken:
            raise NotTheOwner

    async def forget_nonces(self, epoch: int, shards: Sequence[VirtualShard], until: int) -> None:
        async with _unavailable_on_failure():
            forgotten = await self._eval(_FORGET_NONCES, _record_keys(shards), [epoch, until])
        if not forgotten:
            raise NotTheOwner

    async def put_session(self, token_hash: bytes, pubkey: bytes, expires_at: int) -> None:
        value = f"{expires_at} {pubkey.hex()}"
        async with _unavailable_on_failure():
            await self._client.set(_session_key(token_hash), value, ex=self._seconds_until(expires_at))

    async def load_session(self, token_hash: bytes) -> tuple[bytes, int] | None:
        async with _unavailable_on_failure():
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
        async with _unavailable_on_failure():
            await self._eval(_SLIDE_SESSIONS, keys, arguments)

    async def drop_session(self, token_hash: bytes) -> None:
        async with _unavailable_on_failure():
            await self._client.delete(_session_key(token_hash))

    async def count_address(self, address: str, minute: int, amount: int) -> int:
        key = f"{_PREFIX}address:{minute}:{address}"
        async with (
            _unavailable_on_failure(_COUNT_SECONDS_MAX),
            self._client.pipeline(transaction=False) as pipeline,
        ):
            pipeline.incrby(key, amount)
            pipeline.expire(key, _COUNT_SECONDS)
            total, _ = await pipeline.execute()
        return int(total)

    def _seconds_until(self, expires_at: int) -> int:
        return max(1, expires_at - self._clock.now())

    async def _eval(self, script: str, keys: list[str], arguments: Sequence[str | int]) -> Any:
        # EVAL with the text, not its digest: a Redis that was restarted knows no digests, and the text is short.
        return await self._client.eval(script, len(keys), *keys, *arguments)


def _record_keys(shards: Iterable[VirtualShard]) -> list[str]:
    return [f"{_PREFIX}nonces:{shard}{part}" for shard in shards for part in (":owner", "")]


def _nonces(reply: list[bytes | str]) -> list[tuple[bytes, str, int]]:
    """Parse members and scores, which alternate. A member begins with the public key in hex."""
    members = map(_text, reply[::2])
    rows = zip(members, reply[1::2], strict=True)
    return [(bytes.fromhex(member[:_PUBKEY_HEX]), member[_PUBKEY_HEX:], int(score)) for member, score in rows]


def _session_key(token_hash: bytes) -> str:
    return f"{_PREFIX}session:{token_hash.hex()}"


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode()


@asynccontextmanager
async def _unavailable_on_failure(seconds: float | None = None) -> AsyncIterator[None]:
    """Turn a Redis that fails, or does not answer in time, into IdentityStoreUnavailable.

    The client's own retries and reconnects each have a time limit and add up to minutes, so the whole command gets one.
    """
    try:
        async with asyncio.timeout(seconds or _COMMAND_SECONDS_MAX):
            yield
    except (RedisError, OSError) as error:  # OSError includes TimeoutError.
        raise IdentityStoreUnavailable(f"{type(error).__name__}: {error}") from error
