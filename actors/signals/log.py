"""The signal log: what happened, in one order for all, each entry with its cursor. A port and its Redis store.

Implements: decisions, "one signal", "cursors and gaps"; threat 32.
The log is a Redis stream; a cursor is the id of its entry. A signal is written once, however often it is reported: a
script looks it up and writes it in one step, together with the positions of the classifier that reports it. So a
classifier that is killed, or a Redis that lost its last second, resumes at a position that fits the log. positions.py
says which positions a classifier has; a classifier whose slices another one has claimed can write nothing.
When a fork takes a slot away, its signals get a correction: `removed`, or `moved` where another slot has the same
transaction. A removed signal that lands again is `restored`. Only the first report costs anything.

The scripts are in log_scripts.py. Decides nothing else; history.py keeps what leaves the stream.
"""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

import msgspec
from redis.asyncio import Redis
from redis.commands.core import AsyncScript
from redis.exceptions import RedisError

from actors.signals import log_scripts as scripts
from actors.signals.events import SignalEvent
from actors.signals.positions import Claim, SliceClaims, plan

STREAM, POSITIONS, EPOCHS = "signals:log", "signals:positions", "signals:epochs"
WALLETS, WEBHOOK_WALLETS = "signals:wallets", "signals:webhook_wallets"
BEGAN = "signals:began"  # Unix milliseconds since which this Redis has all data of signals; missing: it is empty.
_SEEN = "signals:seen:"
SEEN_SECONDS = 24 * 3_600  # A transaction cannot land again later than two minutes after it was first seen.
NO_CURSOR = "0-0"
_COMMAND_SECONDS_MAX = 5.0
_CURSOR = re.compile(r"(0|[1-9][0-9]{0,14})-(0|[1-9][0-9]{0,9})")
WALLET_SECONDS = 60
SUBSCRIBED_WALLETS_MAX = 10_000  # No subscription is taken that would make them more.
_WEBHOOK_WALLETS_MAX = 5_000  # Beside them; webhooks/commands.py refuses more.

_RESTORED_AT_ONCE = 500


class SignalLogUnavailable(Exception):
    """The log did not answer; what was asked may or may not have been done."""


class PositionLost(Exception):
    """The log is older than the caller: it lost what was written last. Claim the slices again and resume there."""


class SliceTaken(Exception):
    """Another classifier has claimed a slice of the caller, which may write nothing any more."""


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
    async def claim(self, slices: Sequence[str], known: Mapping[str, int]) -> SliceClaims:
        """Take these slices over from whichever classifier had them. known: positions that the caller remembers.

        A claim begins at the stored position, or at the known one where that is lower: reading again changes nothing.
        """
        ...

    async def append(self, claims: Sequence[Claim], position: int, events: Sequence[SignalEvent]) -> list[str | None]:
        """Write the events that are new, and move the positions of the claims, in one step.

        Returns the cursor of each event, None where it was written before. Raises PositionLost when a stored position
        or epoch is below the claim's, SliceTaken, and SignalLogUnavailable. So do the other two that take claims.
        """
        ...

    async def correct(self, claims: Sequence[Claim], lost_slot: int, events: Sequence[SignalEvent]) -> list[str]:
        """Write a correction for each of these events that were in a lost slot. Doing it again changes nothing."""
        ...

    async def report_gap(self, claims: Sequence[Claim], gap: SignalGap) -> None:
        """Write that a range of slots could not be read, and move the positions to its end."""
        ...

    async def is_whole(self) -> bool:
        """Return whether it was begun, and has not been lost since."""
        ...

    async def restore(self, positions: Mapping[str, int], entries: Sequence[LogEntry]) -> None:
        """Write entries that the log has lost, oldest first, with their cursors, and begin it.

        positions: for slices that have none. Doing it again changes nothing.
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

    async def watch(self, wallets: Sequence[str], now: int, *, for_webhooks: bool = False) -> None:
        """Have the activity of these wallets reported for the next minute. for_webhooks: they take no place of
        subscriptions."""
        ...

    async def watch_more(self, wallets: Sequence[str], now: int, most: int = SUBSCRIBED_WALLETS_MAX) -> bool:
        """As `watch`, for a new subscription. False: subscriptions would watch more than `most`, and these are not."""
        ...

    async def subscribed_wallets(self, now: int) -> int:
        """Return how many wallets are watched for subscriptions, of all replicas."""
        ...

    async def watched(self, now: int) -> frozenset[str]: ...


class RedisSignalLog:
    def __init__(self, client: Redis, length_max: int = 200_000) -> None:
        self._redis, self._length_max = client, length_max
        self._append, self._correct, self._gap = (
            client.register_script(scripts.GUARD + each) for each in (scripts.APPEND, scripts.CORRECT, scripts.GAP)
        )
        self._claim, self._watch_more = (
            client.register_script(scripts.CLAIM),
            client.register_script(scripts.WATCH_MORE),
        )
        self._restore, self._whole = client.register_script(scripts.RESTORE), client.register_script(scripts.WHOLE)

    async def claim(self, slices: Sequence[str], known: Mapping[str, int]) -> SliceClaims:
        async with _away():
            found = {_text(field): _text(slot) for field, slot in (await self._redis.hgetall(POSITIONS)).items()}
            planned = plan(found, slices, known, is_empty=not await self._redis.xlen(STREAM))
            given: list[Any] = [len(slices), *slices]
            for name, slot in planned.adopted.items():
                given += [name, slot]
            answer = [_text(each) for each in await self._claim([POSITIONS, EPOCHS], given)]
            if planned.dropped:
                await self._redis.hdel(POSITIONS, *planned.dropped)
        claims = []
        for name, stored, epoch in zip(slices, answer[::2], answer[1::2], strict=True):
            position = int(stored) if stored.isdigit() else 0
            claims.append(Claim(name, int(epoch), min(position, known.get(name) or position)))
        return SliceClaims(tuple(claims), planned.is_lost)

    async def append(self, claims: Sequence[Claim], position: int, events: Sequence[SignalEvent]) -> list[str | None]:
        given: list[Any] = [position, SEEN_SECONDS, self._length_max]
        for event in events:
            given += [event.slot, _encode_event(event)]
        return [cursor or None for cursor in await _guarded(self._append, claims, events, given)]

    async def correct(self, claims: Sequence[Claim], lost_slot: int, events: Sequence[SignalEvent]) -> list[str]:
        given: list[Any] = [lost_slot, SEEN_SECONDS, self._length_max]
        for event in events:
            body = _encode_event(msgspec.structs.replace(event, slot=lost_slot))
            given += [body, *_around_slot(event)]
        return await _guarded(self._correct, claims, events, given)

    async def report_gap(self, claims: Sequence[Claim], gap: SignalGap) -> None:
        await _guarded(self._gap, claims, (), [gap.to_slot, self._length_max, _encode_gap(gap)])

    async def is_whole(self) -> bool:
        async with _away():
            return bool(await self._redis.exists(BEGAN))

    async def restore(self, positions: Mapping[str, int], entries: Sequence[LogEntry]) -> None:
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
            await self._whole([POSITIONS, BEGAN], [each for pair in positions.items() for each in pair])

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

    async def watch(self, wallets: Sequence[str], now: int, *, for_webhooks: bool = False) -> None:
        if not wallets:
            return
        key = WEBHOOK_WALLETS if for_webhooks else WALLETS
        async with _away():
            await self._redis.zadd(key, dict.fromkeys(wallets, now + WALLET_SECONDS))
            await self._redis.zremrangebyscore(key, "-inf", now)

    async def watch_more(self, wallets: Sequence[str], now: int, most: int = SUBSCRIBED_WALLETS_MAX) -> bool:
        async with _away():
            return bool(await self._watch_more([WALLETS], [now, now + WALLET_SECONDS, most, *wallets]))

    async def subscribed_wallets(self, now: int) -> int:
        async with _away():
            return int(await self._redis.zcount(WALLETS, now, "+inf"))

    async def watched(self, now: int) -> frozenset[str]:
        found: list[Any] = []
        async with _away():
            for key, most in ((WALLETS, SUBSCRIBED_WALLETS_MAX), (WEBHOOK_WALLETS, _WEBHOOK_WALLETS_MAX)):
                found += await self._redis.zrevrangebyscore(key, "+inf", now, start=0, num=most)
        return frozenset(_text(each) for each in found)


async def _guarded(
    script: AsyncScript, claims: Sequence[Claim], events: Sequence[SignalEvent], given: Sequence[Any]
) -> list[str]:
    """Run a script that begins with GUARD."""
    keys = [STREAM, POSITIONS, EPOCHS, *(seen_key(event) for event in events)]
    async with _away():
        answer = [
            _text(each)
            for each in await script(keys, [len(claims), *(part for claim in claims for part in claim), *given])
        ]
    if answer[0] == "lost":
        raise PositionLost(answer[1])
    if answer[0] == "fenced":
        raise SliceTaken(answer[1])
    return answer[1:]


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
