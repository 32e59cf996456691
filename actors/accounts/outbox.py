"""Keeps events in the database until the event consumer takes each of them once.

Implements: interface, lifecycle events. The transaction that writes a cause writes its event (functions.sql); a regular
query writes `credits.expiring`, once for each batch. The consumer marks events as taken in the transaction in which it
stores them itself, so that no kill loses or doubles one. Decides nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol

import msgspec

from actors.accounts.account import SIGNATURE_BYTES
from actors.events import ApiKeyRotated, CreditsAnomaly, CreditsExpiring, DepositCredited, Event, LowBalance
from actors.units import Credits, Pubkey, Signature, Slot, UnixSeconds, UsdcUnits, VirtualShard, base58_text

EXPIRING_SECONDS = 86_400  # The interface says: within 24 hours of expiry.
LOW_BALANCE, DEPOSIT_CREDITED = "low_balance", "deposit.credited"
CREDITS_EXPIRING, KEY_ROTATED, ANOMALY = "credits.expiring", "api_key.rotated", "credits.anomaly"
_TAKE = (
    "UPDATE account_events SET told = true WHERE id IN (SELECT id FROM account_events WHERE NOT told"
    " ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED) RETURNING id, pubkey, kind, at_ms, body"
)


class Announcement(NamedTuple):
    id: int
    event: Event


class Outbox(Protocol):
    """Stores events. All methods raise StoreUnavailable."""

    async def announce_expiring(self, shards: Sequence[VirtualShard], now_ms: int) -> None:
        """Write an event, once, for each batch that is within 24 hours of its expiry."""
        ...

    async def take(self, limit: int) -> list[Announcement]:
        """Return events that nobody has taken yet, oldest first, and mark them as taken."""
        ...

    async def forget(self, before_ms: int) -> None:
        """Remove taken events that are older than this."""
        ...


class PostgresOutbox:
    def __init__(self, reading: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._reading = reading

    async def announce_expiring(self, shards: Sequence[VirtualShard], now_ms: int) -> None:
        async with self._reading() as connection:
            await connection.execute(
                "SELECT accounts_announce_expiring($1, $2, $3)", list(shards), now_ms, now_ms // 1000 + EXPIRING_SECONDS
            )

    async def take(self, limit: int) -> list[Announcement]:
        async with self._reading() as connection:
            return await take_events(connection, limit)

    async def forget(self, before_ms: int) -> None:
        async with self._reading() as connection:
            await connection.execute("DELETE FROM account_events WHERE told AND at_ms < $1", before_ms)


async def take_events(connection: Any, limit: int) -> list[Announcement]:
    """Take events in the connection's transaction; they count as taken once the caller commits it."""
    rows = await connection.fetch(_TAKE, limit)
    return [announcement(*row) for row in sorted(rows)]


def announcement(number: int, pubkey: bytes, kind: str, at_ms: int, body: str) -> Announcement:
    """Make an announcement from a row."""
    account, at = Pubkey(base58_text(pubkey)), UnixSeconds(at_ms // 1000)
    row = msgspec.json.decode(body)
    event: Event
    match kind:
        case "credits.expiring":
            remaining, expires_at = Credits(row["remaining"]), UnixSeconds(row["expires_at"])
            event = CreditsExpiring(account, row["batch"], row["source"], remaining, expires_at, at)
        case "low_balance":
            event = LowBalance(account, Credits(row["balance"]), at)
        case "api_key.rotated":
            event = ApiKeyRotated(account, row["key_prefix"], at)
        case "credits.anomaly":
            spent, limit = Credits(row["spent"]), Credits(row["credits_an_hour"])
            event = CreditsAnomaly(account, row["stage"], spent, limit, row["basis"], at)
        case _:
            assert kind == DEPOSIT_CREDITED, kind
            event = deposit_credited(pubkey, row, bytes.fromhex(row["operation"]), at)
    return Announcement(number, event)


def deposit_credited(pubkey: bytes, row: Mapping[str, Any], operation: bytes, at: UnixSeconds) -> DepositCredited:
    signature, index = operation[:SIGNATURE_BYTES], operation[SIGNATURE_BYTES:]
    return DepositCredited(
        Pubkey(base58_text(pubkey)),
        Signature(base58_text(signature)),
        int.from_bytes(index, "big"),
        UsdcUnits(row["base_units"]),
        Credits(row["credits"]),
        Credits(row["bonus"]),
        Slot(row["slot"]),
        at,
    )
