"""Keeps events in the database until the sink has taken them, so that each is told at least once.

Implements: interface, lifecycle events `deposit.credited` and `credits.expiring`. The transaction that writes a deposit
writes `deposit.credited`; a regular query writes `credits.expiring`, once for each batch. Decides nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol

import msgspec

from actors.accounts.account import SIGNATURE_BYTES
from actors.events import CreditsExpiring, DepositCredited
from actors.units import (
    Credits,
    Pubkey,
    Signature,
    Slot,
    UnixSeconds,
    UsdcUnits,
    VirtualShard,
    base58_text,
)

EXPIRING_SECONDS = 86_400  # Interface: a batch is within 24 hours of expiry.
DEPOSIT_CREDITED, CREDITS_EXPIRING = "deposit.credited", "credits.expiring"


class Announcement(NamedTuple):
    id: int
    event: DepositCredited | CreditsExpiring


class Outbox(Protocol):
    """All methods raise StoreUnavailable."""

    async def announce_expiring(self, shards: Sequence[VirtualShard], now_ms: int) -> None:
        """Write an event, once, for each batch that is within 24 hours of its expiry."""
        ...

    async def untold(self, shards: Sequence[VirtualShard], limit: int) -> list[Announcement]:
        """Events that the sink does not have yet, oldest first."""
        ...

    async def told(self, announcements: Sequence[int]) -> None:
        """Mark events that the sink has taken. Unmarked events are told again."""
        ...

    async def forget(self, before_ms: int) -> None:
        """Remove events that are marked as told and older than this."""
        ...


class PostgresOutbox:
    def __init__(self, reading: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._reading = reading

    async def announce_expiring(self, shards: Sequence[VirtualShard], now_ms: int) -> None:
        async with self._reading() as connection:
            await connection.execute(
                "SELECT accounts_announce_expiring($1, $2, $3)", list(shards), now_ms, now_ms // 1000 + EXPIRING_SECONDS
            )

    async def untold(self, shards: Sequence[VirtualShard], limit: int) -> list[Announcement]:
        async with self._reading() as connection:
            rows = await connection.fetch(
                "SELECT id, pubkey, kind, at_ms, body FROM account_events"
                " WHERE NOT told AND virtual_shard = ANY ($1) ORDER BY id LIMIT $2",
                list(shards),
                limit,
            )
        return [announcement(*row) for row in rows]

    async def told(self, announcements: Sequence[int]) -> None:
        async with self._reading() as connection:
            await connection.execute("UPDATE account_events SET told = true WHERE id = ANY ($1)", list(announcements))

    async def forget(self, before_ms: int) -> None:
        async with self._reading() as connection:
            await connection.execute("DELETE FROM account_events WHERE told AND at_ms < $1", before_ms)


def announcement(number: int, pubkey: bytes, kind: str, at_ms: int, body: str) -> Announcement:
    """From a row."""
    account, at = Pubkey(base58_text(pubkey)), UnixSeconds(at_ms // 1000)
    row = msgspec.json.decode(body)
    if kind == CREDITS_EXPIRING:
        return Announcement(
            number,
            CreditsExpiring(
                account, row["batch"], row["source"], Credits(row["remaining"]), UnixSeconds(row["expires_at"]), at
            ),
        )
    assert kind == DEPOSIT_CREDITED, kind
    return Announcement(number, deposit_credited(pubkey, row, bytes.fromhex(row["operation"]), at))


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
