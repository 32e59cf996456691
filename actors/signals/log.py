"""The signal log: what happened, in one order for all, each entry with its cursor. A port and its Redis store.

Implements: decisions, "one signal", "cursors and gaps"; threat 32.
The log is a Redis stream; a cursor is the id of its entry. A signal is written once, however often it is reported: a
script looks it up and writes it in one step, together with the position of the part whose classifier reports it. So a
classifier that is killed, or a Redis that lost its last second, resumes at a position that fits the log. positions.py
says how the work is divided into parts; a classifier whose part another one has claimed can write nothing.
When a fork takes a slot away, its signals get a correction: `removed`, or `moved` where another slot has the same
transaction. A removed signal that lands again is `restored`. Only the first report costs anything.

The scripts are in log_scripts.py. Decides nothing else; history.py keeps what leaves the stream.
"""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Protocol

import msgspec
from redis.asyncio import Redis
from redis.commands.core import AsyncScript
from redis.exceptions import RedisError

from actors.signals import log_scripts as scripts
from actors.signals.events import SignalEvent
from actors.signals.held_events import NO_OTHERS
from actors.signals.positions import SLICES, Claim, Division, arrange, begin, floors, read_division

STREAM, POSITIONS, EPOCHS = "signals:log", "signals:positions", "signals:epochs"
WALLETS, WEBHOOK_WALLETS = "signals:wallets", "signals:webhook_wallets"
BEGAN = "signals:began"  # Unix milliseconds since which this Redis has all data of signals; missing: it is empty.
_DIVISION = "division"  # The field of EPOCHS that says how the work is divided.
_SEEN = "signals:seen:"
SEEN_SECONDS = 24 * 3_600  # A transaction cannot land later than two minutes after it was first seen.
NO_CURSOR = "0-0"
_COMMAND_SECONDS_MAX = 5.0
_CURSOR = re.compile(r"(0|[1-9][0-9]{0,14})-(0|[1-9][0-9]{0,9})")
WALLET_SECONDS = 60
SUBSCRIBED_WALLETS_MAX = 10_000  # Limit for subscriptions.
_WEBHOOK_WALLETS_MAX = 5_000  # Additional; webhooks/commands.py refuses more.

_RESTORED_AT_ONCE = 500


class SignalLogUnavailable(Exception):
    """The log did not answer; the request may or may not have been carried out."""


class PositionLost(Exception):
    """Redis lost its last writes, which the caller knows. Claim the part again and resume there."""


class PartTaken(Exception):
    """Another classifier has claimed the caller's part; the caller may write nothing any more."""


class DivisionChanged(Exception):
    """The work was divided again: claim a part of the new division."""


class NothingToDo(Exception):
    """The division has no such part, or the part waits for the first one to begin. Ask again in a while."""


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


class Written(NamedTuple):
    """cursors: of each event, None where it was written before. others_reached: the slot that the slowest of the other
    parts has reached."""

    cursors: Sequence[str | None]
    others_reached: int = NO_OTHERS


_encode_event, _encode_gap = msgspec.json.Encoder().encode, msgspec.json.Encoder().encode
_event_decoder = msgspec.json.Decoder(SignalEvent)
_gap_decoder = msgspec.json.Decoder(SignalGap)


def parse_cursor(text: str) -> tuple[int, int] | None:
    """Parse a cursor. None: the text is no cursor."""
    if len(text) > 26 or _CURSOR.fullmatch(text) is None:
        return None
    milliseconds, _, number = text.partition("-")
    return int(milliseconds), int(number)


def cursor_key(text: str) -> tuple[int, int]:
    """Return the key by which cursors are compared."""
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
    async def division(self) -> Division | None:
        """Return how the work is divided now. None: nothing has been written yet, or all is lost."""
        ...

    async def divide(self, parts: int) -> Division:
        """Divide the work into so many parts from now on, where it is not so already. Owners of the parts of before can
        write nothing any more; the new parts begin where the slowest of them was."""
        ...

    async def claim(self, part: int, parts: int, known: Claim | None) -> Claim:
        """Take a part over from whichever classifier had it.

        parts: how many there are, where no division is stored. known: the claim that the caller had last, with the
        position that it remembers; the new claim begins there where the stored position is higher: reading again
        changes nothing. A division that is later than the stored one is stored again. Raises NothingToDo.
        """
        ...

    async def append(self, claim: Claim, position: int, reached: int, events: Sequence[SignalEvent]) -> Written:
        """Write the events that are new, the position of the part, and the slot that it has reached, in one step.

        Raises PositionLost when the stored division, epoch or position is below the claim's, DivisionChanged,
        PartTaken, and SignalLogUnavailable. So do the other two that take a claim.
        """
        ...

    async def correct(self, claim: Claim, lost_slot: int, events: Sequence[SignalEvent]) -> list[str]:
        """Write a correction for each of these events that were in a lost slot. Doing it again changes nothing."""
        ...

    async def report_gap(self, claim: Claim, gap: SignalGap) -> None:
        """Write that a range of slots could not be read, once for all parts, and move the position to its end."""
        ...

    async def is_whole(self) -> bool:
        """Return whether the log was begun and has not been lost since."""
        ...

    async def restore(self, positions: Mapping[str, int], entries: Sequence[LogEntry]) -> None:
        """Write entries that the log has lost, oldest first, with their cursors, and begin it.

        positions: fields for the division to come (positions.py). Doing it again changes nothing.
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
        """Remove entries older than this Unix time."""
        ...

    async def watch(self, wallets: Sequence[str], now: int, *, for_webhooks: bool = False) -> None:
        """Have the activity of these wallets reported for the next minute. for_webhooks: they take no place of
        subscriptions."""
        ...

    async def watch_more(self, wallets: Sequence[str], now: int, most: int = SUBSCRIBED_WALLETS_MAX) -> bool:
        """As `watch`, for a new subscription. False: subscriptions would watch more than `most` wallets, and these are
        not watched."""
        ...

    async def subscribed_wallets(self, now: int) -> int:
        """Return how many wallets subscriptions of all replicas watch."""
        ...

    async def watched(self, now: int) -> frozenset[str]: ...


class RedisSignalLog:
    def __init__(self, client: Redis, length_max: int = 200_000) -> None:
        self._redis, self._length_max = client, length_max
        self._append, self._correct, self._gap = (
            client.register_script(scripts.GUARD + each) for each in (scripts.APPEND, scripts.CORRECT, scripts.GAP)
        )
        self._claim, self._arrange, self._watch_more = map(
            client.register_script, (scripts.CLAIM, scripts.ARRANGE, scripts.WATCH_MORE)
        )
        self._restore, self._whole = client.register_script(scripts.RESTORE), client.register_script(scripts.WHOLE)

    async def division(self) -> Division | None:
        async with _away():
            stored = await self._redis.hget(EPOCHS, _DIVISION)
        return None if stored is None else read_division(_text(stored))

    async def divide(self, parts: int) -> Division:
        while (division := await self.division()) is None or division.parts != parts:
            await self._divide_anew(division, parts, 0)
        return division

    async def _divide_anew(self, stored: Division | None, parts: int, epoch: int) -> None:
        """Store another division, unless another process was faster. epoch: of a lost division; 0: a new one."""
        arranged = arrange(await self._positions(), parts)
        kept = [each for pair in arranged.floors.items() for each in pair]
        given: list[Any] = [
            "" if stored is None else stored.text,
            parts,
            epoch,
            len(arranged.positions),
            *arranged.positions,
        ]
        async with _away():
            await self._arrange([POSITIONS, EPOCHS], [*given, len(kept), *kept, *(() if stored else SLICES)])

    async def _positions(self) -> dict[str, str]:
        async with _away():
            return {_text(name): _text(value) for name, value in (await self._redis.hgetall(POSITIONS)).items()}

    async def claim(self, part: int, parts: int, known: Claim | None) -> Claim:
        division = await self.division()
        lost = Division(0, parts) if known is None else known.division
        if division is None or division.epoch < lost.epoch:
            await self._divide_anew(division, lost.parts, lost.epoch)
            division = await self.division()
        if division is None or part >= division.parts:
            raise NothingToDo(f"there is no part {part}")
        found = await self._positions()
        remembered = known.position if known is not None and known.division == division else 0
        async with _away():
            begins = begin(found, part, remembered, is_empty=not await self._redis.xlen(STREAM))
            if begins is None:
                raise NothingToDo("the first part has not begun")
            epoch = int(await self._claim([EPOCHS], [division.text, part]))
        if not epoch:
            raise DivisionChanged
        return Claim(division, part, epoch, begins.position, begins.is_lost, floors(found))

    async def append(self, claim: Claim, position: int, reached: int, events: Sequence[SignalEvent]) -> Written:
        given: list[Any] = [position, reached, SEEN_SECONDS, self._length_max]
        for event in events:
            given += [event.slot, _encode_event(event)]
        others, *cursors = await _guarded(self._append, claim, events, given)
        return Written([cursor or None for cursor in cursors], int(others) if others else NO_OTHERS)

    async def correct(self, claim: Claim, lost_slot: int, events: Sequence[SignalEvent]) -> list[str]:
        given: list[Any] = [lost_slot, SEEN_SECONDS, self._length_max]
        for event in events:
            body = _encode_event(msgspec.structs.replace(event, slot=lost_slot))
            given += [body, *_around_slot(event)]
        return await _guarded(self._correct, claim, events, given)

    async def report_gap(self, claim: Claim, gap: SignalGap) -> None:
        given = [gap.from_slot, gap.to_slot, self._length_max, _encode_gap(gap)]
        await _guarded(self._gap, claim, (), given)

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
            await self._whole([POSITIONS, EPOCHS, BEGAN], [each for pair in positions.items() for each in pair])

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


async def _guarded(script: AsyncScript, claim: Claim, events: Sequence[SignalEvent], given: Sequence[Any]) -> list[str]:
    """Run a script that begins with GUARD."""
    keys = [STREAM, POSITIONS, EPOCHS, *(seen_key(event) for event in events)]
    async with _away():
        found = await script(keys, [claim.division.text, claim.part, claim.epoch, claim.position, *given])
    answer = [_text(each) for each in found]
    match answer[0]:
        case "lost":
            raise PositionLost(answer[1])
        case "fenced":
            raise PartTaken(answer[1])
        case "moved":
            raise DivisionChanged(answer[1])
    return answer[1:]


def _around_slot(event: SignalEvent) -> tuple[bytes, bytes]:
    """Return the stored form before and after its slot, so that the script can insert another slot."""
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
