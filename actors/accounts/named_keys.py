"""Named keys of one account: what each may do, what it has spent, and what it may still spend.

Implements: decisions, "Named keys"; money rules 1 and 3. Pure: times are arguments.
Budgets are exact to the credit: a key's spent and held credits never exceed them. The account's own key, its sessions
and its wallet have none of these limits. A `path` is a key and all keys that it was made from, itself first; a key's
spending counts for each of them. An empty path is no named key.

The day of a budget is a day of UTC by the ledger's time. A clock that was set back begins no day again.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address, ip_network
from itertools import pairwise
from typing import NamedTuple

import msgspec

from actors.accounts.rate_window import Window
from actors.calls import KeyProof
from actors.methods.catalog import METHODS
from actors.methods.prices import BULK as BULK_ROWS
from actors.methods.prices import MethodClass

KEYS_MAX = 100  # Keys that a wallet has made for one account, without deleted ones.
# All keys of an account, including deleted ones, are loaded with it, in a few milliseconds. Children have a separate
# limit, and those of one key half of it: a thief of one key must not stop the wallet from making others.
KEYS_EVER_MAX, CHILDREN_MAX, CHILDREN_OF_ONE_MAX = 1_000, 3_000, 1_500
LISTED_MAX = 200  # Keys in one answer.
NAME_MAX, LIST_MAX, ORIGIN_MAX = 64, 100, 200
GRACE_SECONDS_MAX = 86_400
DAY_MS = 86_400_000
CREDITS_MAX, PER_SECOND_MAX = 10**15, 1_000_000
ACTIVE, FROZEN, DELETED = "active", "frozen", "deleted"
# Classes in addition to those of methods/prices.py.
ACCOUNT, STREAMS, BULK, RELAY = "ACCOUNT", "STREAMS", "BULK", "RELAY"
UNLIMITED = 1 << 62
# Names that `methods` may contain. Streams are named only by their class, because an open stream is charged under other
# names later.
METHOD_NAMES = frozenset(
    (*METHODS, *(row.name for row in BULK_ROWS), *(one.value for one in MethodClass if one is not MethodClass.DENIED))
) | {ACCOUNT, STREAMS, BULK, RELAY}


class KeyLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """Limits of a key. None and empty: no limit of this kind.

    methods: names of methods and classes. origins: values of the header. addresses: client addresses or networks.
    expires_at: Unix seconds."""

    credits_a_day: int | None = None
    credits_total: int | None = None
    requests_per_second: int | None = None
    methods: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    expires_at: int | None = None


class KeyProfile(msgspec.Struct, frozen=True, gc=False):
    """A named key as stored. number: from 1 in its account, never reused. limits: JSON of KeyLimits. old_hash: of the
    text before the last rotation, good until old_until (Unix seconds). parent: number of the key it was made from; 0:
    of none.

    public: checks the signatures of keys made from it (child_keys.py); old_public: of the text before. For a child:
    signed_by: public key of its parent at that time. block: its id.
    """

    number: int
    name: str
    key_hash: bytes
    key_prefix: str
    limits: str
    created_at: int
    status: str = ACTIVE
    old_hash: bytes | None = None
    old_until: int = 0
    parent: int = 0
    public: bytes | None = None
    old_public: bytes | None = None
    signed_by: bytes | None = None
    block: bytes | None = None


class KeySpending(NamedTuple):
    """Spent credits, less refunds. day: since 1970, the day of in_day."""

    total: int = 0
    day: int = 0
    in_day: int = 0


class StoredKey(NamedTuple):
    profile: KeyProfile
    spending: KeySpending


@dataclass(slots=True)
class NamedKey:
    """A key in memory. held: ceilings of its live holds, which count as spent until they end."""

    profile: KeyProfile
    total: int = 0
    day: int = 0
    in_day: int = 0
    held: int = 0
    window: Window = field(default_factory=Window)
    _limits: KeyLimits | None = field(default=None, compare=False)

    @property
    def limits(self) -> KeyLimits:
        """Return the limits, parsed at first use: an account may have thousands of keys, and few are in use."""
        if self._limits is None:
            self._limits = read_limits(self.profile.limits)
        return self._limits

    def change(self, profile: KeyProfile) -> None:
        self.profile, self._limits = profile, None

    @property
    def spending(self) -> KeySpending:
        return KeySpending(self.total, self.day, self.in_day)

    def room(self, day: int) -> int:
        """Return the credits that may still be held on this day."""
        limits, left = self.limits, UNLIMITED
        if limits.credits_total is not None:
            left = limits.credits_total - self.total
        if limits.credits_a_day is not None:
            left = min(left, limits.credits_a_day - (self.in_day if day <= self.day else 0))
        return max(0, left - self.held) if left < UNLIMITED else UNLIMITED

    def spend(self, credits: int, day: int) -> None:
        """Add spent credits; below 0: a refund. day: on which they count as spent."""
        if credits > 0 and day > self.day:
            self.day, self.in_day = day, 0
        self.total += credits
        if credits > 0 or day == self.day:
            self.in_day += credits
        assert self.total >= 0 and self.in_day >= 0, self

    def units_left(self, second: int) -> int:
        limit = self.limits.requests_per_second
        return UNLIMITED if limit is None else self.window.left(second, limit)


Path = tuple[NamedKey, ...]
NO_PATH: Path = ()


def number_of(path: Path) -> int:
    return path[0].profile.number if path else 0


def new_key(stored: StoredKey) -> NamedKey:
    return NamedKey(stored.profile, *stored.spending)


def read_limits(text: str) -> KeyLimits:
    return msgspec.json.decode(text, type=KeyLimits)


def write_limits(limits: KeyLimits) -> str:
    fields = (field.name for field in msgspec.structs.fields(KeyLimits))
    return msgspec.json.encode(KeyLimits(*(getattr(limits, name) for name in fields))).decode()


@dataclass(slots=True)
class Keys:
    """The named keys of one account, including deleted ones."""

    by_number: dict[int, NamedKey] = field(default_factory=dict)
    by_hash: dict[bytes, NamedKey] = field(default_factory=dict)
    by_block: dict[bytes, NamedKey] = field(default_factory=dict)  # Children, by their block.
    by_root: dict[bytes, NamedKey] = field(default_factory=dict)  # Keys that a wallet made, by public key.
    # Number of children, by the number of the wallet's key that they descend from.
    children: Counter[int] = field(default_factory=Counter)

    def __bool__(self) -> bool:
        return bool(self.by_number)

    @property
    def last_number(self) -> int:
        return len(self.by_number)  # Numbers start at 1 and have no gaps.

    def set(self, profile: KeyProfile) -> None:
        """Add or change a key. Its spending stays."""
        key = self.by_number.get(profile.number)
        if key is None:
            self.put(new_key(StoredKey(profile, KeySpending())))
            return
        for known in (key.profile.key_hash, key.profile.old_hash):
            self.by_hash.pop(known or b"", None)
        for known in (key.profile.public, key.profile.old_public):
            self.by_root.pop(known or b"", None)
        key.change(profile)
        self.put(key)

    def put(self, key: NamedKey) -> None:
        if key.profile.parent and key.profile.number not in self.by_number:
            self.children[self._root_of(key)] += 1
        self.by_number[key.profile.number] = key
        self.by_hash[key.profile.key_hash] = key
        if key.profile.old_hash is not None:
            self.by_hash[key.profile.old_hash] = key
        if key.profile.block is not None:
            self.by_block[key.profile.block] = key
            return
        for public in (key.profile.public, key.profile.old_public):
            if public is not None:
                self.by_root[public] = key

    def _root_of(self, key: NamedKey) -> int:
        """Return the wallet's key that this key descends from. A parent has a lower number, so it is already here."""
        above = self.path(key.profile.parent)
        return above[-1].profile.number if above else 0

    def has_room(self, root: NamedKey, count: int) -> bool:
        """Return whether this many more keys may be made from this one."""
        of_one = self.children[root.profile.number]
        return of_one + count <= CHILDREN_OF_ONE_MAX and self.children.total() + count <= CHILDREN_MAX

    def path(self, number: int) -> Path:
        """Return the key with this number and those it was made from. Empty: number 0, or an unknown key."""
        if not number:
            return NO_PATH
        found: list[NamedKey] = []
        while number:
            key = self.by_number.get(number)
            if key is None:
                break
            found.append(key)
            number = key.profile.parent
        return tuple(found)

    def hold(self, number: int, credits: int) -> None:
        """Add held credits to this key and all that it was made from; below 0: a hold has ended."""
        for key in self.path(number):
            key.held += credits

    def admit(self, number: int, second: int, units: int, credits: int) -> None:
        """A request of this key takes units of this second, and credits are held for it."""
        for key in self.path(number):
            if units:
                key.window.take(second, units)
            key.held += credits

    def spend(self, number: int, credits: int, day: int) -> None:
        for key in self.path(number):
            key.spend(credits, day)

    def check(self, holds: Iterable[tuple[int, int]]) -> None:
        """Check the sums. holds: number of the key and ceiling of each live hold of the account."""
        held: dict[int, int] = {}
        for number, ceiling in holds:
            for key in self.path(number):
                held[key.profile.number] = held.get(key.profile.number, 0) + ceiling
        for number, key in self.by_number.items():
            assert key.held == held.get(number, 0), (number, key)


def keys_of(stored: Iterable[StoredKey]) -> Keys:
    keys = Keys()
    for one in stored:
        keys.put(new_key(one))
    return keys


# --- what a key may do --------------------------------------------------------------------------------------------


def may_use(path: Path, proof: object, now: int) -> bool:
    """Return whether this credential of the first key is valid: no key of its path is frozen, deleted or expired, and
    all allow the request's origin and address. ⏎ proof: the origin and address of a ProvenProof were checked before."""
    for key in path:
        profile, limits = key.profile, key.limits
        if profile.status != ACTIVE or (limits.expires_at is not None and limits.expires_at <= now):
            return False
        if isinstance(proof, KeyProof):
            if limits.origins and proof.origin not in limits.origins:
                return False
            if limits.addresses and not _is_within(proof.address, limits.addresses):
                return False
    for key, parent in pairwise(path):
        if not may_sign(parent, key.profile.signed_by, now):
            return False
    if isinstance(proof, KeyProof) and path and proof.key_hash == path[0].profile.old_hash:
        return now < path[0].profile.old_until
    return True


def may_sign(key: NamedKey, public: bytes | None, now: int) -> bool:
    """Return whether signatures of this public key of the key are accepted: it belongs to the present text, or to the
    text before the last rotation during its grace time."""
    profile = key.profile
    return public == profile.public or (public == profile.old_public and now < profile.old_until)


@lru_cache(4_096)  # Cached, because every call asks and few clients use a key.
def _is_within(address: str, networks: tuple[str, ...]) -> bool:
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    return any(parsed in ip_network(network) for network in networks)


def may_call(path: Path, method: str) -> bool:
    """Return whether the keys allow this method. method: as the ledger names it."""
    for key in path:
        allowed = key.limits.methods
        if allowed and method not in allowed and class_of(method) not in allowed:
            return False
    return True


def may_read(path: Path) -> bool:
    """Return whether the account's pages may be shown: ledger, usage, receipts and the like."""
    return all(not key.limits.methods or ACCOUNT in key.limits.methods for key in path)


def class_of(method: str) -> str:
    """Return the class of a method, as `GET /pricing` names it. For other charges: STREAMS, BULK or RELAY."""
    row = METHODS.get(method)
    if row is not None:
        return row.method_class.value
    if method.startswith("bulk/"):
        return BULK
    return RELAY if method.startswith("relay/") else STREAMS


def room_of(path: Path, day: int) -> int:
    """Return the credits that may still be held for the first key of a path on this day; UNLIMITED for an empty
    path."""
    return min((key.room(day) for key in path), default=UNLIMITED)


def budget_of(path: Path, day: int) -> int:
    """As room_of, but including held credits."""
    return min((key.room(day) + key.held for key in path), default=UNLIMITED)


def units_left_of(path: Path, second: int) -> int:
    return min((key.units_left(second) for key in path), default=UNLIMITED)


def rate_limit_of(path: Path, limit: int) -> int:
    """Return the narrowest rate limit. limit: of the account."""
    limits = (key.limits.requests_per_second for key in path)
    return min((one for one in limits if one is not None), default=limit)


# --- what an owner may set ----------------------------------------------------------------------------------------


def mistake_in_limits(limits: KeyLimits) -> str | None:
    """Return a sentence on what is wrong with the limits of a key, or None."""
    for name in ("credits_a_day", "credits_total"):
        value = getattr(limits, name)
        if value is not None and not 0 <= value <= CREDITS_MAX:
            return f"{name} must be 0 to {CREDITS_MAX} credits, or null"
    if limits.requests_per_second is not None and not 1 <= limits.requests_per_second <= PER_SECOND_MAX:
        return f"requests_per_second must be 1 to {PER_SECOND_MAX}, or null"
    if limits.expires_at is not None and not 0 < limits.expires_at < 1 << 40:
        return "expires_at must be a time in Unix seconds, or null"
    for name in ("methods", "origins", "addresses"):
        listed: tuple[str, ...] = getattr(limits, name)
        if len(listed) > LIST_MAX or len(set(listed)) < len(listed):
            return f"{name} must be a list of at most {LIST_MAX} texts, each once"
    for method in limits.methods:
        if method not in METHOD_NAMES:
            return f"methods names {method[:80]!r}, which is neither a method nor a class of GET /pricing"
    for origin in limits.origins:
        if len(origin) > ORIGIN_MAX or not origin.isascii() or "://" not in origin or origin.endswith("/"):
            return f"origins names {origin[:80]!r}; an origin is scheme, host and port, as https://app.example"
    for network in limits.addresses:
        try:
            ip_network(network)
        except ValueError:
            return f"addresses names {network[:80]!r}, which is neither an address nor a network"
    return None


def mistake_in_name(name: str) -> str | None:
    if not 1 <= len(name) <= NAME_MAX or not name.isprintable() or name != name.strip():
        return f"name must be 1 to {NAME_MAX} printable characters, with no space around it"
    return None
