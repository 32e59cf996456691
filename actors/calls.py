"""The messages between a gateway replica and the owner of an account.

Implements: interface, "Authentication"; money rule 1.
Pure vocabulary. msgspec structs, because these cross the hot link (hotlink/) thousands of times a second.
"""

import hashlib
from enum import IntEnum, unique
from typing import NamedTuple

import msgspec

from actors import request_ids
from actors.growing import Growing
from actors.units import VirtualShard, routing_bytes, shard_of, virtual_shard

REPLICA_ID_BYTES = 8  # A replica's name: random bytes that it chooses when it starts.
OPERATION_BYTES = REPLICA_ID_BYTES + 8  # The replica's name, then its counter: unique without coordination.
# Calls count from 0. Streams count from here: for a charge that a client asks for, and for one that follows by itself
# from an open stream, whose hold takes no rate unit.
FIRST_STREAM_CHARGE = 1 << 62
FIRST_ALLOWANCE = 1 << 63


_LASTING = 0xFF  # The first byte of lasting prefixes; no replica's name begins so.


def new_replica_id(random: bytes) -> bytes:
    """Make a replica's name of REPLICA_ID_BYTES random bytes."""
    assert len(random) == REPLICA_ID_BYTES, len(random)
    return bytes([random[0] % _LASTING]) + random[1:]


def lasting_prefix(replica_id: bytes) -> bytes:
    """Return the prefix of operations that do not belong to a process.

    Another process ends them, as the racer does for a send, or their answer is stored, as for an Idempotency-Key. No
    replica has this id: it never links and never dies, and its charges stay when the replica dies."""
    return bytes([_LASTING]) + hashlib.sha256(b"deferred" + replica_id).digest()[: REPLICA_ID_BYTES - 1]


def is_lasting(operation: bytes) -> bool:
    """Return whether an operation, or its prefix, belongs to no replica that may die."""
    return operation[0] == _LASTING


class KeyProof(Growing, frozen=True, array_like=True, tag="k"):
    """An API key was presented. key_hash: SHA-256 of the whole key text; routing: its first 8 decoded bytes.

    address: of the client. origin: the header of a browser. Named keys may be bound to them. child: the whole text of a
    key that was made from another one (accounts/child_keys.py): its owner checks it once, and knows its hash then.
    """

    key_hash: bytes
    routing: bytes
    address: str = ""
    origin: str = ""
    child: str = ""


class WalletProof(msgspec.Struct, frozen=True, array_like=True, tag="w"):
    """A wallet signature that the gateway has verified, inside its time window; the nonce is not taken yet."""

    pubkey: bytes
    nonce: str
    signed_at: int  # Unix seconds. The proof is good for 60 seconds on either side of it.


class SessionProof(msgspec.Struct, frozen=True, array_like=True, tag="s"):
    """A bearer token was presented. token_hash: SHA-256 of the token text; routing: its first 8 decoded bytes."""

    token_hash: bytes
    routing: bytes


class ProvenProof(Growing, frozen=True, array_like=True, tag="p"):
    """An account that the replica has proven earlier in the same request.

    Either its credential was accepted and its calls had to wait, or a payment of the account was settled for these
    calls only. It is never made from a client's input. key: number of the named key that was presented, which pays
    within its budgets; 0: none was. The key is named again by each charge of an open stream.
    """

    pubkey: bytes
    key: int = 0


Proof = KeyProof | WalletProof | SessionProof | ProvenProof


def routing_of(proof: Proof) -> bytes:
    """Return the account's routing bytes. Those of a key or a session are unconfirmed until the account's owner has
    accepted it."""
    return proof.routing if isinstance(proof, KeyProof | SessionProof) else routing_bytes(proof.pubkey)


def shard_of_proof(proof: Proof) -> VirtualShard:
    """Return the virtual shard whose owner is asked about this proof."""
    if isinstance(proof, KeyProof | SessionProof):
        return virtual_shard(proof.routing)
    return shard_of(proof.pubkey)


PUBLIC_PRICES = ""  # Takes the place of a price list's name.
# The refusal of a hold whose ceilings are not of the account's price list, as the reply names it. It is no Err, because
# no client sees it: the replica finds the prices by that list, and asks again.
OTHER_PRICES = "OTHER_PRICES"


class HoldItem(msgspec.Struct, frozen=True, array_like=True):
    """One call to admit. ceiling: the most it can cost, in whole credits; 0 for free calls that take a rate unit.

    takes_unit False, with ceiling 0: a call whose price is found before it is held. Its method and the rate are judged,
    and it takes nothing yet.
    """

    method: str
    ceiling: int
    takes_unit: bool = True


class HoldRequest(msgspec.Struct, frozen=True, array_like=True):
    """Admit one call or one batch. operation: id of the first item; item i has operation_at(operation, i).

    A repeated request with the same operation gets the first answer again, and holds nothing more.
    request_id: of the request that makes it, for the owner's log; empty: of none. traceparent: of its trace, as W3C
    has it; empty: it is not traced. reads_view: the reply is to tell the floors of monotonic reads. price_list: by
    which the ceilings were found; where the account has another one, the reply is OTHER_PRICES, and nothing is held.
    None: the ceilings hold whatever the account's list is.
    """

    operation: bytes
    proof: Proof
    items: tuple[HoldItem, ...]
    request_id: str = msgspec.field(default_factory=request_ids.current)
    traceparent: str = ""
    reads_view: bool = False
    price_list: str | None = None


class Figures(msgspec.Struct, frozen=True, array_like=True):
    """The figures in the response headers (interface, "Limits")."""

    credits_remaining: int  # Balance less everything held, this call included.
    rate_limit: int  # Requests per second of this account.
    rate_remaining: int
    rate_reset: int  # Unix second in which the window ends.


class HoldReply(msgspec.Struct, frozen=True, array_like=True):
    """refusal: OTHER_PRICES, or name of an Err that ends the whole request, else None; verdicts: per item an Err name,
    or None: held.

    figures: None when the account is unknown or the credential is not valid. epoch: of the owner, for the settle. key:
    number of the named key that was presented, for the settle too; 0: none was. view: at processed, confirmed and
    finalized, the floor below which no monotonic read may be answered, then three bounds (accounts/view.py). None: the
    request did not ask. price_list: the name of the account's price list; PUBLIC_PRICES: it pays the public prices.
    slots: how many calls more the account may have in flight; 0 from an owner of before, too. hour_left: credits that
    the account's hourly limit leaves; None: no limit is in force, or the owner is of before.
    """

    pubkey: bytes
    epoch: int
    refusal: str | None
    verdicts: tuple[str | None, ...]
    figures: Figures | None
    key: int = 0
    view: tuple[int, int, int, int, int, int] | None = None
    price_list: str = ""
    slots: int = 0
    hour_left: int | None = None

    @property
    def payer(self) -> ProvenProof:
        """Return the proof for further holds of the same request."""
        return ProvenProof(self.pubkey, self.key)


@unique
class Outcome(IntEnum):
    """The way in which a held call ended, as the ledger records it."""

    ANSWERED = 0  # The node or service answered, and the client was connected.
    UPSTREAM_ERROR = 1  # The node answered with a JSON-RPC error that is billed as published.
    CLIENT_GONE = 2  # The node answered, the client had disconnected: charged (threat 36).
    RELEASED = 3  # Nothing is charged.


class SettleRequest(msgspec.Struct, frozen=True, array_like=True):
    """End one hold: post (charged above 0) or release (charged 0). Idempotent by operation.

    It has all fields that a new owner needs to accept it without having granted the hold. shown: the slots that the
    answer shows to its account, at processed, confirmed and finalized; 0: none. Below zero, without the sign, it is a
    bound alone. None: nobody asked for a monotonic read.
    """

    operation: bytes
    pubkey: bytes
    epoch: int
    method: str
    ceiling: int
    charged: int
    outcome: int
    held_at: int  # Unix seconds at the replica, when the hold was granted.
    evidence: str = ""  # Text of an `Evidence`, for the entry in the ledger; empty: there is none.
    key: int = 0  # Number of the named key that pays, as the reply to the hold told it.
    shown: tuple[int, int, int] | None = None

    @property
    def payer(self) -> ProvenProof:
        return ProvenProof(self.pubkey, self.key)


class Evidence(NamedTuple):
    """Facts about a paid call, in the description of its debit. digest: of parameters and answer
    (gateway/calls/evidence.py). transaction: signature of one that was sent, in base58. Empty: not known. key: number
    of the named key that paid; 0: none did. cache: `hit` where the answer came from the cache."""

    request_id: str = ""
    digest: str = ""
    transaction: str = ""
    key: int = 0
    cache: str = ""


_NAME_BYTES = 5  # Ids of requests begin with this much of their replica's id, as operations do.
_SENT = "tx:"
_KEY_DIGITS_MAX = 9


def call_evidence(operation: bytes, request_id: str, digest: str, cache: str = "") -> str:
    """As few characters as are enough, because each call has them on the disk: of an id that begins as its operation
    does, what is behind that."""
    told = f"{request_id.removeprefix(operation[:_NAME_BYTES].hex())} {digest}"
    return f"{told} {cache}" if cache else told


def send_evidence(transaction: str) -> str:
    return _SENT + transaction


def with_key(description: str, key: int) -> str:
    """Add the number of the named key that made the entry to its description, at the end after a bar."""
    return f"{description}|{key}" if key else description


def split_key(description: str) -> tuple[str, int]:
    """Split a description into its text and the number of its key; 0: no named key made the entry."""
    text, bar, number = description.rpartition("|")
    if not bar or len(number) > _KEY_DIGITS_MAX or not number.isascii() or not number.isdigit():
        return description, 0
    return text, int(number)


def read_evidence(operation: bytes, description: str) -> Evidence:
    text, key = split_key(description)
    if text.startswith(_SENT):
        return Evidence(transaction=text.removeprefix(_SENT), key=key)
    request_id, _, digest = text.partition(" ")
    digest, _, cache = digest.partition(" ")
    if request_id.startswith("-"):
        request_id = operation[:_NAME_BYTES].hex() + request_id
    return Evidence(request_id, digest, key=key, cache=cache)


class SettleReply(msgspec.Struct, frozen=True, array_like=True):
    """ok: durably posted, or released. Not ok: nothing was charged, and the answer must not be sent.

    credits_remaining: None where the owner cannot tell; 0 would make a customer deposit.
    """

    ok: bool
    credits_remaining: int | None


class ChargeRequest(msgspec.Struct, frozen=True, array_like=True):
    """Admit a call that its replica asked the node ahead of its hold, and end it, in one turn of the owner.

    hold: of this one call. settle: of the same operation; its public key and epoch are those that the account's owner
    told last. A repeated request gets the answer of the first one, and charges nothing more. coming: how many other
    calls of this owner's accounts its replica is asking ahead at the same time; their charges follow.
    """

    hold: HoldRequest
    settle: SettleRequest
    coming: int = 0

    @property
    def operation(self) -> bytes:
        return self.settle.operation

    @property
    def request_id(self) -> str:
        return self.hold.request_id


class ChargeReply(msgspec.Struct, frozen=True, array_like=True):
    """held: the decision about the hold. settled: the end of it; None where it was refused, and nothing is charged."""

    held: HoldReply
    settled: SettleReply | None


class StreamTime(msgspec.Struct, frozen=True, array_like=True):
    """The unpaid time of a gRPC stream. operation: of the charge with which that stream began.

    left_ms None: a stream begins, and takes the time that an ended stream of its payer has left. Else: a stream has
    ended, and leaves so much for the next one. Idempotent by operation, each of both. key: number of the named key that
    pays for the stream; 0: the account itself does.
    """

    operation: bytes
    pubkey: bytes
    left_ms: int | None
    key: int = 0


class StreamTimeReply(msgspec.Struct, frozen=True, array_like=True):
    """taken_ms: time that the stream begins with; 0 where there was none, and for a stream that has ended."""

    taken_ms: int


class DeliveredNotice(msgspec.Struct, frozen=True, array_like=True):
    """The answers to these operations have been sent to their clients."""

    operations: tuple[bytes, ...]


class UndeliveredNotice(msgspec.Struct, frozen=True, array_like=True):
    """All charges of this replica, at the owner that is told, whose answers have not left or that it is voiding."""

    replica: bytes
    operations: tuple[bytes, ...]


class Noted(msgspec.Struct, frozen=True, array_like=True):
    """A notice was accepted."""


def is_allowance(operation: bytes) -> bool:
    """Return whether the operation is a hold ahead for an open stream."""
    return operation[REPLICA_ID_BYTES] >= FIRST_ALLOWANCE >> 56


def operation_at(operation: bytes, index: int) -> bytes:
    """Return the operation id of item `index` of a request: the same replica, its counter increased by `index`."""
    if index == 0:
        return operation
    counter = int.from_bytes(operation[REPLICA_ID_BYTES:], "big") + index
    return operation[:REPLICA_ID_BYTES] + counter.to_bytes(OPERATION_BYTES - REPLICA_ID_BYTES, "big")
