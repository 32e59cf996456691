"""Domain events of accounts, which are written together with their causes; webhooks deliver them.

Implements: interface, "Lifecycle events". Pure vocabulary.
"""

from dataclasses import dataclass

from actors.units import Credits, Pubkey, Signature, Slot, UnixSeconds, UsdcUnits

LOW_BALANCE_CREDITS = Credits(1_000)  # Interface, "Low-credit flag".


@dataclass(frozen=True, slots=True)
class LowBalance:
    """The balance fell from at least 1,000 credits to below, for the first time since credits were added."""

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
    """A deposit became credits."""

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
    """A batch with remaining credits expires within 24 hours."""

    pubkey: Pubkey
    batch: int
    source: str
    remaining: Credits
    expires_at: UnixSeconds
    at: UnixSeconds


@dataclass(frozen=True, slots=True)
class CreditsAnomaly:
    """The account spends more in this hour than it should: it is slowed, or stopped. basis: whether its wallet has set
    the limit (`set`) or it was `learnt`."""

    pubkey: Pubkey
    stage: str
    spent: Credits
    credits_an_hour: Credits
    basis: str
    at: UnixSeconds


Event = LowBalance | ApiKeyRotated | DepositCredited | CreditsExpiring | CreditsAnomaly
