"""Filters of transactions, for whole transactions and for their statuses.

Implements: one named filter of `transactions` or `transactions_status`: all its criteria must hold. The accounts of a
transaction are its static and its loaded keys. With `token_accounts`, the owners of its token balances count too: all
of them, or only owners of balances that it changed, opened or closed. Pure.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass

from solders.pubkey import Pubkey
from solders.signature import Signature

from actors.geyser_proto import geyser_pb2
from devnode.geyser.account_filters import checked_cuckoo
from devnode.geyser.cuckoo import Cuckoo
from devnode.geyser.limits import (
    BadFilter,
    TransactionLimits,
    check_any,
    check_count,
    check_names,
    read_keys,
)
from devnode.geyser.messages import TransactionUpdate
from devnode.records.records import TransactionMeta

_MODES = (geyser_pb2.ALL, geyser_pb2.BALANCE_CHANGED)
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
    check_count(len(asked), limits.max)
    check_names(list(asked))
    return tuple(_read(name, asked[name], limits) for name in sorted(asked))


def _read(
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
