"""Requests, accounts and groups that many tests of this context need."""

import hashlib

import msgspec

from actors.accounts.account import Account, Defaults, Event, Moment, Moved, Profile, ProfileSet, apply, new_account
from actors.accounts.core import decide_adjust
from actors.accounts.writes import Write
from actors.calls import HoldItem, HoldRequest, KeyProof, Proof, SettleRequest, WalletProof
from actors.units import routing_bytes

DEFAULTS = Defaults(requests_per_second=100, concurrency=64, hold_seconds=60, batch_seconds=365 * 86_400)
START_MS = 1_700_000_000_000
START = Moment(START_MS, 0)


def pubkey_of(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


ALICE, BOB = pubkey_of("alice"), pubkey_of("bob")


def operation(number: int) -> bytes:
    return b"replica1" + number.to_bytes(8, "big")


def later(moment: Moment, seconds: int) -> Moment:
    return Moment(moment.wall_ms + seconds * 1000, moment.steady + seconds)


def key_proof(pubkey: bytes = ALICE) -> KeyProof:
    return KeyProof(hashlib.sha256(b"key of " + pubkey).digest(), routing_bytes(pubkey))


def wallet_proof(pubkey: bytes, nonce: str) -> WalletProof:
    return WalletProof(pubkey, nonce, START_MS // 1000)


def hold(number: int, *ceilings: int, proof: Proof | None = None) -> HoldRequest:
    items = tuple(HoldItem("getBalance", ceiling) for ceiling in ceilings)
    return HoldRequest(operation(number), proof or key_proof(), items)


def settle(
    number: int, charged: int, *, ceiling: int | None = None, pubkey: bytes = ALICE, held_at: int = START_MS // 1000
) -> SettleRequest:
    top = charged if ceiling is None else ceiling
    return SettleRequest(operation(number), pubkey, 1, "getBalance", top, charged, 0 if charged else 3, held_at)


def take(account: Account, event: Event | None, group: Write | None = None, now_ms: int = START_MS) -> None:
    """An entry that was decided before the facts of earlier events were written gets its number anew."""
    if event is not None:
        if isinstance(event, Moved) and event.entry.seq != account.seq + 1:
            entry = msgspec.structs.replace(event.entry, seq=account.seq + 1)
            event = msgspec.structs.replace(event, entry=entry)
        apply(account, event)
        if group is not None:
            group.add(account, event, now_ms)


def opened(pubkey: bytes = ALICE, credits: int = 0, defaults: Defaults = DEFAULTS) -> Account:
    """An account with one batch of credits."""
    account = new_account(pubkey, Profile(created_at=START_MS // 1000), defaults)
    if credits:
        apply(account, decide_adjust(account, credits, "opening", b"opening", START))
    return account


def opening_group(account: Account, *events: Event, now_ms: int = START_MS) -> Write:
    """The group that makes a fresh account durable, with these events taken after it."""
    group = Write()
    for event in (ProfileSet(account.profile), *events):
        take(account, event, group, now_ms)
    group.cut({account.pubkey: account})
    return group


def group_of(account: Account, *events: Event) -> Write:
    group = Write()
    for event in events:
        take(account, event, group)
    group.cut({account.pubkey: account})
    return group
