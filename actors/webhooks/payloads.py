"""Makes the events that are delivered: of accounts, of transactions, of tests.

Implements: interface, "Lifecycle events"; decisions, "transaction-watch payload", "lifecycle payload",
"webhook test". Pure.
"""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import orjson

from actors.events import ApiKeyRotated, CreditsAnomaly, CreditsExpiring, DepositCredited, Event, LowBalance
from actors.units import usdc_text
from actors.webhooks.registrations import ANY_SUBJECT, SIGNAL_KINDS, WebhookFilter

_NAMES: Mapping[type, str] = {
    LowBalance: "low_balance",
    DepositCredited: "deposit.credited",
    CreditsExpiring: "credits.expiring",
    ApiKeyRotated: "api_key.rotated",
    CreditsAnomaly: "credits.anomaly",
}
_LOGS_BYTES_MAX = 32_768  # Nodes cut logs at 10 kB; this bounds what a faulty node may send.


class QueuedEvent(NamedTuple):
    """An event, for all webhooks that match. cause: unique for ever. body: the JSON that is delivered.

    kind None: for every webhook of this type and subject.
    """

    cause: str
    filter_type: str
    subject: str
    kind: str | None
    wallets: list[str] | None
    at_ms: int
    body: str
    mint: str | None = None
    program: str | None = None
    lamports: int | None = None
    is_free: bool = False


class FedSignal(Protocol):
    """An entry of the log of signals, as its reader gives it.

    cause: unique for ever, and the same for a signal and its corrections. is_first: no correction. body: as JSON.
    """

    @property
    def cursor(self) -> str: ...
    @property
    def cause(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def mint(self) -> str | None: ...
    @property
    def program(self) -> str: ...
    @property
    def accounts(self) -> Sequence[str]: ...
    @property
    def wallets(self) -> Sequence[str]: ...
    @property
    def lamports(self) -> int | None: ...
    @property
    def body(self) -> bytes: ...
    @property
    def is_first(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class WatchedTransaction:
    """A successful transaction. accounts: all that it names, lookup tables included; programs: those that it invoked.

    sol_transfers: {account, lamports}, token_transfers: {mint, owner, token_account, amount, decimals}: how each
    balance changed, signed; amounts of tokens are strings in base units.
    """

    signature: str
    slot: int
    block_time: int | None
    accounts: tuple[str, ...]
    programs: frozenset[str]
    fee: int
    logs: tuple[str, ...] = ()
    token_transfers: tuple[dict[str, Any], ...] = field(default=())
    sol_transfers: tuple[dict[str, Any], ...] = field(default=())


def lifecycle_event(number: int, event: Event) -> QueuedEvent:
    """The event of an account, for its lifecycle webhooks. number: in the outbox of accounts."""
    name = _NAMES[type(event)]
    body = {"event": name, "pubkey": event.pubkey, "at": event.at, "data": _data(event)}
    cause = f"account:{number}"
    text = orjson.dumps(body).decode()
    return QueuedEvent(cause, "lifecycle", event.pubkey, name, None, event.at * 1000, text, is_free=True)


def signal_event(signal: FedSignal, now_ms: int) -> QueuedEvent:
    """A signal, or a correction of one, which is free. A signal may have several: each has its place in the log."""
    cause = signal.cause if signal.is_first else f"{signal.cause}@{signal.cursor}"
    return QueuedEvent(
        # A filter of wallets is about the watched ones, and of other kinds about all accounts: as subscribeSignal's.
        *(cause, "signal", ANY_SUBJECT, signal.kind, list(signal.wallets or signal.accounts), now_ms),
        *(signal.body.decode(), signal.mint, signal.program, signal.lamports),
        is_free=not signal.is_first,
    )


def signal_gap_event(notice: bytes, now_ms: int) -> QueuedEvent:
    """Make the event of a missing part of the log, for every signal webhook; free. notice: as JSON."""
    cause = f"signal-gap:{hashlib.sha256(notice).hexdigest()[:32]}"
    return QueuedEvent(cause, "signal", ANY_SUBJECT, None, None, now_ms, notice.decode(), is_free=True)


def transaction_events(transaction: WatchedTransaction, watched: frozenset[str], now_ms: int) -> list[QueuedEvent]:
    """Make one event for each watched account of a transaction, and one for each watched program that it invoked."""
    touched = [name for name in dict.fromkeys(transaction.accounts) if name in watched]
    subjects = [(kind, name) for name in touched for kind in ("account", "my_account")]
    subjects += [("program", name) for name in sorted(transaction.programs) if name in watched]
    return [
        QueuedEvent(
            f"tx:{transaction.signature}:{kind}:{name}",
            kind,
            name,
            None,
            None,
            now_ms,
            orjson.dumps(_transaction_body(transaction, kind, name)).decode(),
        )
        for kind, name in subjects
    ]


def gap_events(watched: frozenset[str], from_slot: int, to_slot: int, now_ms: int) -> list[QueuedEvent]:
    """Make the notice that these slots were not read, for every webhook that watches the chain; free."""
    body = {"event": "gap", "from_slot": from_slot, "to_slot": to_slot, "reason": "these slots are too long ago"}
    return [
        QueuedEvent(
            *(f"gap:{from_slot}:{to_slot}:{kind}:{name}", kind, name, None, None, now_ms),
            orjson.dumps(body | {"filter_type": kind, "filter_value": name}).decode(),
            is_free=True,
        )
        for name in sorted(watched)
        for kind in ("account", "my_account", "program")
    ]


def example(found: WebhookFilter, pubkey: str, now: int) -> bytes:
    """Make the body of a test delivery: an invented event of this webhook's type."""
    if found.filter_type == "lifecycle":
        kind = (found.kinds or ("low_balance",))[0]
        return orjson.dumps({"event": kind, "pubkey": pubkey, "at": now, "data": {"balance": 999}, "test": True})
    if found.filter_type == "signal":
        kind = (found.kinds or SIGNAL_KINDS)[0]
        nothing = ("mint", "quote_asset", "curve_type", "complete")
        return orjson.dumps(
            {"kind": kind, "program": "1" * 32, "signature": "1" * 64, "slot": 0, "accounts": []}
            | dict.fromkeys(nothing)
            | {"test": True}
        )
    transaction = WatchedTransaction("1" * 64, 0, now, (found.subject,), frozenset(), 5_000)
    return orjson.dumps(_transaction_body(transaction, found.filter_type, found.subject) | {"test": True})


def _transaction_body(transaction: WatchedTransaction, filter_type: str, filter_value: str) -> dict[str, Any]:
    return {
        "event": "transaction",
        "filter_type": filter_type,
        "filter_value": filter_value,
        "signature": transaction.signature,
        "slot": transaction.slot,
        "block_time": transaction.block_time,
        "accounts": list(transaction.accounts),
        "fee": transaction.fee,
        "logs": _cut(transaction.logs),
        "token_transfers": list(transaction.token_transfers),
        "sol_transfers": list(transaction.sol_transfers),
    }


def _cut(logs: tuple[str, ...]) -> list[str]:
    kept: list[str] = []
    size = 0
    for line in logs:
        size += len(line)
        if size > _LOGS_BYTES_MAX:
            return [*kept, "Log truncated"]
        kept.append(line)
    return kept


def _data(event: Event) -> dict[str, Any]:
    """Return all fields but the account and the time."""
    data = dataclasses.asdict(event)
    del data["pubkey"], data["at"]
    if isinstance(event, DepositCredited):
        data["amount_base_units"] = data.pop("base_units")
        data["amount_usdc"] = usdc_text(event.base_units)
    return data
