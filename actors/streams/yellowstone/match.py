"""Evaluates the filters of a Yellowstone subscription on blocks that are kept here, for replays.

Implements: Yellowstone's filters of accounts, transactions, their statuses, blocks, block metas, entries and statuses
of slots, as the node applies them to live updates. Lists hold if one member matches; all criteria of a filter must
hold. Pure. Not here: checks of a request (yellowstone/limits.py), the updates that are made (yellowstone/blocks.py).
"""

import base64
from collections.abc import Callable, Iterable, Set
from typing import Protocol, TypeVar

import base58
import msgspec
from nacl.encoding import RawEncoder
from nacl.hash import siphash24
from solders.pubkey import Pubkey

from actors.geyser_proto import geyser_pb2, solana_storage_pb2

Account = geyser_pb2.SubscribeUpdateAccountInfo
Transaction = geyser_pb2.SubscribeUpdateTransactionInfo

LEVEL_STATUSES: dict[int, int] = {
    geyser_pb2.PROCESSED: geyser_pb2.SLOT_PROCESSED,
    geyser_pb2.CONFIRMED: geyser_pb2.SLOT_CONFIRMED,
    geyser_pb2.FINALIZED: geyser_pb2.SLOT_FINALIZED,
}
_LEVELS = frozenset(LEVEL_STATUSES.values())
_TOKEN_ACCOUNT_BYTES, _MULTISIG_BYTES = 165, 355
_TOKEN_STATE_OFFSET, _TOKEN_TYPE_OFFSET, _TOKEN_TYPE_ACCOUNT = 108, 165, 2
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": int.__eq__,
    "ne": int.__ne__,
    "lt": int.__lt__,
    "gt": int.__gt__,
}


class Cuckoo:
    """A compressed set of keys. A member is always found; another key may be found by chance (as in
    yellowstone-grpc)."""

    def __init__(self, message: geyser_pb2.CuckooFilter) -> None:
        seed = message.hash_seed
        rotated = (seed << 32 | seed >> 32) & (2**64 - 1)
        self._key = seed.to_bytes(8, "little") + rotated.to_bytes(8, "little")
        self._data, self._mask = message.data, message.bucket_count - 1

    def __contains__(self, pubkey: bytes) -> bool:
        hashed = self._hash((32).to_bytes(8, "little") + pubkey)  # Of a serialized array: its length first.
        fingerprint = ((hashed >> 32) & 0xFFFF or 1).to_bytes(2, "little")
        first = hashed & self._mask
        return self._holds(first, fingerprint) or self._holds(
            first ^ (self._hash(fingerprint) & self._mask), fingerprint
        )

    def _holds(self, bucket: int, fingerprint: bytes) -> bool:
        return any(self._data[at : at + 2] == fingerprint for at in range(bucket * 8, bucket * 8 + 8, 2))

    def _hash(self, item: bytes) -> int:
        return int.from_bytes(siphash24(item, key=self._key, encoder=RawEncoder), "little")


class KeySet(msgspec.Struct, frozen=True):
    """Keys, and keys in a compressed set. Empty: everything matches."""

    keys: frozenset[bytes]
    cuckoo: Cuckoo | None

    @property
    def is_empty(self) -> bool:
        return not self.keys and self.cuckoo is None

    def has(self, key: bytes) -> bool:
        return key in self.keys or (self.cuckoo is not None and key in self.cuckoo)

    def has_any(self, keys: Set[bytes]) -> bool:
        return not self.keys.isdisjoint(keys) or (self.cuckoo is not None and any(key in self.cuckoo for key in keys))


def key_set(texts: Iterable[str], cuckoo: geyser_pb2.CuckooFilter | None) -> KeySet:
    return KeySet(_keys(texts), None if cuckoo is None else Cuckoo(cuckoo))


def _keys(texts: Iterable[str]) -> frozenset[bytes]:
    return frozenset(bytes(Pubkey.from_string(text)) for text in texts)


Candidate = TypeVar("Candidate", contravariant=True)


class Filter(Protocol[Candidate]):
    """is_dear: one look takes as long as a hundred of other filters: it has a compressed set."""

    @property
    def is_dear(self) -> bool: ...

    def matches(self, one: Candidate, /) -> bool: ...


class AccountFilter:
    """One filter of `accounts`. pubkeys: without a compressed set, no other account can match; empty: any can."""

    def __init__(self, asked: geyser_pb2.SubscribeRequestFilterAccounts) -> None:
        has_cuckoo = asked.HasField("cuckoo_accounts_filter")
        self._wanted = key_set(asked.account, asked.cuckoo_accounts_filter if has_cuckoo else None)
        self._owners = _keys(asked.owner)
        self._is_signed = asked.nonempty_txn_signature if asked.HasField("nonempty_txn_signature") else None
        self._conditions = [_condition(one) for one in asked.filters]

    @property
    def pubkeys(self) -> frozenset[bytes]:
        return frozenset() if self._wanted.cuckoo is not None else self._wanted.keys

    @property
    def is_dear(self) -> bool:
        return self._wanted.cuckoo is not None

    def matches(self, account: Account) -> bool:
        if self._is_signed is not None and self._is_signed != account.HasField("txn_signature"):
            return False
        if not self._wanted.is_empty and not self._wanted.has(account.pubkey):
            return False
        if self._owners and account.owner not in self._owners:
            return False
        return all(condition(account) for condition in self._conditions)


def _condition(asked: geyser_pb2.SubscribeRequestFilterAccountsFilter) -> Callable[[Account], bool]:
    match asked.WhichOneof("filter"):
        case "memcmp":
            offset, data = asked.memcmp.offset, _compared(asked.memcmp)
            # The length is checked, as an empty comparison beyond the end does not match.
            return lambda one: offset + len(data) <= len(one.data) and one.data[offset : offset + len(data)] == data
        case "datasize":
            return lambda one: len(one.data) == asked.datasize
        case "lamports":
            how = asked.lamports.WhichOneof("cmp")
            assert how is not None, "checked before"
            compare, value = _COMPARISONS[how], getattr(asked.lamports, how)
            return lambda one: compare(one.lamports, value)
    return lambda one: _is_token_account(one.data)


def _compared(asked: geyser_pb2.SubscribeRequestFilterAccountsFilterMemcmp) -> bytes:
    match asked.WhichOneof("data"):
        case "base58":
            return bytes(base58.b58decode(asked.base58))
        case "base64":
            return base64.b64decode(asked.base64, validate=True)
    return asked.bytes


def _is_token_account(data: bytes) -> bool:
    """Whether the bytes are an initialized account of a token program."""
    size = len(data)
    if size < _TOKEN_ACCOUNT_BYTES or size == _MULTISIG_BYTES:
        return False
    is_extended = size > _TOKEN_ACCOUNT_BYTES
    if is_extended and data[_TOKEN_TYPE_OFFSET] != _TOKEN_TYPE_ACCOUNT:
        return False
    return data[_TOKEN_STATE_OFFSET] != 0


class TransactionKeys:
    """A transaction with the keys that filters look at, each set made once."""

    def __init__(self, info: Transaction) -> None:
        self.info = info
        self._keys: dict[int | None, frozenset[bytes]] = {}

    def keys(self, token_accounts: int | None) -> frozenset[bytes]:
        """Static and loaded keys, and the owners of token balances in the given mode."""
        found = self._keys.get(token_accounts)
        if found is None:
            meta = self.info.meta
            every = [*self.info.transaction.message.account_keys, *meta.loaded_writable_addresses]
            every += meta.loaded_readonly_addresses
            if token_accounts is not None:
                owners = _owners(meta, token_accounts == geyser_pb2.ALL)
                every += [base58.b58decode(owner) for owner in owners if owner]
            found = self._keys[token_accounts] = frozenset(every)
        return found


def _owners(meta: solana_storage_pb2.TransactionStatusMeta, are_all: bool) -> set[str]:
    before = {one.account_index: one for one in meta.pre_token_balances}
    owners = set()
    for balance in meta.post_token_balances:
        earlier = before.get(balance.account_index) if are_all else before.pop(balance.account_index, None)
        if are_all or earlier is None or earlier.ui_token_amount.amount != balance.ui_token_amount.amount:
            owners.add(balance.owner)
    return owners | {one.owner for one in before.values()}


class TransactionFilter:
    """One filter of `transactions` or `transactions_status`."""

    def __init__(self, asked: geyser_pb2.SubscribeRequestFilterTransactions) -> None:
        has = asked.HasField
        self._is_vote = asked.vote if has("vote") else None
        self._is_failed = asked.failed if has("failed") else None
        self._signature = base58.b58decode(asked.signature) if has("signature") else None
        self._include = key_set(
            asked.account_include, asked.cuckoo_account_include if has("cuckoo_account_include") else None
        )
        self._exclude = _keys(asked.account_exclude)
        self._required = _keys(asked.account_required)
        self._token_accounts = asked.token_accounts if has("token_accounts") else None

    @property
    def is_dear(self) -> bool:
        return self._include.cuckoo is not None

    def matches(self, one: TransactionKeys) -> bool:
        info = one.info
        if self._is_vote is not None and self._is_vote != info.is_vote:
            return False
        if self._is_failed is not None and self._is_failed != info.meta.HasField("err"):
            return False
        if self._signature is not None and self._signature != info.signature:
            return False
        if self._include.is_empty and not self._exclude and not self._required:
            return True
        keys = one.keys(self._token_accounts)
        if not self._required <= keys or not self._exclude.isdisjoint(keys):
            return False
        return self._include.is_empty or self._include.has_any(keys)


class BlockFilter:
    """One filter of `blocks`: which parts of each block are sent."""

    def __init__(self, asked: geyser_pb2.SubscribeRequestFilterBlocks) -> None:
        self.has_transactions = asked.include_transactions or not asked.HasField("include_transactions")
        self.has_accounts, self.has_entries = asked.include_accounts, asked.include_entries
        has_cuckoo = asked.HasField("cuckoo_account_include")
        self.keys = key_set(asked.account_include, asked.cuckoo_account_include if has_cuckoo else None)


class SlotFilter:
    def __init__(self, asked: geyser_pb2.SubscribeRequestFilterSlots, level: int) -> None:
        self._only = LEVEL_STATUSES[level] if asked.filter_by_commitment else None
        self._is_interslot = asked.interslot_updates

    def matches(self, status: int) -> bool:
        if self._only is not None and status != self._only:
            return False
        return self._is_interslot or status in _LEVELS


class StreamFilter:
    """All filters of a subscription, by name."""

    def __init__(self, asked: geyser_pb2.SubscribeRequest) -> None:
        self.level = asked.commitment
        self.slices = tuple((one.offset, one.offset + one.length) for one in asked.accounts_data_slice)
        self.accounts = {name: AccountFilter(asked.accounts[name]) for name in sorted(asked.accounts)}
        listed = [one.pubkeys for one in self.accounts.values()]
        # The only accounts that can match; None: any can.
        self.pubkeys = frozenset[bytes]().union(*listed) if all(listed) else None
        self.transactions = {name: TransactionFilter(asked.transactions[name]) for name in sorted(asked.transactions)}
        statuses = asked.transactions_status
        self.transactions_status = {name: TransactionFilter(statuses[name]) for name in sorted(statuses)}
        self.blocks = {name: BlockFilter(asked.blocks[name]) for name in sorted(asked.blocks)}
        self.blocks_meta, self.entries = tuple(sorted(asked.blocks_meta)), tuple(sorted(asked.entry))
        self._slots = {name: SlotFilter(asked.slots[name], self.level) for name in sorted(asked.slots)}

    def of_status(self, status: int) -> tuple[str, ...]:
        """The names of the filters that match a status of a slot."""
        return tuple(name for name, one in self._slots.items() if one.matches(status))
