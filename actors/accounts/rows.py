"""How a group and an account look as rows and JSON of the database.

Implements: the arguments of accounts_write() and accounts_write_entry() (functions.sql). Pure.
"""

from typing import Any

import msgspec

from actors.accounts import ledger
from actors.accounts.account import Deposit, Mark, Profile
from actors.accounts.credits import Batch, Source
from actors.accounts.ledger import Entry
from actors.accounts.writes import Head, Stored, Write
from actors.units import Credits, UnixSeconds


def entry_arguments(group: Write) -> tuple[Any, ...] | None:
    """The group as accounts_write_entry() takes it: one entry that moved credits of one batch. None: it has more."""
    if len(group.entries) != 1 or len(group.batches) != 1 or _has_rare(group):
        return None
    ((pubkey, entry, after),) = group.entries
    (head,) = group.heads
    (((_, number), remaining),) = group.batches.items()
    _, *moved = _entry_row(pubkey, entry, after)
    return (pubkey, head.seq_before, *moved, head.total_consumed, head.last_batch, number, remaining)


def group_arguments(group: Write) -> tuple[Any, ...]:
    """The group as accounts_write() takes it: the rare parts as JSON, then a list of rows for each type of row."""
    entries = [_entry_row(*entry) for entry in group.entries]
    lefts = [(*batch, remaining) for batch, remaining in group.batches.items()]
    rare = _rare(group) if _has_rare(group) or not entries else None  # The owner of what is rare is asked about by it.
    return rare, group.heads, entries, lefts


def _entry_row(pubkey: bytes, entry: Entry, after: bytes) -> tuple[Any, ...]:
    """As a row of the ledger. after: the head of the account's hash chain then."""
    return (
        pubkey,
        entry.at_ms,
        entry.seq,
        entry.type,
        entry.outcome,
        entry.amount,
        entry.balance,
        entry.operation,
        entry.method,
        entry.description,
        entry.parcels,
        after,
    )


def _has_rare(group: Write) -> bool:
    # A deposit makes a batch, and a return a mark.
    return bool(group.profiles or group.new_batches or group.marks or group.events)


def _rare(group: Write) -> str:
    profiles = [
        {
            "pubkey": pubkey.hex(),
            "virtual_shard": shard,
            "created_at": profile.created_at,
            "status": profile.status,
            "api_key_hash": None if profile.key_hash is None else profile.key_hash.hex(),
            "key_prefix": profile.key_prefix,
            "ref_code": profile.ref_code,
            "ref_bonus_bps": profile.ref_bonus_bps,
            "requests_per_second": profile.requests_per_second,
            "concurrency": profile.concurrency,
            "genesis": ledger.genesis(pubkey).hex(),
        }
        for pubkey, (shard, profile) in group.profiles.items()
    ]
    batches = [
        {
            "pubkey": pubkey.hex(),
            "id": batch.id,
            "source": batch.source,
            "credits": batch.credits,
            "created_at": batch.created_at,
            "expires_at": batch.expires_at,
        }
        for pubkey, batch in group.new_batches
    ]
    marks = [
        msgspec.structs.asdict(mark) | {"pubkey": pubkey.hex(), "operation": mark.operation.hex()}
        for pubkey, mark in group.marks
    ]
    parts: dict[str, Any] = {
        "shards": list(group.shards),
        "profiles": profiles,
        "batches": batches,
        "marks": marks,
    }
    if group.deposits:
        parts["deposits"] = [_deposit_row(pubkey, deposit) for pubkey, deposit in group.deposits]
    if group.events:
        parts["events"] = [
            told._asdict() | {"pubkey": told.pubkey.hex(), "subject": told.subject.hex()} for told in group.events
        ]
    if group.returns:
        parts["returns"] = [
            {
                "operation": returned.operation.hex(),
                "taken": returned.taken,
                "uncollected": returned.uncollected,
                "at_ms": returned.at_ms,
            }
            for _, returned in group.returns
        ]
    return msgspec.json.encode(parts).decode()


def _deposit_row(pubkey: bytes, deposit: Deposit) -> dict[str, Any]:
    return {
        "pubkey": pubkey.hex(),
        "operation": deposit.operation.hex(),
        "base_units": deposit.base_units,
        "credits_per_usdc": deposit.credits_per_usdc,
        "credits": deposit.credits,
        "bonus": deposit.bonus,
        "slot": deposit.slot,
        "at_ms": deposit.at_ms,
        "assigned": deposit.assigned,
    }


def read_deposit(text: str | None) -> Deposit | None:
    """accounts.last_deposit: the row above, as it was written."""
    if text is None:
        return None
    row = msgspec.json.decode(text)
    del row["pubkey"]
    return Deposit(**row | {"operation": bytes.fromhex(row["operation"])})


def stored_batch(row: Any) -> Batch:
    return Batch(
        row["id"],
        Source(row["source"]),
        Credits(row["credits"]),
        Credits(row["remaining"]),
        UnixSeconds(row["created_at"]),
        UnixSeconds(row["expires_at"]),
    )


def stored_account(row: Any, batches: list[Any], entries: list[Any], marks: list[Any], since_ms: int) -> Stored:
    profile = Profile(
        row["created_at"],
        row["status"],
        row["api_key_hash"],
        row["key_prefix"],
        row["ref_code"],
        row["requests_per_second"],
        row["concurrency"],
        row["ref_bonus_bps"],
    )
    head = Head(
        row["pubkey"],
        row["seq"],
        row["seq"],
        row["balance"],
        row["total_consumed"],
        row["last_batch"],
        row["last_ms"],
        row["head_hash"],
    )
    chained = [(Entry(*entry[:-1]), entry[-1]) for entry in map(tuple, entries)]
    recent = [pair for pair in chained if pair[0].at_ms >= since_ms] or chained[-1:]
    return Stored(
        profile,
        head,
        [stored_batch(batch) for batch in batches],
        recent,
        [Mark(*mark) for mark in marks],
        read_deposit(row["last_deposit"]),
    )
