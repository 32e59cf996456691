"""Answers of the gateway's own pages, as typed records. Fields of later versions are left out.

Implements: interface, "Resources and their fields". Credits are whole numbers, always. Pure.
"""

from typing import Any

import msgspec


class Funding(msgspec.Struct, frozen=True):
    asset: str
    network: str
    deposit_address: str
    credits_per_usdc: int
    credit_expiry_days: int
    network_name: str = ""  # For people; older gateways do not tell it.
    credit_expiry_seconds: int = 0
    attribution: str = ""  # Whose the credits of a transfer are.


class CreditBatch(msgspec.Struct, frozen=True):
    """A parcel of credits with an expiry (Unix seconds)."""

    id: str | int
    source: str
    credits: int
    remaining: int
    created_at: int
    expires_at: int


class Account(msgspec.Struct, frozen=True):
    """GET /account/info. balance: credits. runway: credits_an_hour, hours_left and expiring; None: not known.
    price_list: `public`, or the one that the operator gave to the account."""

    pubkey: str
    balance: int
    deposit_address: str
    funding: Funding
    status: str
    total_consumed_credits: int
    created_at: int
    last_deposit: dict[str, Any] | None = None
    credit_batches: list[CreditBatch] = []
    runway: dict[str, Any] | None = None
    credits_of_later_batches: int = 0
    price_list: str = "public"


class NamedKey(msgspec.Struct, frozen=True):
    """A key with limits of its own; None and empty: no limit of this kind. spent_today: in this day of UTC. held: by
    calls under way, which count as spent until they end. Times are ISO 8601."""

    id: int
    name: str
    prefix: str
    status: str
    created_at: str
    credits_a_day: int | None = None
    credits_total: int | None = None
    requests_per_second: int | None = None
    methods: list[str] = []
    origins: list[str] = []
    addresses: list[str] = []
    expires_at: str | None = None
    spent_today: int = 0
    spent_total: int = 0
    held: int = 0
    parent: int | None = None
    former_key_good_until: str | None = None


class LedgerEntry(msgspec.Struct, frozen=True):
    """amount: credits, signed. balance: after the entry. timestamp: ISO 8601, UTC.

    Of `Gateway.ledger_entries` also number: in the account's ledger, from 1; method, outcome, operation: of what it
    paid for; signature: of the transaction of a deposit or a send; request_id, digest: of the answer;
    cache: `hit` where it came from the gateway's cache; key: id of the named key that paid.
    """

    type: str
    amount: int
    balance: int
    description: str
    timestamp: str
    number: int = 0
    method: str | None = None
    outcome: str | None = None
    operation: str | None = None
    signature: str | None = None
    request_id: str | None = None
    digest: str | None = None
    cache: str | None = None
    key: int | None = None


class LoggedCall(msgspec.Struct, frozen=True):
    """One call of the last day (GET /account/calls).

    id: a place in the log. at: when it ended, ISO 8601, UTC. outcome: `result`, `node_error`, or a constant of the
    error table. ms: from the whole request to the answer. credits: posted by then. method: None: an unknown method.
    key: id of the named key that paid."""

    id: str
    at: str
    method: str | None
    outcome: str
    ms: float
    credits: int
    request_id: str
    key: int | None = None


class UsageEntry(msgspec.Struct, frozen=True):
    """One charged call of GET /account/history."""

    method: str | None
    credits: int
    timestamp: str


class UsageTotals(msgspec.Struct, frozen=True):
    calls: int
    credits: int


class UsageRow(msgspec.Struct, frozen=True):
    """method, hour, day, key: None where the question did not group by it. hour, day: ISO 8601, UTC. key: id of a named
    key; empty: the call was made by no named key."""

    calls: int
    credits: int
    method: str | None = None
    hour: str | None = None
    day: str | None = None
    key: str | None = None


class Usage(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    """GET /account/usage: charged calls of a time, grouped."""

    from_: str
    to: str
    by: list[str]
    rows: list[UsageRow]
    totals: UsageTotals


class QuotedCall(msgspec.Struct, frozen=True):
    """The price of one call. exact: False where the price depends on how the call ends. error: it would be refused."""

    id: Any = None
    method: str | None = None
    credits: int | None = None
    exact: bool | None = None
    reason: str | None = None
    error: Any = None


class Quote(msgspec.Struct, frozen=True):
    """POST /quote: what calls would cost. Nothing is carried out or charged."""

    credits: int
    exact: bool
    calls: list[QuotedCall] = []


class Confirmation(msgspec.Struct, frozen=True):
    """POST /account/confirm-deposit. credited_to: other wallets that the deposit was credited to, as they sent the
    tokens."""

    credits_added: int
    new_balance: int
    already_processed: bool
    credited_to: list[str] = []


class Bulk(msgspec.Struct, frozen=True):
    """The answer of a bulk look-up. Each item names its address, owner or signature; items of `errors` are free.
    slot: of all balances; None where they are of several slots."""

    results: list[dict[str, Any]]
    errors: list[dict[str, Any]] = []
    commitment: str = ""  # Of the whole answer; older gateways do not name it.
    slot: int | None = None


class Webhook(msgspec.Struct, frozen=True):
    """wallets: the watched ones, of signals. secret: only after creation, where it is shown once."""

    id: str
    url: str
    filter_type: str
    status: str
    filter_value: str | None = None
    lifecycle_events: list[str] | None = None
    signal_events: list[str] | None = None
    disabled_reason: str | None = None
    created_at: int | None = None
    last_delivery: dict[str, Any] | None = None
    secret: str | None = None
    wallets: list[str] = []

    def __repr__(self) -> str:
        return f"Webhook({self.id}, {self.filter_type}, {self.status})"
