"""Turns a client's SubscribeRequest into the request that is sent to the node, equal for all equal subscriptions.

Implements: identical subscriptions share one upstream subscription. Names of filters, their order, and the order and
repetition of keys in a list change nothing in which updates match, so two requests that differ in these alone become
the same bytes. Each filter gets a short name of ours; updates get the client's names back. Pure.

WATCH is a filter of ours in every request: statuses of slots tell how far a feed is (yellowstone/progress.py).
"""

from collections import OrderedDict
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from actors.geyser_proto import geyser_pb2
from actors.streams.yellowstone.limits import BadSubscription, check_request, check_shape

WATCH = "~"
HEADERS_BYTES_MAX = 16 << 20
_NAME_BYTES = 64  # Memory of a name in addition to its bytes.
SMALL_BYTES = 1_024  # Reading it takes at most two milliseconds: 200 filters without a value.
# The maps of a request, each with the first letter of the names that its filters get.
_MAPS = {
    "accounts": "a",
    "slots": "s",
    "transactions": "t",
    "transactions_status": "x",
    "blocks": "b",
    "blocks_meta": "m",
    "entry": "e",
}
# Lists that are sets: their order and repetitions have no meaning.
_SETS = ("account", "owner", "account_include", "account_exclude", "account_required")


class WantedStream(msgspec.Struct, frozen=True, eq=False):
    """What a client asked for. key: equal for equal subscriptions; None: no filter, so nothing is asked of the node.

    names: from our names of filters to the client's. level: the commitment.
    """

    key: bytes | None
    names: Mapping[str, str]
    level: int
    from_slot: int | None

    def live(self) -> "WantedStream":
        """Return the same subscription without its past."""
        return msgspec.structs.replace(self, from_slot=None)

    def request(self, from_slot: int | None) -> bytes:
        """The request for the node: from the next update on, or from a slot."""
        assert self.key is not None
        if from_slot is None:
            return self.key
        # In protobuf, a message followed by another one is both of them merged.
        return self.key + geyser_pb2.SubscribeRequest(from_slot=from_slot).SerializeToString()


def read_bytes(raw: bytes, filters_max: int, keys_max: int) -> WantedStream | int:
    """Read a request as it came; a number: it is a ping of this number, and its other fields have no meaning.

    Raises BadSubscription and DecodeError.
    """
    filters = check_shape(raw, filters_max, keys_max)
    request = geyser_pb2.SubscribeRequest.FromString(raw)
    try:
        return request.ping.id if request.HasField("ping") else read_request(request, filters_max, keys_max)
    except BadSubscription as error:
        error.filters = filters
        raise


def ping_of(raw: bytes) -> int | None:
    """The number of a ping; None: it is another request. raw: small. Raises DecodeError."""
    request = geyser_pb2.SubscribeRequest.FromString(raw)
    return request.ping.id if request.HasField("ping") else None


def read_request(request: geyser_pb2.SubscribeRequest, filters_max: int, keys_max: int) -> WantedStream:
    """Read a request without a ping. Raises BadSubscription."""
    check_request(request, filters_max, keys_max)
    from_slot = request.from_slot if request.HasField("from_slot") else None
    sent = geyser_pb2.SubscribeRequest(commitment=request.commitment)
    sent.accounts_data_slice.extend(request.accounts_data_slice)
    names: dict[str, str] = {}
    for field, letter in _MAPS.items():
        asked: Any = getattr(request, field)
        into: Any = getattr(sent, field)
        filters = sorted((_same_form(asked[name]), name) for name in asked)
        for number, (value, name) in enumerate(filters):
            short = f"{letter}{number}"
            into[short].ParseFromString(value)
            names[short] = name
    if not names:
        return WantedStream(None, names, request.commitment, from_slot)
    sent.slots[WATCH].filter_by_commitment = False
    return WantedStream(sent.SerializeToString(deterministic=True), names, request.commitment, from_slot)


def _same_form(wanted: Any) -> bytes:
    """One filter as bytes, with each list that is a set in one order."""
    many = [field for field in _sets_of(wanted.DESCRIPTOR) if len(getattr(wanted, field)) > 1]
    if many:
        copy = type(wanted)()
        copy.CopyFrom(wanted)
        for field in many:
            ordered = sorted(set(getattr(wanted, field)))
            copy.ClearField(field)
            getattr(copy, field).extend(ordered)
        wanted = copy
    return bytes(wanted.SerializeToString(deterministic=True))


@lru_cache(maxsize=16)
def _sets_of(descriptor: Any) -> tuple[str, ...]:
    return tuple(field for field in _SETS if field in descriptor.fields_by_name)


class HeaderCache:
    """Headers of updates, made once for all streams with these names. Beyond bytes_max the oldest are forgotten."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._headers: OrderedDict[tuple[str, ...], bytes] = OrderedDict()
        self.bytes = 0  # Of headers and names.

    def get(self, names: tuple[str, ...]) -> bytes:
        found = self._headers.get(names)
        if found is not None:
            self._headers.move_to_end(names)
            return found
        found = self._headers[names] = geyser_pb2.SubscribeUpdate(filters=names).SerializeToString()
        self.bytes += _size(names, found)
        while self.bytes > self._bytes_max:
            self.bytes -= _size(*self._headers.popitem(last=False))
        return found


def _size(names: tuple[str, ...], header: bytes) -> int:
    return 2 * len(header) + _NAME_BYTES * len(names)


_headers = HeaderCache(HEADERS_BYTES_MAX)


def header(names: tuple[str, ...]) -> bytes:
    """The part of an update with the names of the filters. In protobuf, header + body is the whole update."""
    return _headers.get(names)
