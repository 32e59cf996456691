"""Filters of account updates.

Implements: one named filter of `accounts`: all its criteria must hold; a list holds if one of its members matches.
A filter looks at the whole account, also when only slices of it are sent. Pure.
Not here: slices (filters.py), limits (limits.py).
"""

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import base58
from solders.pubkey import Pubkey

from actors.geyser_proto import geyser_pb2
from devnode.geyser.cuckoo import BadCuckoo, Cuckoo, read_cuckoo
from devnode.geyser.limits import (
    AccountLimits,
    BadFilter,
    check_any,
    check_count,
    check_names,
    read_keys,
)
from devnode.geyser.messages import AccountUpdate
from devnode.parsing.token_state import is_token_account

STATE_FILTERS_MAX = 4
MEMCMP_BYTES_MAX = 128
MEMCMP_BASE58_MAX = 175  # The longest text of 128 bytes in this encoding.
MEMCMP_BASE64_MAX = 172
_TOO_LARGE = "data too large"


@dataclass(frozen=True, slots=True)
class StateFilter:
    """Conditions on the contents of an account."""

    memcmp: tuple[tuple[int, bytes], ...] = ()
    datasize: int | None = None
    is_token_account: bool = False
    lamports: tuple[tuple[str, int], ...] = ()

    def matches(self, update: AccountUpdate) -> bool:
        if not all(_compare(update.lamports, how, value) for how, value in self.lamports):
            return False
        if self.datasize is None and not self.is_token_account and not self.memcmp:
            return True
        data = update.data
        if self.datasize is not None and len(data) != self.datasize:
            return False
        if self.is_token_account and not is_token_account(data):
            return False
        # The check of the length keeps an empty comparison beyond the end from matching.
        return all(
            offset + len(wanted) <= len(data) and data[offset : offset + len(wanted)] == wanted
            for offset, wanted in self.memcmp
        )


@dataclass(frozen=True, slots=True)
class AccountFilter:
    name: str
    accounts: frozenset[Pubkey]
    cuckoo: Cuckoo | None
    owners: frozenset[Pubkey]
    has_signature: bool | None  # None: no condition.
    state: StateFilter

    def matches(self, update: AccountUpdate) -> bool:
        if self.has_signature is not None and self.has_signature != (update.signature is not None):
            return False
        if (self.accounts or self.cuckoo is not None) and update.pubkey not in self.accounts:  # noqa: SIM102
            if self.cuckoo is None or bytes(update.pubkey) not in self.cuckoo:
                return False
        if self.owners and update.owner not in self.owners:
            return False
        return self.state.matches(update)


def read_account_filters(
    asked: Mapping[str, geyser_pb2.SubscribeRequestFilterAccounts], limits: AccountLimits
) -> tuple[AccountFilter, ...]:
    """Read all filters of one map. Raises BadFilter."""
    check_count(len(asked), limits.max)
    check_names(list(asked))
    return tuple(_read(name, asked[name], limits) for name in sorted(asked))


def _read(name: str, asked: geyser_pb2.SubscribeRequestFilterAccounts, limits: AccountLimits) -> AccountFilter:
    has_cuckoo = asked.HasField("cuckoo_accounts_filter")
    check_any(not asked.account and not asked.owner and not has_cuckoo, limits.any)
    return AccountFilter(
        name=name,
        accounts=read_keys(list(asked.account), limits.account_max, limits.account_reject),
        cuckoo=checked_cuckoo(asked.cuckoo_accounts_filter, limits.cuckoo_max_size) if has_cuckoo else None,
        owners=read_keys(list(asked.owner), limits.owner_max, limits.owner_reject),
        has_signature=asked.nonempty_txn_signature if asked.HasField("nonempty_txn_signature") else None,
        state=_read_state(asked.filters),
    )


def checked_cuckoo(asked: geyser_pb2.CuckooFilter, size_max: int) -> Cuckoo:
    check_count(len(asked.data), size_max)
    try:
        return read_cuckoo(asked)
    except BadCuckoo as error:
        raise BadFilter(str(error)) from error


def _read_state(asked: Iterable[geyser_pb2.SubscribeRequestFilterAccountsFilter]) -> StateFilter:
    filters = list(asked)
    if len(filters) > STATE_FILTERS_MAX:
        raise BadFilter(f"Too many filters provided; max {STATE_FILTERS_MAX}")
    memcmp: list[tuple[int, bytes]] = []
    lamports: list[tuple[str, int]] = []
    datasize: int | None = None
    needs_token_account = False
    for one in filters:
        match one.WhichOneof("filter"):
            case "memcmp":
                memcmp.append((one.memcmp.offset, _memcmp_data(one.memcmp)))
            case "datasize":
                if datasize is not None:
                    raise BadFilter("datasize used more than once")
                datasize = one.datasize
            case "token_account_state":
                if not one.token_account_state:
                    raise BadFilter("token_account_state only allowed to be true")
                needs_token_account = True
            case "lamports":
                lamports.append(_comparison(one.lamports))
            case None:
                raise BadFilter("filter should be defined")
    return StateFilter(tuple(memcmp), datasize, needs_token_account, tuple(lamports))


def _memcmp_data(asked: geyser_pb2.SubscribeRequestFilterAccountsFilterMemcmp) -> bytes:
    match asked.WhichOneof("data"):
        case "bytes":
            data = asked.bytes
        case "base58":
            if len(asked.base58) > MEMCMP_BASE58_MAX:
                raise BadFilter(_TOO_LARGE)
            try:
                data = base58.b58decode(asked.base58)
            except ValueError as error:
                raise BadFilter("invalid base58") from error
        case "base64":
            if len(asked.base64) > MEMCMP_BASE64_MAX:
                raise BadFilter(_TOO_LARGE)
            try:
                data = base64.b64decode(asked.base64, validate=True)
            except binascii.Error as error:
                raise BadFilter("invalid base64") from error
        case _:
            raise BadFilter("data for memcmp should be defined")
    if len(data) > MEMCMP_BYTES_MAX:
        raise BadFilter(_TOO_LARGE)
    return data


def _comparison(asked: geyser_pb2.SubscribeRequestFilterAccountsFilterLamports) -> tuple[str, int]:
    how = asked.WhichOneof("cmp")
    if how is None:
        raise BadFilter("cmp for lamports should be defined")
    return how, getattr(asked, how)


def _compare(lamports: int, how: str, value: int) -> bool:
    match how:
        case "eq":
            return lamports == value
        case "ne":
            return lamports != value
        case "lt":
            return lamports < value
    return lamports > value
