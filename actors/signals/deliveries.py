"""Records what was delivered to an account, so that a replay does not bill it again. A port and its Redis store.

Implements: money rule 10; threat 32 ("not billed twice").
A subscription does not record each event. It records its filter, the cursor at which it began, and a cursor up to which
its events may be billed, and does so ahead: an event is billed only if the record in Redis covers it already. So when a
process dies, a replay gives at most what the last record covers for free, in the customer's favour, and bills nothing
twice.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError

from actors.signals.events import SignalEvent
from actors.signals.filters import SignalFilter
from actors.signals.log import BEGAN, SignalLogUnavailable, cursor_key

LEASE_MS = 15_000
_KEPT_SECONDS = 26 * 3_600  # Longer than Redis keeps the stream.
_RECORDS_MAX = 256
_PREFIX = "signals:delivered:"
_COMMAND_SECONDS_MAX = 5.0
_AT_ONCE_MAX = 16  # A thousand sockets may end at once; the process has 64 connections to Redis in all.


class Delivered(msgspec.Struct, frozen=True, array_like=True):
    """Events of this filter after one cursor and up to another were delivered, or may have been."""

    filter: SignalFilter
    after: str
    until: str

    def covers(self, cursor: str, event: SignalEvent) -> bool:
        return cursor_key(self.after) < cursor_key(cursor) <= cursor_key(self.until) and self.filter.matches(event)


def doubtful_since(began_ms: int) -> Delivered:
    """Return what anyone may have received by records that Redis lost, if its data began at this time.

    Open streams write their records again within a lease. Nobody pays twice, so all of it is free.
    """
    return Delivered(SignalFilter(), f"{max(0, began_ms - _KEPT_SECONDS * 1_000)}-0", f"{began_ms + LEASE_MS}-0")


_encoder, _decoder = msgspec.json.Encoder(), msgspec.json.Decoder(Delivered)


def merged(records: Mapping[str, Delivered], newest: str) -> tuple[dict[str, Delivered], set[str]]:
    """Join records of one filter whose ranges meet. Returns the changed records, and the names to remove.

    newest: cursor of the log's newest entry. A record beyond it may be of an open subscription, and stays as it is.
    """
    changed: dict[str, Delivered] = {}
    gone: set[str] = set()
    by_filter: dict[bytes, list[tuple[str, Delivered]]] = {}
    ended = {name: each for name, each in records.items() if cursor_key(each.until) <= cursor_key(newest)}
    for name, record in ended.items():
        by_filter.setdefault(_encoder.encode(sorted_filter(record.filter)), []).append((name, record))
    for rows in by_filter.values():
        rows.sort(key=lambda row: cursor_key(row[1].after))
        kept_name, kept = rows[0]
        for name, record in rows[1:]:
            if cursor_key(record.after) <= cursor_key(kept.until):
                gone.add(name)
                kept = Delivered(kept.filter, kept.after, max(kept.until, record.until, key=cursor_key))
                changed[kept_name] = kept
            else:
                kept_name, kept = name, record
    rest = {name: changed.get(name, record) for name, record in records.items() if name not in gone}
    oldest_first = sorted(rest, key=lambda name: cursor_key(rest[name].until))
    gone.update(oldest_first[: max(0, len(rest) - _RECORDS_MAX)])
    return {name: record for name, record in changed.items() if name not in gone}, gone


def sorted_filter(wanted: SignalFilter) -> list[Any]:
    """Return a form that is equal for equal filters."""
    sets = [None if each is None else sorted(each) for each in (wanted.kinds, wanted.programs, wanted.wallets)]
    return [*sets, wanted.mint, wanted.min_lamports]


class DeliveryStore(Protocol):
    async def now_ms(self) -> int:
        """Return the time as the log's cursors have it."""
        ...

    async def record(self, records: Sequence[tuple[bytes, str, Delivered]]) -> None:
        """Write records: account, name of the subscription, what is delivered. Raises SignalLogUnavailable."""
        ...

    async def delivered(self, pubkey: bytes) -> dict[str, Delivered]: ...

    async def doubtful(self) -> Delivered:
        """Return what is free for everybody because its records may be lost. Raises SignalLogUnavailable, also while
        the log is lost and not restored."""
        ...

    async def tidy(self, pubkey: bytes, changed: Mapping[str, Delivered], gone: set[str]) -> None:
        """Replace records by joined ones."""
        ...


class RedisDeliveries:
    def __init__(self, client: Redis) -> None:
        self._redis = client
        self._turn = asyncio.Semaphore(_AT_ONCE_MAX)

    async def now_ms(self) -> int:
        seconds, microseconds = await self._ask(self._redis.time())
        return int(seconds) * 1000 + int(microseconds) // 1000

    async def record(self, records: Sequence[tuple[bytes, str, Delivered]]) -> None:
        if not records:
            return
        pipe = self._redis.pipeline(transaction=False)
        for pubkey, name, record in records:
            pipe.hset(_PREFIX + pubkey.hex(), name, _encoder.encode(record))
            pipe.expire(_PREFIX + pubkey.hex(), _KEPT_SECONDS)
        await self._ask(pipe.execute())

    async def delivered(self, pubkey: bytes) -> dict[str, Delivered]:
        found = await self._ask(self._redis.hgetall(_PREFIX + pubkey.hex()))
        return {
            name.decode() if isinstance(name, bytes) else name: _decoder.decode(body) for name, body in found.items()
        }

    async def doubtful(self) -> Delivered:
        began_ms = await self._ask(self._redis.get(BEGAN))
        if began_ms is None:
            raise SignalLogUnavailable("the log has not begun")
        return doubtful_since(int(began_ms))

    async def tidy(self, pubkey: bytes, changed: Mapping[str, Delivered], gone: set[str]) -> None:
        key, pipe = _PREFIX + pubkey.hex(), self._redis.pipeline(transaction=True)
        for name, record in changed.items():
            pipe.hset(key, name, _encoder.encode(record))
        if gone:
            pipe.hdel(key, *gone)
        if changed or gone:
            await self._ask(pipe.execute())

    async def _ask(self, command: Any) -> Any:
        try:
            async with asyncio.timeout(_COMMAND_SECONDS_MAX), self._turn:
                return await command
        except (RedisError, OSError, TimeoutError) as error:
            raise SignalLogUnavailable(f"{type(error).__name__}: {error}") from error
