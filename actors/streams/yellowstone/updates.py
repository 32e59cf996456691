"""Reads what a feed must know of an update: the names of its filters, its slot, and a mark that identifies it.

Implements: no update twice and none lost when a feed resumes at another connection or node. Pure.
The bytes of an update reach the clients as the node sent them; only the names of the filters are replaced.
"""

import msgspec

from actors.geyser_proto import geyser_pb2

_BLOCK_TAG, _BLOCK_SLOT_TAG = b"\x2a", b"\x08"  # Field 5 of an update, a message; field 1 of a block, a number.
_LENGTH_BYTES_MAX, _SLOT_BYTES_MAX = 6, 10
_NAME_TAG = 0x0A  # Field 1 of an update, `filters`; encoders write the fields in order.


class SeenUpdate(msgspec.Struct, frozen=True, gc=False):
    """status: of a slot; None: the update is content of the slot. parent: of a slot, where the status tells it.

    mark: a hash of what identifies the update, whichever node sent it.
    """

    slot: int
    mark: int
    status: int | None = None
    parent: int | None = None


def split(payload: bytes) -> tuple[tuple[str, ...], bytes]:
    """The names of the filters, and the rest of the update. No names: a ping or a pong.

    Raises ValueError for bytes that are no update.
    """
    names: list[str] = []
    at, end = 0, len(payload)
    while at + 1 < end and payload[at] == _NAME_TAG and payload[at + 1] < 0x80:  # Our names are short.
        start = at + 2
        at = start + payload[at + 1]
        names.append(payload[start:at].decode())
    return tuple(names), payload[at:]


def identify(names: tuple[str, ...], body: bytes) -> SeenUpdate | None:
    """Identify an update. None: it is of no slot, as a kind of update that is newer than our format.

    A write is identified by its account and its transaction, as write versions are one node's own. Blocks come once for
    each name of a filter.
    """
    slot = _slot_of_block(body)
    if slot is not None:
        return SeenUpdate(slot, hash(("block", slot, names)))
    update = geyser_pb2.SubscribeUpdate.FromString(body)
    kind = update.WhichOneof("update_oneof")
    match kind:
        case "account":
            account = update.account.account
            by = account.txn_signature or account.write_version
            return SeenUpdate(update.account.slot, hash((kind, update.account.slot, account.pubkey, by)))
        case "transaction":
            slot = update.transaction.slot
            return SeenUpdate(slot, hash((kind, slot, update.transaction.transaction.signature)))
        case "transaction_status":
            slot = update.transaction_status.slot
            return SeenUpdate(slot, hash((kind, slot, update.transaction_status.signature)))
        case "slot":
            status, parent = update.slot.status, update.slot.parent if update.slot.HasField("parent") else None
            return SeenUpdate(update.slot.slot, hash((kind, update.slot.slot, status)), status, parent)
        case "block":  # From a node that writes the fields in another order.
            return SeenUpdate(update.block.slot, hash((kind, update.block.slot, names)))
        case "block_meta":
            return SeenUpdate(update.block_meta.slot, hash((kind, update.block_meta.slot)))
        case "entry":
            return SeenUpdate(update.entry.slot, hash((kind, update.entry.slot, update.entry.index)))
    return None


def _slot_of_block(body: bytes) -> int | None:
    """The slot of a block, without decoding it: a block of mainnet has megabytes. None: decode it.

    A block update is its tag, its length and the block, whose first field is the slot.
    """
    if body[:1] != _BLOCK_TAG:
        return None
    at = 1
    while at < _LENGTH_BYTES_MAX and at < len(body) and body[at] & 0x80:
        at += 1
    if body[at + 1 : at + 2] != _BLOCK_SLOT_TAG:
        return None
    slot = 0
    for place, byte in enumerate(body[at + 2 : at + 2 + _SLOT_BYTES_MAX]):
        slot |= (byte & 0x7F) << 7 * place
        if not byte & 0x80:
            return slot
    return None
