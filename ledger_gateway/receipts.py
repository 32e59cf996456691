"""Checks receipts: that entries of an account's ledger are what the gateway has signed, and that one continues another.

Implements: decisions, "Signed roots". Pure: needs the receipts and the gateway's published keys, and
asks nobody. Not here: making receipts, which the gateway does.
"""

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import base58
import msgspec
from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

TYPES = ("deposit", "bonus", "debit", "refund", "adjustment", "expiry", "fact")
OUTCOMES = ("answered", "upstream_error", "client_gone", "released")
_STATEMENT = re.compile(
    r"ledger-gateway statement 1\nseries \d+\nnumber \d+\nat_ms (\d+)\nprevious [0-9a-f]{64}\naccounts (\d+)\n"
    r"entries \d+\nroot ([0-9a-f]{64})\n",
    re.ASCII,
)


KEY_SLACK_MS = 60_000  # The gateway's owners take a change of keys over within a minute.


class NotProven(ValueError):
    """A receipt is invalid. The message says why."""


_KEY = re.compile(r"\|[0-9]{1,9}$")


class ReceiptEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that the hash of an entry covers. type, outcome: places in TYPES and OUTCOMES. amount: signed credits.
    balance: after the entry. parcels: what it took from or gave to which batch, as `3:-25 4:10`.

    description: of a debit, the request's id and the digest of its parameters and answer, or `tx:` and the signature of
    what was sent; ` hit` where the answer came from the gateway's cache; behind a bar, the number of the named key that
    paid.
    """

    number: int
    at_ms: int
    type: int
    amount: int
    balance: int
    outcome: int
    operation: str
    parcels: str
    method: str
    description: str

    @property
    def request_id(self) -> str:
        """Return the id of a charged request; empty: unknown. An id that begins as its operation does is stored without
        that beginning."""
        first = "" if self.description.startswith("tx:") or self.type != 2 else self._told.partition(" ")[0]
        return self.operation[:10] + first if first.startswith("-") else first

    @property
    def digest(self) -> str:
        """Return the digest of a charged call (`digest_of` its parameters and answer); empty: unknown."""
        return self._told.partition(" ")[2].partition(" ")[0] if self.type == 2 else ""

    @property
    def key(self) -> int:
        """Return the number of the named key that paid or was refunded; 0: none."""
        return int(self.description.rpartition("|")[2]) if self._told != self.description else 0

    @property
    def _told(self) -> str:
        return _KEY.sub("", self.description) if self.type in (2, 3) else self.description


class Receipt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One receipt, as the gateway gives it. Hashes and the signature are in hexadecimal."""

    version: int
    account: str
    entry: ReceiptEntry
    before: str
    first: int
    last: int
    head: str
    entry_path: list[str]
    account_index: int
    account_path: list[str]
    statement: str
    key: str
    signature: str


class PublishedKey(NamedTuple):
    """Times are Unix milliseconds. retired_ms: since when it signs nothing more; None: it signs."""

    public: bytes
    made_ms: int
    retired_ms: int | None


class Chain(msgspec.Struct, frozen=True):
    """The entries of an account between two receipts, as GET /account/consistency gives them."""

    account: str
    after: int
    entries: list[ReceiptEntry]


def read_receipts(document: Any) -> list[Receipt]:
    """Read an answer of /account/receipts, or one receipt. Raises NotProven if it is neither."""
    try:
        if isinstance(document, Mapping) and "receipts" in document:
            return msgspec.convert(document["receipts"], list[Receipt])
        return [msgspec.convert(document, Receipt)]
    except msgspec.ValidationError as error:
        raise NotProven(f"it has not the form of a receipt: {error}") from None


def digest_of(params: bytes, answer: bytes) -> str:
    """Return the digest of a call. params: as sent (`[]` without parameters); answer: as received; both as bytes."""
    return b64encode(sha256(params + b"\n" + answer).digest()[:16]).rstrip(b"=").decode()


def hash_after(before: bytes, entry: ReceiptEntry) -> bytes:
    """Return the hash of the account's chain after this entry. before: the hash before it."""
    text = (
        f"{entry.number},{entry.at_ms},{entry.type},{entry.amount},{entry.balance},{entry.outcome},"
        f"{entry.operation},{entry.parcels},{len(entry.method)}:{entry.method},{entry.description}"
    )
    return sha256(before + text.encode()).digest()


def check(receipt: Receipt, keys: Mapping[str, PublishedKey]) -> bytes:
    """Return the hash after the entry. keys: the published keys by their names. Raises NotProven."""
    if receipt.version != 1:
        raise NotProven(f"version {receipt.version} is not known here: use a newer verifier")
    try:
        account, before, head = base58.b58decode(receipt.account), _hash(receipt.before), _hash(receipt.head)
        entry_path = list(map(_hash, receipt.entry_path))
        account_path = list(map(_hash, receipt.account_path))
        signature = bytes.fromhex(receipt.signature)
    except ValueError as error:
        raise NotProven(f"a hash, the account or the signature cannot be read: {error}") from None
    signed = _STATEMENT.fullmatch(receipt.statement)
    if signed is None:
        raise NotProven("its statement has another form")
    at_ms = int(signed[1])
    _check_signature(receipt, signature, keys, at_ms)
    if receipt.entry.at_ms > at_ms:
        raise NotProven("the entry is later than its statement")
    number, first, last = receipt.entry.number, receipt.first, receipt.last
    if not 1 <= first <= number <= last < 1 << 63 or len(account) != 32:
        raise NotProven("the entry is not among those of the statement")
    after = hash_after(before, receipt.entry)
    if number == last and after != head:
        raise NotProven("the entry is not the newest that the statement has of the account")
    entries_root = _climb(_leaf(after), number - first, last - first + 1, entry_path)
    leaf = account + first.to_bytes(8, "big") + last.to_bytes(8, "big") + head + entries_root
    root = _climb(_leaf(leaf), receipt.account_index, int(signed[2]), account_path)
    if root.hex() != signed[3]:
        raise NotProven("the entry does not lead to the root of the statement")
    return after


def check_continued(earlier: Receipt, later: Receipt, chain: Chain) -> None:
    """Raise NotProven unless the later receipt's entry follows from the earlier one's by the entries between. Both are
    checked before (`check`)."""
    if not earlier.account == later.account == chain.account:
        raise NotProven("the receipts and the entries between are of different accounts")
    at = hash_after(bytes.fromhex(earlier.before), earlier.entry)
    number = earlier.entry.number
    for entry in chain.entries:
        if entry.number != number + 1 or number >= later.entry.number:
            raise NotProven(f"entry {number + 1} is missing between the receipts")
        at, number = hash_after(at, entry), entry.number
    if number != later.entry.number or at != hash_after(bytes.fromhex(later.before), later.entry):
        raise NotProven("the later receipt does not continue the earlier one: the ledger was changed between them")


def public_keys(document: Any) -> dict[str, PublishedKey]:
    """Read /.well-known/ledger-keys.json. Raises NotProven."""
    try:
        return {str(key["id"]): _published_key(key) for key in document["keys"]}
    except (KeyError, TypeError, ValueError):
        raise NotProven("the keys have not the form of /.well-known/ledger-keys.json") from None


def _published_key(key: Mapping[str, Any]) -> PublishedKey:
    made, retired = key["made_at"], key["retired_at"]
    return PublishedKey(bytes.fromhex(key["public_key"]), made * 1000, None if retired is None else retired * 1000)


def _check_signature(receipt: Receipt, signature: bytes, keys: Mapping[str, PublishedKey], at_ms: int) -> None:
    key = keys.get(receipt.key)
    if key is None:
        raise NotProven(f"the gateway has published no key {receipt.key}")
    if at_ms < key.made_ms - KEY_SLACK_MS or (key.retired_ms is not None and at_ms > key.retired_ms + KEY_SLACK_MS):
        raise NotProven(f"the statement is of a time at which its key {receipt.key} was not in use")
    try:
        VerifyKey(key.public).verify(receipt.statement.encode(), signature)
    except (BadSignatureError, ValueError):
        raise NotProven("the statement's signature is not by the published key") from None


def _climb(node: bytes, index: int, count: int, path: Sequence[bytes]) -> bytes:
    """Compute the root of a tree of `count` leaves from the leaf at `index` (RFC 9162, section 2.1.3.2)."""
    if not 0 <= index < count:
        raise NotProven("a place in a tree is outside of it")
    last = count - 1
    for beside in path:
        if last == 0:
            raise NotProven("a path is longer than its tree is high")
        if index & 1 or index == last:
            node = sha256(b"\1" + beside + node).digest()
            while index and not index & 1:
                index, last = index >> 1, last >> 1
        else:
            node = sha256(b"\1" + node + beside).digest()
        index, last = index >> 1, last >> 1
    if last:
        raise NotProven("a path does not reach the root of its tree")
    return node


def _leaf(item: bytes) -> bytes:
    return sha256(b"\0" + item).digest()


def _hash(text: str) -> bytes:
    value = bytes.fromhex(text)
    if len(value) != 32 or text != value.hex():
        raise ValueError(f"{text[:70]!r} is no hash in lower case")
    return value
