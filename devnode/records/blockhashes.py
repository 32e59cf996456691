"""Recent blockhashes and durable nonces: which of them a transaction may use.

Implements: Agave's rule that a transaction may land while the height of the block being built is at most
the height of its hash's block plus 150; the queue keeps 300 hashes. Nonce accounts of the System program (80 bytes:
version, state, authority, value, fee), and the chain's derivation of a durable nonce from a blockhash. The VM's own
blockhashes repeat after a restart, so its nonce values are replaced by values of this chain's salted queue: an old
nonce transaction is never valid a second time.
Pure: no clock, no I/O, no randomness (the salt is an argument).
"""

import hashlib
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from solders.account import Account
from solders.hash import Hash
from solders.pubkey import Pubkey

from devnode.encoding.addresses import NONCE_ACCOUNT_BYTES, SYSTEM_PROGRAM

BLOCKHASHES_KEPT = 300  # MAX_RECENT_BLOCKHASHES of the chain.
BLOCKHASH_VALID_BLOCKS = 150  # MAX_PROCESSING_AGE of the chain.
_STATE_INITIALIZED = 1
_VALUE = slice(40, 72)
_ADVANCE_NONCE = (4).to_bytes(4, "little")


@dataclass(frozen=True, slots=True)
class RecentBlockhash:
    blockhash: Hash
    slot: int
    height: int

    @property
    def last_valid_height(self) -> int:
        return self.height + BLOCKHASH_VALID_BLOCKS


@dataclass(slots=True)
class BlockhashQueue:
    """Recent blockhashes, oldest first; getLatestBlockhash returns `last_valid_height` of an entry."""

    _queue: deque[RecentBlockhash] = field(default_factory=deque)
    _by_hash: dict[Hash, RecentBlockhash] = field(default_factory=dict)

    @classmethod
    def restore(cls, entries: Iterable[RecentBlockhash]) -> "BlockhashQueue":
        queue = cls()
        for entry in entries:
            queue.register(entry)
        return queue

    def register(self, entry: RecentBlockhash) -> None:
        assert not self._queue or entry.height > self._queue[-1].height, entry
        assert entry.blockhash not in self._by_hash, entry
        self._queue.append(entry)
        self._by_hash[entry.blockhash] = entry
        if len(self._queue) > BLOCKHASHES_KEPT:
            del self._by_hash[self._queue.popleft().blockhash]

    def latest(self) -> RecentBlockhash:
        return self._queue[-1]

    def latest_at(self, slot: int) -> RecentBlockhash:
        """The newest hash whose block is at or before the slot; if there is none, the oldest hash."""
        for entry in reversed(self._queue):
            if entry.slot <= slot:
                return entry
        return self._queue[0]

    def is_usable(self, blockhash: Hash, slot: int, height: int) -> bool:
        """Whether a bank at this slot and height accepts a transaction with the hash."""
        entry = self._by_hash.get(blockhash)
        return entry is not None and entry.slot <= slot and height <= entry.last_valid_height

    def last_valid_height(self, blockhash: Hash) -> int | None:
        """The last block height for the hash; None for an unknown hash."""
        entry = self._by_hash.get(blockhash)
        return None if entry is None else entry.last_valid_height

    def entries(self) -> list[RecentBlockhash]:
        return list(self._queue)

    def abandon(self, first_slot: int) -> None:
        """Forget the hashes of a lost fork, from the slot on."""
        while self._queue and self._queue[-1].slot >= first_slot:
            del self._by_hash[self._queue.pop().blockhash]

    def __bool__(self) -> bool:
        return bool(self._queue)

    def expire_all(self) -> None:
        """Forget every hash but the newest: transactions signed with an older hash can no longer land."""
        newest = self._queue[-1]
        self._queue = deque((newest,))
        self._by_hash = {newest.blockhash: newest}


def next_blockhash(salt: bytes, previous: Hash, slot: int, signatures: Iterable[bytes]) -> Hash:
    """The blockhash of a sealed block: salted, so that two chains never produce the same hash."""
    digest = hashlib.sha256(salt)
    digest.update(bytes(previous))
    digest.update(slot.to_bytes(8, "little"))
    for signature in signatures:
        digest.update(signature)
    return Hash.from_bytes(digest.digest())


def durable_nonce(blockhash: Hash) -> Hash:
    return Hash.from_bytes(hashlib.sha256(b"DURABLE_NONCE" + bytes(blockhash)).digest())


def stored_value(account: Account | None) -> Hash | None:
    """The nonce that a durable transaction must name; None when the account is not an initialized nonce account."""
    # Check the owner first: reading `data` copies it, and a program's data can be megabytes.
    if account is None or account.owner != SYSTEM_PROGRAM:
        return None
    data = account.data
    if len(data) != NONCE_ACCOUNT_BYTES or int.from_bytes(data[4:8], "little") != _STATE_INITIALIZED:
        return None
    return Hash.from_bytes(data[_VALUE])


def with_value(account: Account, value: Hash) -> Account:
    data = bytearray(account.data)
    assert len(data) == NONCE_ACCOUNT_BYTES, len(data)
    data[_VALUE] = bytes(value)
    return Account(account.lamports, bytes(data), account.owner, account.executable, account.rent_epoch)


def nonce_account_of(program: Pubkey, data: bytes, accounts: tuple[Pubkey, ...]) -> Pubkey | None:
    """The nonce account that an instruction advances, or None. The chain looks only at a first instruction."""
    if program != SYSTEM_PROGRAM or data[:4] != _ADVANCE_NONCE or not accounts:
        return None
    return accounts[0]
