"""Domain events for other contexts, and the port that receives them.

Implements: interface specification, "Lifecycle events". Pure vocabulary; the receiver delivers them.
"""

from dataclasses import dataclass
from typing import Protocol

from actors.units import Credits, Pubkey, Signature, Slot, UnixSeconds, UsdcUnits

LOW_BALANCE_CREDITS = Credits(1_000)  # Interface, "Low-credit flag".


@dataclass(frozen=True, slots=True)
class LowBalance:
    """The balance fell from at least 1,000 credits to below."""

    pubkey: Pubkey
    balance: Credits
    at: UnixSeconds


@dataclass(frozen=True, slots=True)
class ApiKeyRotated:
    pubkey: Pubkey
    key_prefix: str  # The first characters of the new key; never the key.
    at: UnixSeconds


@dataclass(frozen=True, slots=True)
class DepositCredited:
    """A deposit became credits. Emitted at least once: the same signature and transfer may come again."""

    pubkey: Pubkey
    signature: Signature
    transfer_index: int
    base_units: UsdcUnits
    credits: Credits
    bonus: Credits
    slot: Slot
    at: UnixSeconds


@dataclass(frozen=True, slots=True)
class CreditsExpiring:
    """A batch with remaining credits expires within 24 hours. Emitted at least once for each batch."""

    pubkey: Pubkey
    batch: int
    source: str
    remaining: Credits
    expires_at: UnixSeconds
    at: UnixSeconds


Event = LowBalance | ApiKeyRotated | DepositCredited | CreditsExpiring


class EventSink(Protocol):
    def emit(self, event: Event) -> None:
        """Accept the event without waiting. A sink with a full queue drops the event and counts the drop."""
        ...


class NullSink:
    """A sink that drops every event."""

    def emit(self, event: Event) -> None:
        del event
