"""Checks the filters of a Yellowstone subscription, before anything is charged or sent to the node.

Implements: the checks of the Yellowstone plugin in its order and with its texts, as clients match on them;
threat 62 (filters of absurd sizes). Pure. Not here: making one form of equal requests (yellowstone/requests.py),
evaluating filters, which the node does.
"""

import base64
import binascii
import itertools
from collections.abc import Collection, Mapping, Sized
from typing import Any

import base58
from solders.pubkey import Pubkey
from solders.signature import Signature

from actors.geyser_proto import geyser_pb2
from actors.streams.yellowstone.wire import fields

FILTER_NAME_BYTES_MAX = 128
STATE_FILTERS_MAX = 4
MEMCMP_BYTES_MAX = 128
MEMCMP_BASE58_MAX = 175  # The longest text of 128 bytes in this encoding.
MEMCMP_BASE64_MAX = 172
_LEVELS = (geyser_pb2.PROCESSED, geyser_pb2.CONFIRMED, geyser_pb2.FINALIZED)
_TOKEN_MODES = (geyser_pb2.ALL, geyser_pb2.BALANCE_CHANGED)
_CUCKOO_BUCKET_BYTES = 8  # Four fingerprints of 16 bits.
_TOO_LARGE = "data too large"
_OTHER_FIELDS_MAX = 16
_PARTS_PER_FILTER = 32  # Its own parts, its conditions and theirs, without keys.

Parts = Mapping[int, "Parts"]  # The fields of a message that are messages, by number.


def _parts(descriptor: Any) -> Parts:
    inner = ((field.number, field.message_type) for field in descriptor.fields)
    return {number: _parts(found) for number, found in inner if found is not None}


_REQUEST = _parts(geyser_pb2.SubscribeRequest.DESCRIPTOR)


class BadSubscription(Exception):
    """A filter of the subscription is invalid or above a limit; the text says which.

    filters: how many were looked at, with the other fields of the request.
    """

    def __init__(self, text: str, filters: int = 0) -> None:
        super().__init__(text)
        self.filters = filters


def check_shape(raw: bytes, filters_max: int, keys_max: int) -> int:
    """Refuse a request of very many parts before it is decoded: half a second of work for four megabytes of them.

    Gives the number of its filters and other fields.

    Raises BadSubscription; a request has at most filters_max filters and slices of all kinds together, and keys_max
    keys in all; its parts are counted at every depth. Raises DecodeError for what is no message.
    """
    left, count = _PARTS_PER_FILTER * filters_max + keys_max, 0
    for count, (number, _, value, end) in enumerate(fields(raw), 1):
        if count > filters_max + _OTHER_FIELDS_MAX:
            raise BadSubscription(f"Max amount of filters/data_slices reached, only {filters_max} allowed", count)
        inner = _REQUEST.get(number)
        left = left if inner is None else _count(raw, value, end, inner, left)
        if left < 0:
            raise BadSubscription(f"Max amount of Pubkeys reached, only {keys_max} allowed", count)
    return count


def _count(raw: bytes, at: int, end: int, parts: Parts, left: int) -> int:
    """Subtract the fields of a message from the number left; below 0: there are more."""
    for number, _, value, after in fields(raw, at, end):
        left -= 1
        inner = parts.get(number)
        if inner is not None and left >= 0:
            left = _count(raw, value, after, inner, left)
        if left < 0:
            break
    return left


def check_request(request: geyser_pb2.SubscribeRequest, filters_max: int, keys_max: int) -> None:
    """Check every filter. Raises BadSubscription.

    filters_max: filters of all kinds together, and data slices. keys_max: public keys in all lists together.
    """
    _check_slices(request.accounts_data_slice, filters_max)
    if request.commitment not in _LEVELS:  # A missing commitment is PROCESSED.
        raise BadSubscription(f"failed to create CommitmentLevel from {int(request.commitment)}")
    _check_names(request.accounts, filters_max)
    for name in sorted(request.accounts):
        _check_account(request.accounts[name], keys_max)
    _check_names(request.slots, filters_max)
    for filters in (request.transactions, request.transactions_status):
        _check_names(filters, filters_max)
        for name in sorted(filters):
            _check_transaction(filters[name], keys_max)
    _check_names(request.blocks, filters_max)
    for name in sorted(request.blocks):
        block = request.blocks[name]
        _check_keys(block.account_include, keys_max)
        if block.HasField("cuckoo_account_include"):
            _check_cuckoo(block.cuckoo_account_include)
    _check_names(request.blocks_meta, filters_max)
    _check_names(request.entry, filters_max)
    _check_sums(request, filters_max, keys_max)


def _check_sums(request: geyser_pb2.SubscribeRequest, filters_max: int, keys_max: int) -> None:
    """Check the limits of the request as a whole, which a node does not have."""
    filters: list[Sized] = [
        request.accounts,
        request.slots,
        request.transactions,
        request.transactions_status,
        request.blocks,
    ]
    maps = [*filters, request.blocks_meta, request.entry]
    if sum(map(len, maps)) > filters_max:
        raise BadSubscription(f"Max amount of filters/data_slices reached, only {filters_max} allowed")
    lists: list[Sized] = []
    for account in request.accounts.values():
        lists += (account.account, account.owner)
    for one in (*request.transactions.values(), *request.transactions_status.values()):
        lists += (one.account_include, one.account_exclude, one.account_required)
    lists += (block.account_include for block in request.blocks.values())
    if sum(map(len, lists)) > keys_max:
        raise BadSubscription(f"Max amount of Pubkeys reached, only {keys_max} allowed")


def _check_count(found: Sized, most: int) -> None:
    if len(found) > most:
        raise BadSubscription(f"Max amount of filters/data_slices reached, only {most} allowed")


def _check_names(filters: Collection[str], most: int) -> None:
    _check_count(filters, most)
    for name in sorted(filters):
        size = len(name.encode())
        if size > FILTER_NAME_BYTES_MAX:
            raise BadSubscription(f"oversized filter name (max allowed size {FILTER_NAME_BYTES_MAX}), found {size}")


def _check_keys(texts: Collection[str], most: int) -> None:
    if len(texts) > most:
        raise BadSubscription(f"Max amount of Pubkeys reached, only {most} allowed")
    try:
        for text in texts:
            Pubkey.from_string(text)
    except ValueError as error:
        raise BadSubscription(str(error)) from error


def _check_slices(asked: Collection[geyser_pb2.SubscribeRequestAccountsDataSlice], most: int) -> None:
    _check_count(asked, most)
    for before, after in itertools.pairwise(asked):
        if before.offset > after.offset:
            raise BadSubscription("data slices out of order")
        if before.offset + before.length > after.offset:
            raise BadSubscription("data slices overlapped")


def _check_account(asked: geyser_pb2.SubscribeRequestFilterAccounts, keys_max: int) -> None:
    _check_keys(asked.account, keys_max)
    if asked.HasField("cuckoo_accounts_filter"):
        _check_cuckoo(asked.cuckoo_accounts_filter)
    _check_keys(asked.owner, keys_max)
    _check_state(asked.filters)


def _check_state(filters: Collection[geyser_pb2.SubscribeRequestFilterAccountsFilter]) -> None:
    if len(filters) > STATE_FILTERS_MAX:
        raise BadSubscription(f"Too many filters provided; max {STATE_FILTERS_MAX}")
    has_datasize = False
    for one in filters:
        match one.WhichOneof("filter"):
            case "memcmp":
                _check_memcmp(one.memcmp)
            case "datasize":
                if has_datasize:
                    raise BadSubscription("datasize used more than once")
                has_datasize = True
            case "token_account_state":
                if not one.token_account_state:
                    raise BadSubscription("token_account_state only allowed to be true")
            case "lamports":
                if one.lamports.WhichOneof("cmp") is None:
                    raise BadSubscription("cmp for lamports should be defined")
            case None:
                raise BadSubscription("filter should be defined")


def _check_memcmp(asked: geyser_pb2.SubscribeRequestFilterAccountsFilterMemcmp) -> None:
    match asked.WhichOneof("data"):
        case "bytes":
            data = asked.bytes
        case "base58":
            if len(asked.base58) > MEMCMP_BASE58_MAX:
                raise BadSubscription(_TOO_LARGE)
            try:
                data = base58.b58decode(asked.base58)
            except ValueError as error:
                raise BadSubscription("invalid base58") from error
        case "base64":
            if len(asked.base64) > MEMCMP_BASE64_MAX:
                raise BadSubscription(_TOO_LARGE)
            try:
                data = base64.b64decode(asked.base64, validate=True)
            except (binascii.Error, ValueError) as error:
                raise BadSubscription("invalid base64") from error
        case _:
            raise BadSubscription("data for memcmp should be defined")
    if len(data) > MEMCMP_BYTES_MAX:
        raise BadSubscription(_TOO_LARGE)


def _check_transaction(asked: geyser_pb2.SubscribeRequestFilterTransactions, keys_max: int) -> None:
    if asked.HasField("token_accounts") and asked.token_accounts not in _TOKEN_MODES:
        mode = int(asked.token_accounts)
        raise BadSubscription(f"invalid token_accounts mode value {mode}; expected ALL (0) or BALANCE_CHANGED (1)")
    if asked.HasField("signature"):
        try:
            Signature.from_string(asked.signature)
        except ValueError as error:
            raise BadSubscription(str(error)) from error
    _check_keys(asked.account_include, keys_max)
    if asked.HasField("cuckoo_account_include"):
        _check_cuckoo(asked.cuckoo_account_include)
    _check_keys(asked.account_exclude, keys_max)
    _check_keys(asked.account_required, keys_max)


def _check_cuckoo(message: geyser_pb2.CuckooFilter) -> None:
    """Check that the parts of a compressed set of accounts fit together; Yellowstone leaves open what happens else."""
    buckets = message.bucket_count
    if message.hash_algorithm != geyser_pb2.SIP_HASH:
        raise BadSubscription(f"unknown hash algorithm {message.hash_algorithm} of a cuckoo filter")
    if message.fingerprint_bits != 16 or message.entries_per_bucket != 4:
        raise BadSubscription("a cuckoo filter has 4 entries of 16 bits to a bucket")
    if buckets == 0 or buckets & (buckets - 1):
        raise BadSubscription(f"{buckets} buckets of a cuckoo filter, wanted a power of two")
    if len(message.data) != buckets * _CUCKOO_BUCKET_BYTES:
        raise BadSubscription(f"{len(message.data)} bytes do not make {buckets} buckets of a cuckoo filter")
