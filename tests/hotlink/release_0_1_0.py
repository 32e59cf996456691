"""The messages of the hot link as release 0.1.0 defined them, to read what this release writes. Do not edit it."""

from collections.abc import Sequence

import msgspec


class KeyProof(msgspec.Struct, frozen=True, array_like=True, tag="k"):
    key_hash: bytes
    routing: bytes


class WalletProof(msgspec.Struct, frozen=True, array_like=True, tag="w"):
    pubkey: bytes
    nonce: str
    signed_at: int


class SessionProof(msgspec.Struct, frozen=True, array_like=True, tag="s"):
    token_hash: bytes
    routing: bytes


class ProvenProof(msgspec.Struct, frozen=True, array_like=True, tag="p"):
    pubkey: bytes


Proof = KeyProof | WalletProof | SessionProof | ProvenProof


class HoldItem(msgspec.Struct, frozen=True, array_like=True):
    method: str
    ceiling: int


class HoldRequest(msgspec.Struct, frozen=True, array_like=True):
    operation: bytes
    proof: Proof
    items: tuple[HoldItem, ...]


class Figures(msgspec.Struct, frozen=True, array_like=True):
    credits_remaining: int
    rate_limit: int
    rate_remaining: int
    rate_reset: int


class HoldReply(msgspec.Struct, frozen=True, array_like=True):
    pubkey: bytes
    epoch: int
    refusal: str | None
    verdicts: tuple[str | None, ...]
    figures: Figures | None


class SettleRequest(msgspec.Struct, frozen=True, array_like=True):
    operation: bytes
    pubkey: bytes
    epoch: int
    method: str
    ceiling: int
    charged: int
    outcome: int
    held_at: int


class SettleReply(msgspec.Struct, frozen=True, array_like=True):
    ok: bool
    credits_remaining: int | None


class StreamTime(msgspec.Struct, frozen=True, array_like=True):
    operation: bytes
    pubkey: bytes
    left_ms: int | None


class StreamTimeReply(msgspec.Struct, frozen=True, array_like=True):
    taken_ms: int


class DeliveredNotice(msgspec.Struct, frozen=True, array_like=True):
    operations: tuple[bytes, ...]


class UndeliveredNotice(msgspec.Struct, frozen=True, array_like=True):
    replica: bytes
    operations: tuple[bytes, ...]


class Noted(msgspec.Struct, frozen=True, array_like=True):
    pass


class OpenTopic(msgspec.Struct, frozen=True, array_like=True, tag="o"):
    replica: bytes
    handle: int
    method: str
    params: bytes
    from_slot: int | None = None


class CloseTopic(msgspec.Struct, frozen=True, array_like=True, tag="c"):
    replica: bytes
    handle: int


class TopicReply(msgspec.Struct, frozen=True, array_like=True):
    session: int
    error: bytes = b""


class PollEvents(msgspec.Struct, frozen=True, array_like=True):
    replica: bytes
    session: int
    acked: int


class TopicEvent(msgspec.Struct, frozen=True, array_like=True):
    handle: int
    flags: int
    payload: bytes


class TopicEvents(msgspec.Struct, frozen=True, array_like=True):
    session: int
    batch: int
    slot: int
    root: int
    events: Sequence[TopicEvent]
    overran: bool = False


class AskWindow(msgspec.Struct, frozen=True, array_like=True):
    epoch: int
    after: int
    from_slot: int
    every_after: int
    wait_ms: int


class WindowEntry(msgspec.Struct, frozen=True, array_like=True):
    number: int
    slot: int
    status: int | None
    body: bytes


class WindowPart(msgspec.Struct, frozen=True, array_like=True):
    epoch: int
    first: int | None = None
    last: int = 0
    newest: int = 0
    dropped: int = 0
    entries: Sequence[WindowEntry] = ()


class AskBlock(msgspec.Struct, frozen=True, array_like=True):
    epoch: int
    slot: int
    offset: int


class BlockPart(msgspec.Struct, frozen=True, array_like=True):
    size: int | None
    data: bytes = b""


# By number: request and reply.
KINDS = {
    1: (HoldRequest, HoldReply),
    2: (SettleRequest, SettleReply),
    3: (SettleRequest, SettleReply),
    4: (DeliveredNotice, Noted),
    5: (UndeliveredNotice, Noted),
    7: (StreamTime, StreamTimeReply),
    20: (OpenTopic | CloseTopic, TopicReply),
    21: (PollEvents, TopicEvents),
    22: (AskWindow, WindowPart),
    23: (AskBlock, BlockPart),
}
