"""Filters of accounts, transactions and blocks.

Implements: one named filter of each type. All its criteria must hold; a list holds if one of its members matches.
- `accounts`: looks at the whole account, also when only slices of it are sent.
- `transactions` and `transactions_status`: the accounts of a transaction are its static and its loaded keys. With
  `token_accounts`, the owners of its token balances count too: all of them, or only owners of balances that it changed,
  opened or closed.
- `blocks`: selects the parts of each block to send. By default a block has its transactions, and neither accounts nor
  entries.
Pure. Not here: slices and the filters of slots (filters.py), limits (settings.py).
"""

import base64
import binascii
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

import base58
from solders.pubkey import Pubkey
from solders.signature import Signature

from actors.geyser_proto import geyser_pb2
from devnode.geyser.block_messages import BlockShape
from devnode.geyser.cuckoo import BadCuckoo, Cuckoo, read_cuckoo
from devnode.geyser.messages import AccountUpdate, Slices, TransactionUpdate
from devnode.geyser.settings import (
    AccountLimits,
    BadFilter,
    BlockLimits,
    TransactionLimits,
    check_any,
    check_count,
    read_keys,
    read_names,
)
from devnode.parsing.token_accounts import is_token_account
from devnode.records.records import TransactionMeta

STATE_FILTERS_MAX = 4
MEMCMP_BYTES_MAX = 128
MEMCMP_BASE58_MAX = 175  # The longest text of 128 bytes in this encoding.
MEMCMP_BASE64_MAX = 172
_TOO_LARGE = "data too large"
_MODES = (geyser_pb2.ALL, geyser_pb2.BALANCE_CHANGED)


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
    return tuple(_read_account(name, asked[name], limits) for name in read_names(asked, limits.max))


def _read_account(name: str, asked: geyser_pb2.SubscribeRequestFilterAccounts, limits: AccountLimits) -> AccountFilter:
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


@dataclass(frozen=True, slots=True)
class BlockFilter:
    name: str
    shape: BlockShape


def read_block_filters(
    asked: Mapping[str, geyser_pb2.SubscribeRequestFilterBlocks], limits: BlockLimits, slices: Slices
) -> tuple[BlockFilter, ...]:
    """Read all block filters. Raises BadFilter."""
    return tuple(BlockFilter(name, _read_block(asked[name], limits, slices)) for name in read_names(asked, limits.max))


def _read_block(asked: geyser_pb2.SubscribeRequestFilterBlocks, limits: BlockLimits, slices: Slices) -> BlockShape:
    check_any(not asked.account_include, limits.account_include_any)
    shape = BlockShape(
        has_transactions=asked.include_transactions or not asked.HasField("include_transactions"),
        has_accounts=asked.include_accounts,
        has_entries=asked.include_entries,
        keys=read_keys(list(asked.account_include), limits.account_include_max, limits.account_include_reject),
        cuckoo=checked_cuckoo(asked.cuckoo_account_include, limits.cuckoo_max_size)
        if asked.HasField("cuckoo_account_include")
        else None,
        slices=slices,
    )
    for wanted, allowed, part in (
        (shape.has_transactions, limits.include_transactions, "transactions"),
        (shape.has_accounts, limits.include_accounts, "accounts"),
        (shape.has_entries, limits.include_entries, "entries"),
    ):
        if wanted and not allowed:
            raise BadFilter(f"`include_{part}` is not allowed")
    return shape


_Keys = frozenset[str]  # Base58, as in records.


@dataclass(frozen=True, slots=True)
class TransactionFilter:
    name: str
    is_vote: bool | None  # None in a field: no condition.
    is_failed: bool | None
    signature: str | None
    include: _Keys
    cuckoo: Cuckoo | None
    exclude: _Keys
    required: _Keys
    owners: int | None  # The mode in which owners of token balances count; None: they do not.

    def matches(self, update: TransactionUpdate) -> bool:
        record = update.record
        if self.is_failed is not None and self.is_failed != (record.meta.err is not None):
            return False
        if self.signature is not None and self.signature != record.signature:
            return False
        if self.is_vote is not None and self.is_vote != update.is_vote:
            return False
        if self.include or self.exclude or self.required or self.cuckoo is not None:
            return self._matches_keys(self._keys_of(update))
        return True

    def _matches_keys(self, keys: Set[str]) -> bool:
        if not self.required <= keys or not self.exclude.isdisjoint(keys):
            return False
        if not self.include and self.cuckoo is None:
            return True
        if not self.include.isdisjoint(keys):
            return True
        return self.cuckoo is not None and any(bytes(Pubkey.from_string(key)) in self.cuckoo for key in keys)

    def _keys_of(self, update: TransactionUpdate) -> Set[str]:
        record = update.record
        if self.owners is None:
            return frozenset(record.keys)
        is_any = self.owners == geyser_pb2.ALL
        return frozenset(record.keys) | (_all_owners(record.meta) if is_any else _changed_owners(record.meta))


def _all_owners(meta: TransactionMeta) -> set[str]:
    return {balance.owner for balance in (*meta.pre_tokens, *meta.post_tokens)}


def _changed_owners(meta: TransactionMeta) -> set[str]:
    before = {balance.account_index: balance for balance in meta.pre_tokens}
    owners = set()
    for balance in meta.post_tokens:
        earlier = before.pop(balance.account_index, None)
        if earlier is None or earlier.amount != balance.amount:
            owners.add(balance.owner)
    return owners | {closed.owner for closed in before.values()}


def read_transaction_filters(
    asked: Mapping[str, geyser_pb2.SubscribeRequestFilterTransactions], limits: TransactionLimits
) -> tuple[TransactionFilter, ...]:
    """Read all filters of one map. Raises BadFilter."""
    return tuple(_read_transaction(name, asked[name], limits) for name in read_names(asked, limits.max))


def _read_transaction(
    name: str, asked: geyser_pb2.SubscribeRequestFilterTransactions, limits: TransactionLimits
) -> TransactionFilter:
    has = asked.HasField
    # As in Yellowstone, a filter by signature alone counts as a filter without conditions.
    is_everything = not (asked.account_include or asked.account_exclude or asked.account_required) and not any(
        has(field) for field in ("vote", "failed", "cuckoo_account_include", "token_accounts")
    )
    check_any(is_everything, limits.any)
    if has("token_accounts") and asked.token_accounts not in _MODES:
        mode = int(asked.token_accounts)
        raise BadFilter(f"invalid token_accounts mode value {mode}; expected ALL (0) or BALANCE_CHANGED (1)")
    has_cuckoo = has("cuckoo_account_include")
    return TransactionFilter(
        name=name,
        is_vote=asked.vote if has("vote") else None,
        is_failed=asked.failed if has("failed") else None,
        signature=_read_signature(asked.signature) if has("signature") else None,
        include=_texts(
            read_keys(list(asked.account_include), limits.account_include_max, limits.account_include_reject)
        ),
        cuckoo=checked_cuckoo(asked.cuckoo_account_include, limits.cuckoo_max_size) if has_cuckoo else None,
        exclude=_texts(read_keys(list(asked.account_exclude), limits.account_exclude_max)),
        required=_texts(read_keys(list(asked.account_required), limits.account_required_max)),
        owners=int(asked.token_accounts) if has("token_accounts") else None,
    )


def _read_signature(text: str) -> str:
    try:
        return str(Signature.from_string(text))
    except ValueError as error:
        raise BadFilter(str(error)) from error


def _texts(keys: frozenset[Pubkey]) -> _Keys:
    return frozenset(map(str, keys))
