"""The settings of the gRPC stream, with the limits of the filters in one subscription.

Implements: the section `filters` of the Yellowstone plugin's configuration, with its names and its defaults, which
allow everything. A provider's published limits can be used here without changes. Pure.
Not here: the ranges of the numbers (devnode's settings.py), the filters (filters.py and update_filters.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from solders.pubkey import Pubkey

from devnode.geyser.slot_logs import REPLAY_SLOTS

FILTER_NAME_BYTES_MAX = 128
_ANY_NUMBER = 2**63 - 1
_Keys = frozenset[str]


class BadFilter(Exception):
    """A filter of the subscription is invalid or above a limit; the text says which."""


class _Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of one type of filter. `max` is the largest number of such filters."""

    max: int = _ANY_NUMBER


class AccountLimits(_Limits, frozen=True, kw_only=True):
    any: bool = True
    account_max: int = _ANY_NUMBER
    account_reject: _Keys = frozenset()
    owner_max: int = _ANY_NUMBER
    owner_reject: _Keys = frozenset()
    data_slice_max: int = _ANY_NUMBER
    cuckoo_max_size: int = _ANY_NUMBER


class TransactionLimits(_Limits, frozen=True, kw_only=True):
    any: bool = True
    account_include_max: int = _ANY_NUMBER
    account_include_reject: _Keys = frozenset()
    account_exclude_max: int = _ANY_NUMBER
    account_required_max: int = _ANY_NUMBER
    cuckoo_max_size: int = _ANY_NUMBER


class BlockLimits(_Limits, frozen=True, kw_only=True):
    account_include_max: int = _ANY_NUMBER
    account_include_any: bool = True
    account_include_reject: _Keys = frozenset()
    include_transactions: bool = True
    include_accounts: bool = True
    include_entries: bool = True
    cuckoo_max_size: int = _ANY_NUMBER


class FilterLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    accounts: AccountLimits = AccountLimits()
    slots: _Limits = _Limits()
    transactions: TransactionLimits = TransactionLimits()
    transactions_status: TransactionLimits = TransactionLimits()
    blocks: BlockLimits = BlockLimits()
    blocks_meta: _Limits = _Limits()
    entries: _Limits = _Limits()


NO_LIMITS = FilterLimits()


def read_limits(text: bytes) -> FilterLimits:
    """Read the JSON of a `filters` section or of a whole plugin configuration. Raises msgspec.DecodeError, whose text
    gives the reason."""
    document: Any = msgspec.json.decode(text)
    if isinstance(document, dict) and isinstance(document.get("grpc"), dict):
        document = document["grpc"].get("filters", {})
    return msgspec.convert(document, FilterLimits)


def check_count(count: int, most: int) -> None:
    if count > most:
        raise BadFilter(f"Max amount of filters/data_slices reached, only {most} allowed")


def read_names(asked: Iterable[str], most: int) -> list[str]:
    """The names of the filters of one map, in order. Raises BadFilter."""
    names = sorted(asked)
    check_count(len(names), most)
    for name in names:
        size = len(name.encode())
        if size > FILTER_NAME_BYTES_MAX:
            raise BadFilter(f"oversized filter name (max allowed size {FILTER_NAME_BYTES_MAX}), found {size}")
    return names


def check_any(is_empty: bool, allowed: bool) -> None:
    if is_empty and not allowed:
        raise BadFilter("Subscribe on full stream with `any` is not allowed, at least one filter required")


def read_keys(texts: list[str], most: int, rejected: _Keys = frozenset()) -> frozenset[Pubkey]:
    if len(texts) > most:
        raise BadFilter(f"Max amount of Pubkeys reached, only {most} allowed")
    try:
        keys = frozenset(Pubkey.from_string(text) for text in texts)
    except ValueError as error:
        raise BadFilter(str(error)) from error
    for key in keys:
        if str(key) in rejected:
            raise BadFilter(f"Pubkey {key} in filters is not allowed")
    return keys


@dataclass(frozen=True, slots=True, kw_only=True)
class GeyserSettings:
    """port and tls_port None: the default port (TLS: one above the other), or a free port if it is taken."""

    port: int | None = None
    tls_port: int | None = None
    tls_cert: Path | None = None  # Together with tls_key; without both, the node makes its own certificate.
    tls_key: Path | None = None
    token: str | None = None  # The token that every call must carry; None: no token.
    replay_slots: int = REPLAY_SLOTS
    limits: FilterLimits = NO_LIMITS
