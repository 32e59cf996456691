"""The signal log: what happened, in one order for all, each entry with its cursor. A port and its Redis store.

Implements: decisions, "one signal", "cursors and gaps"; hostile input 32.
The log is a Redis stream; a cursor is the id of its entry. A signal is written once, however often it is reported: a
script looks it up and writes it in one step, together with the position of the classifier that reports it. So a
classifier that is killed, or a Redis that lost its last second, resumes at a position that fits the log.
When a fork takes a slot away, its signals get a correction: `removed`, or `moved` where another slot has the same
transaction. A removed signal that lands again is `restored`. Only the first report costs anything.

Redis 6.2 is enough. Decides nothing else; history.py keeps what leaves the stream.
"""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError

from actors.signals.events import SignalEvent

STREAM, POSITIONS, WALLETS = "signals:log", "signals:positions", "signals:wallets"
BEGAN = "signals:began"  # Unix milliseconds since which this Redis has all data of signals; missing: it is empty.
_SEEN = "signals:seen:"
SEEN_SECONDS = 24 * 3_600  # A transaction cannot land again later than two minutes after it was first seen.
NO_CURSOR = "0-0"
_COMMAND_SECONDS_MAX = 5.0
_CURSOR = re.compile(r"(0|[1-9][0-9]{0,14})-(0|[1-9][0-9]{0,9})")
_WALLET_SECONDS = 60
_RECENT_SLOTS = 1_000
SUBSCRIBED_WALLETS_MAX = 10_000  # No subscription is taken that would make them more.
_WALLETS_MAX = 15_000  # With those of webhooks (webhooks/commands.py).

# KEYS: stream, positions, then one for each event. ARGV: partition, position of before, position, lifetime of what was
# seen, length of the stream; then slot and body of each event. Gives the cursor of each event, "" where it was known.
_APPEND = """
local before = tonumber(redis.call('HGET', KEYS[2], ARGV[1]) or '0')
if before < tonumber(ARGV[2]) then return {'lost', tostring(before)} end
local given = {'ok'}
for i = 3, #KEYS do
  local slot, body = ARGV[2 * i], ARGV[2 * i + 1]
  local seen = redis.call('GET', KEYS[i])
  if not seen or seen == '-' then
    given[#given + 1] = redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[5], '*',
                                   'c', seen and 'restored' or 'event', 'b', body)
    redis.call('SET', KEYS[i], slot, 'EX', ARGV[4])
  else
    given[#given + 1] = ''
    if not string.find(',' .. seen .. ',', ',' .. slot .. ',', 1, true) then
      redis.call('SET', KEYS[i], seen .. ',' .. slot, 'EX', ARGV[4])
    end
  end
end
if tonumber(ARGV[3]) > before then redis.call('HSET', KEYS[2], ARGV[1], ARGV[3]) end
return given
"""
# KEYS: stream, then one for each event. ARGV: slot that was lost, lifetime, length; then for each event the body of
# before and the place of the slot in it, as text before and after it.
_CORRECT = """
local given = {}
for i = 2, #KEYS do
  local body, head, tail = ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i]
  local seen = redis.call('GET', KEYS[i])
  local left, was_first, found = {}, false, false
  if seen and seen ~= '-' then
    for slot in string.gmatch(seen, '[^,]+') do
      if slot == ARGV[1] then
        found = true
        was_first = #left == 0
      else
        left[#left + 1] = slot
      end
    end
  end
  if found then
    if #left == 0 then
      redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[3], '*', 'c', 'removed', 'b', body)
      redis.call('SET', KEYS[i], '-', 'EX', ARGV[2])
      given[#given + 1] = 'removed'
    else
      redis.call('SET', KEYS[i], table.concat(left, ','), 'EX', ARGV[2])
      if was_first then
        redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[3], '*', 'c', 'moved', 'b', head .. left[1] .. tail)
        given[#given + 1] = 'moved'
      end
    end
  end
end
return given
"""
# KEYS: stream, then one for each entry. ARGV: lifetime of what was seen; then cursor, change, body and slots of each
# entry. Entries that are not after the last one are in the stream already.
_RESTORE = """
for i = 2, #KEYS do
  local id, change, body, slots = ARGV[4 * i - 6], ARGV[4 * i - 5], ARGV[4 * i - 4], ARGV[4 * i - 3]
  redis.pcall('XADD', KEYS[1], id, 'c', change, 'b', body)
  if slots ~= '' then redis.call('SET', KEYS[i], slots, 'EX', ARGV[1], 'NX') end
end
return #KEYS
"""
# KEYS: positions, began. ARGV: partition, position.
_WHOLE = """
local before = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0')
local now = redis.call('TIME')
redis.call('SET', KEYS[2], now[1] .. string.sub(string.format('%06d', now[2]), 1, 3), 'NX')
if before == 0 and tonumber(ARGV[2]) > 0 then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
  return tonumber(ARGV[2])
end
return before
"""
# KEYS: wallets. ARGV: now, until, the most; then wallets. Gives 1 if they are watched.
_WATCH_MORE = """
local fresh = 0
for i = 4, #ARGV do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if not score or tonumber(score) < tonumber(ARGV[1]) then fresh = fresh + 1 end
end
if fresh > 0 and redis.call('ZCOUNT', KEYS[1], ARGV[1], '+inf') + fresh > tonumber(ARGV[3]) then return 0 end
for i = 4, #ARGV do redis.call('ZADD', KEYS[1], ARGV[2], ARGV[i]) end
return 1
"""
_RESTORED_AT_ONCE = 500


class SignalLogUnavailable(Exception):
    """The log did not answer; what was asked may or may not have been done."""


class PositionLost(Exception):
    """The log is older than the caller: it lost what was written last. Resume at its position."""


class SignalGap(msgspec.Struct, frozen=True):
    """Slots whose signals are not in the log."""

    from_slot: int
    to_slot: int
    reason: str


class LogEntry(msgspec.Struct, frozen=True):
    """change: event, restored, moved (to the slot of the event), removed, or gap."""

    cursor: str
    change: str
    event: SignalEvent | None = None
    gap: SignalGap | None = None

    @property
    def is_charged(self) -> bool:
        return self.change == "event"


_encode_event, _encode_gap = msgspec.json.Encoder().encode, msgspec.json.Encoder().encode
_event_decoder = msgspec.json.Decoder(SignalEvent)
_gap_decoder = msgspec.json.Decoder(SignalGap)


def parse_cursor(text: str) -> tuple[int, int] | None:
    """None: the text is no cursor."""
    if len(text) > 26 or _CURSOR.fullmatch(text) is None:
        return None
    milliseconds, _, number = text.partition("-")
    return int(milliseconds), int(number)


def cursor_key(text: str) -> tuple[int, int]:
    """Return what cursors are compared by."""
    parsed = parse_cursor(text)
    assert parsed is not None, text
    return parsed


def is_after(cursor: str, other: str) -> bool:
    return cursor_key(cursor) > cursor_key(other)


def seen_key(event: SignalEvent) -> str:
    identity = "\n".join(event.identity).encode()
    return _SEEN + hashlib.sha256(identity).hexdigest()[:40]


def body_of(entry: LogEntry) -> bytes:
    """Return the stored form of an entry's contents."""
    return _encode_gap(entry.gap) if entry.gap is not None else _encode_event(entry.event)


def entry_of(cursor: str, change: str, body: bytes) -> LogEntry:
    if change == "gap":
        return LogEntry(cursor, change, gap=_gap_decoder.decode(body))
    return LogEntry(cursor, change, _event_decoder.decode(body))


def seen_slots(entries: Sequence[LogEntry]) -> dict[tuple[str, str, str], str]:
    """Return for each signal the slot that it is in after these entries, as the log keeps it; "-": removed."""
    found: dict[tuple[str, str, str], str] = {}
    for entry in entries:
        if entry.event is not None:
            found[entry.event.identity] = "-" if entry.change == "removed" else str(entry.event.slot)
    return found


class SignalLog(Protocol):
    async def append(
        self, partition: str, known_position: int, position: int, events: Sequence[SignalEvent]
    ) -> list[str | None]:
        """Write the events that are new, and move the partition's position, in one step.

        Returns the cursor of each event, None where it was written before. Raises PositionLost when the stored position
        is below known_position, and SignalLogUnavailable.
        """
        ...

    async def correct(self, lost_slot: int, events: Sequence[SignalEvent]) -> list[str]:
        """Write a correction for each of these events that were in a lost slot. Doing it again changes nothing."""
        ...

    async def report_gap(self, partition: str, gap: SignalGap) -> None:
        """Write that a range of slots could not be read, and move the partition's position to its end."""
        ...

    async def position(self, partition: str) -> int:
        """Return the slot up to which everything of this partition is in the log; 0: nothing is known.

        A partition that is new begins where the others are.
        """
        ...

    async def is_whole(self) -> bool:
        """Return whether it was begun, and has not been lost since."""
        ...

    async def restore(self, partition: str, position: int, entries: Sequence[LogEntry]) -> int:
        """Write entries that the log has lost, oldest first, with their cursors, and begin it.

        Returns the position of the partition: the given one where the log has none. Doing it again changes nothing.
        """
        ...

    async def read(self, after: str, count: int, wait_ms: int = 0) -> list[LogEntry]:
        """Return entries after a cursor, oldest first; waits so long where there are none."""
        ...

    async def latest(self, count: int) -> list[LogEntry]:
        """Return the newest entries, newest first."""
        ...

    async def oldest(self) -> str | None:
        """Return the first cursor that is still in the stream."""
        ...

    async def trim(self, before_ms: int) -> None:
        """Let go of entries that are older than this Unix time."""
        ...

    async def watch(self, wallets: Sequence[str], now: int) -> None:
        """Have the activity of these wallets reported for the next minute."""
        ...

    async def watch_more(self, wallets: Sequence[str], now: int) -> bool:
        """As `watch`, for a new subscription. False: too many are watched, and these are not."""
        ...

    async def watched(self, now: int) -> frozenset[str]: ...


class RedisSignalLog:
    def __init__(self, client: Redis, length_max: int = 200_000) -> None:
        self._redis, self._length_max = client, length_max
        self._append, self._correct = client.register_script(_APPEND), client.register_script(_CORRECT)
        self._watch_more = client.register_script(_WATCH_MORE)
        self._restore, self._whole = client.register_script(_RESTORE), client.register_script(_WHOLE)

    async def append(
        self, partition: str, known_position: int, position: int, events: Sequence[SignalEvent]
    ) -> list[str | None]:
        keys = [STREAM, POSITIONS, *(seen_key(event) for event in events)]
        given: list[Any] = [partition, known_position, position, SEEN_SECONDS, self._length_max]
        for event in events:
            given += [event.slot, _encode_event(event)]
        async with _away():
            answer = [_text(each) for each in await self._append(keys, given)]
        if answer[0] == "lost":
            raise PositionLost(f"{partition}: {answer[1]}")
        return [cursor or None for cursor in answer[1:]]

    async def correct(self, lost_slot: int, events: Sequence[SignalEvent]) -> list[str]:
        keys = [STREAM, *(seen_key(event) for event in events)]
        given: list[Any] = [lost_slot, SEEN_SECONDS, self._length_max]
        for event in events:
            body = _encode_event(msgspec.structs.replace(event, slot=lost_slot))
            given += [body, *_around_slot(event)]
        async with _away():
            return [_text(each) for each in await self._correct(keys, given)]

    async def report_gap(self, partition: str, gap: SignalGap) -> None:
        async with _away():
            pipe = self._redis.pipeline(transaction=True)
            pipe.xadd(STREAM, {"c": "gap", "b": _encode_gap(gap)}, maxlen=self._length_max, approximate=True)
            pipe.hset(POSITIONS, partition, str(gap.to_slot))
            await pipe.execute()

    async def position(self, partition: str) -> int:
        async with _away():
            found = await self._redis.hgetall(POSITIONS)
        positions = {_text(name): int(slot) for name, slot in found.items()}
        if partition in positions or not positions:
            return positions.get(partition, 0)
        # Another number of partitions than before: begin where the slowest of the recent ones was.
        newest = max(positions.values())
        return min(slot for slot in positions.values() if slot > newest - _RECENT_SLOTS)

    async def is_whole(self) -> bool:
        async with _away():
            return bool(await self._redis.exists(BEGAN))

    async def restore(self, partition: str, position: int, entries: Sequence[LogEntry]) -> int:
        slots = seen_slots(entries)
        for start in range(0, len(entries), _RESTORED_AT_ONCE):
            keys, given = [STREAM], list[Any]([SEEN_SECONDS])
            for entry in entries[start : start + _RESTORED_AT_ONCE]:
                keys.append(_SEEN + entry.cursor if entry.event is None else seen_key(entry.event))
                seen = "" if entry.event is None else slots[entry.event.identity]
                given += [entry.cursor, entry.change, body_of(entry), seen]
            async with _away():
                await self._restore(keys, given)
        async with _away():
            return int(await self._whole([POSITIONS, BEGAN], [partition, position]))

    async def read(self, after: str, count: int, wait_ms: int = 0) -> list[LogEntry]:
        async with _away():
            found: Any = await self._redis.xread({STREAM: after}, count=count, block=wait_ms or None)
        return [_entry(row) for row in found[0][1]] if found else []

    async def latest(self, count: int) -> list[LogEntry]:
        async with _away():
            found: Any = await self._redis.xrevrange(STREAM, count=count)
        return [_entry(row) for row in found]

    async def oldest(self) -> str | None:
        async with _away():
            found = await self._redis.xrange(STREAM, count=1)
        return _text(found[0][0]) if found else None

    async def trim(self, before_ms: int) -> None:
        async with _away():
            await self._redis.xtrim(STREAM, minid=before_ms, approximate=True)

    async def watch(self, wallets: Sequence[str], now: int) -> None:
        if not wallets:
            return
        async with _away():
            await self._redis.zadd(WALLETS, dict.fromkeys(wallets, now + _WALLET_SECONDS))
            await self._redis.zremrangebyscore(WALLETS, "-inf", now)

    async def watch_more(self, wallets: Sequence[str], now: int) -> bool:
        async with _away():
            given: list[Any] = [now, now + _WALLET_SECONDS, SUBSCRIBED_WALLETS_MAX, *wallets]
            return bool(await self._watch_more([WALLETS], given))

    async def watched(self, now: int) -> frozenset[str]:
        async with _away():
            found = await self._redis.zrevrangebyscore(WALLETS, "+inf", now, start=0, num=_WALLETS_MAX)
        return frozenset(_text(each) for each in found)


def _around_slot(event: SignalEvent) -> tuple[bytes, bytes]:
    """Return the stored form before and after its slot, so that the script can write another one."""
    # The slot is the fourth field and the first number: before it are three texts without quotes.
    head, _, tail = _encode_event(msgspec.structs.replace(event, slot=0)).partition(b'",0,')
    assert tail, event
    return head + b'",', b"," + tail


def _entry(row: Any) -> LogEntry:
    fields = {_text(name): value for name, value in row[1].items()}
    body = fields["b"]
    return entry_of(_text(row[0]), _text(fields["c"]), body if isinstance(body, bytes) else str(body).encode())


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


@asynccontextmanager
async def _away() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(_COMMAND_SECONDS_MAX):
            yield
    except (RedisError, OSError, TimeoutError) as error:
        raise SignalLogUnavailable(f"{type(error).__name__}: {error}") from error
