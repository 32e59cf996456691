"""Facts about accounts that change rarely: entries of their ledgers that move no credits.

Implements: money rule 6; decisions, "One chain of facts"; threat 56 (an account removed whole; a changed expiry, key
hash, limit or bonus). Pure. A fact's entry stands in the group that makes it true, so one hash chain, and the signed
statements over it, have all of an account.

Facts about referral codes, which are no account's, are a chain of their own that the database appends to
(functions.sql), as are facts that owners of release 0.1.0 wrote; this module recomputes those chains for the audit.
"""

import hashlib
from collections.abc import Mapping, Sequence
from enum import StrEnum, unique
from typing import Any, NamedTuple

import msgspec

from actors.accounts.account import Account, Event, Moved, NamedKeySet, ProfileSet
from actors.accounts.hourly_limit import HourlyLimitSet
from actors.accounts.ledger import Entry, EntryType, FactTold
from actors.accounts.price_list import PriceListSet
from actors.units import routing_bytes, virtual_shard

REFERRALS = -1  # Takes the place of a shard number in facts about referral codes.


@unique
class FactKind(StrEnum):
    """Kind of a fact. The words are stored in the database."""

    ACCOUNT = "account"  # Opened, or its profile changed.
    BATCH = "batch"
    DEPOSIT = "deposit"
    RETURN = "return"  # A deposit was taken back.
    REFERRAL = "referral"
    KEY = "key"  # A named key was made or changed.
    HOURLY_LIMIT = "hourly_limit"
    CUT = "cut"  # A month was detached from the ledger; belongs to no account (months/detaching.py).
    PRICE_LIST = "price_list"
    WEBHOOK = "webhook"  # A fact of another context, recorded by a command (fact_commands.py).


def facts_of(event: Event) -> Sequence[tuple[FactKind, dict[str, Any]]]:
    """Return the facts that an event makes true, with the values that the tables then have; most events have none."""
    if type(event) is Moved:
        if event.fresh is None and event.returned is None:
            return ()
        return _facts_of_move(event)
    if type(event) is ProfileSet:
        profile = event.profile
        return [
            (
                FactKind.ACCOUNT,
                {
                    "created_at": profile.created_at,
                    "status": profile.status,
                    "api_key_hash": _hex(profile.key_hash),
                    "key_prefix": profile.key_prefix,
                    "ref_code": profile.ref_code,
                    "ref_bonus_bps": profile.ref_bonus_bps,
                    "requests_per_second": profile.requests_per_second,
                    "concurrency": profile.concurrency,
                },
            )
        ]
    if type(event) is NamedKeySet:
        row = msgspec.structs.asdict(event.profile)
        return [(FactKind.KEY, {name: _hex(value) if type(value) is bytes else value for name, value in row.items()})]
    if type(event) is HourlyLimitSet:
        return [(FactKind.HOURLY_LIMIT, msgspec.structs.asdict(event.setting))]
    if type(event) is PriceListSet:
        return [(FactKind.PRICE_LIST, {"name": event.name})]
    return ()


def _facts_of_move(event: Moved) -> list[tuple[FactKind, dict[str, Any]]]:
    found: list[tuple[FactKind, dict[str, Any]]] = []
    batch, deposit, returned = event.fresh, event.deposit, event.returned
    if batch is not None:
        names = ("id", "source", "credits", "created_at", "expires_at")
        found.append((FactKind.BATCH, {name: getattr(batch, name) for name in names}))
    if deposit is not None:
        found.append((FactKind.DEPOSIT, msgspec.structs.asdict(deposit) | {"operation": deposit.operation.hex()}))
    if returned is not None:
        body = {"returned_ms": returned.at_ms, "taken": returned.taken, "uncollected": returned.uncollected}
        found.append((FactKind.RETURN, {"operation": returned.operation.hex(), **body}))
    return found


def fact_entry(account: Account, kind: FactKind, body: Mapping[str, Any], now_ms: int) -> FactTold:
    """Make the account's next entry, which records a fact. now_ms: the ledger's time, never earlier than the entry
    before."""
    text = msgspec.json.encode(body).decode()
    at_ms, balance = max(now_ms, account.last_ms), account.purse.balance
    return FactTold(Entry(account.seq + 1, at_ms, int(EntryType.FACT), 0, balance, b"", kind.value, 0, text, ""))


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


class Fact(NamedTuple):
    virtual_shard: int
    seq: int  # Sequence number in its shard, from 1 without gaps.
    kind: str
    pubkey: bytes
    body: str


def genesis(shard: int) -> bytes:
    """Return the hash before the first fact of a shard."""
    return hashlib.sha256(f"ledger-gateway shard {shard}".encode()).digest()


def chain(head: bytes, fact: Fact) -> bytes:
    """Return the hash after this fact. Unambiguous: only the body, which comes last, can contain a comma."""
    return hashlib.sha256(head + f"{fact.seq},{fact.kind},{fact.pubkey.hex()},{fact.body}".encode()).digest()


def name_of(shard: int) -> str:
    return "referral codes" if shard == REFERRALS else f"shard {shard}"


class ChainLink(NamedTuple):
    """The newest link of a chain: a fact of a shard, or an entry of an account."""

    seq: int
    hash: bytes


FAULTS_MAX = 10  # Faults reported for one shard; more would tell nothing new.


class ShardRecount:
    """Recomputes the chain of one shard from its facts, fed one by one and not kept."""

    def __init__(self, shard: int, then: ChainLink | None = None) -> None:
        """then: the newest fact when a checkpoint was written."""
        self._shard, self._then = shard, then
        self._newest = ChainLink(0, genesis(shard))
        self._faults: list[str] = []

    def feed(self, fact: Fact, stored_hash: bytes) -> None:
        """Check the next fact; facts come in the order of their numbers."""
        if fact.seq != self._newest.seq + 1:
            self._fault(f"fact {fact.seq} follows fact {self._newest.seq}: facts were removed")
        if chain(self._newest.hash, fact) != stored_hash:
            self._fault(f"fact {fact.seq} breaks the hash chain: it is not what was written, or stands elsewhere")
        if self._shard != (virtual_shard(routing_bytes(fact.pubkey)) if fact.pubkey else REFERRALS):
            self._fault(f"fact {fact.seq} is about an account of another shard")
        self._newest = ChainLink(fact.seq, stored_hash)
        if self._then is not None and self._then.seq == fact.seq and self._then.hash != stored_hash:
            self._fault(f"fact {fact.seq} has another hash than at the checkpoint: the chain was written anew")

    def close(self, newest: ChainLink) -> list[str]:
        """Compare with the newest fact that the shard's row names. Returns the faults."""
        if newest != self._newest:
            self._fault(f"its newest fact is said to be number {newest.seq}, and is number {self._newest.seq}")
        if self._then is not None and self._then.seq > self._newest.seq:
            self._fault(f"it had {self._then.seq} facts at the checkpoint, and has {self._newest.seq}")
        return self._faults

    def _fault(self, text: str) -> None:
        if len(self._faults) < FAULTS_MAX:
            self._faults.append(text)


def differences(stored: Mapping[str, Any] | None, told: Mapping[str, Any] | None, what: str) -> list[str]:
    """Sentences on how a row differs from the newest fact about it. what: the row's name in them."""
    if stored is None:
        return [f"{what} is gone: the facts have it"]
    if told is None:
        return [f"{what} is there, and no fact tells of it"]
    names = sorted(stored.keys() | told.keys())
    return [
        f"{what}: {name} is {stored.get(name)!r}, by the facts {told.get(name)!r}"
        for name in names
        if stored.get(name) != told.get(name)
    ]
