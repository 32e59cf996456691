from hypothesis import given
from hypothesis import strategies as st
from solders.account import Account
from solders.hash import Hash
from solders.pubkey import Pubkey

from devnode.encoding.addresses import SYSTEM_PROGRAM, TOKEN_PROGRAM
from devnode.records.blockhashes import (
    BLOCKHASH_VALID_BLOCKS,
    BLOCKHASHES_KEPT,
    BlockhashQueue,
    RecentBlockhash,
    durable_nonce,
    next_blockhash,
    nonce_account_of,
    stored_value,
    with_value,
)


def filled(count: int) -> BlockhashQueue:
    queue = BlockhashQueue()
    for height in range(count):
        queue.register(entry(height))
    return queue


def entry(height: int) -> RecentBlockhash:
    return RecentBlockhash(Hash.from_bytes(height.to_bytes(32, "little")), 1_000 + height, height)


def test_a_hash_is_usable_up_to_its_last_valid_height() -> None:
    """The height that getLatestBlockhash announces is the last one that works."""
    queue = filled(3)
    hash_of_two = entry(2)
    last = hash_of_two.last_valid_height
    assert last == 2 + BLOCKHASH_VALID_BLOCKS
    assert queue.is_usable(hash_of_two.blockhash, 2_000, last)
    assert not queue.is_usable(hash_of_two.blockhash, 2_000, last + 1)


def test_an_older_bank_does_not_know_newer_hashes() -> None:
    """A hash fetched at confirmed is unknown to the finalized bank."""
    queue = filled(5)
    assert not queue.is_usable(entry(4).blockhash, 1_003, 4)
    assert queue.is_usable(entry(3).blockhash, 1_003, 4)


def test_an_unknown_hash_is_not_usable() -> None:
    assert not filled(5).is_usable(entry(77).blockhash, 10_000, 5)


@given(st.integers(1, 2 * BLOCKHASHES_KEPT))
def test_three_hundred_are_kept(count: int) -> None:
    """The queue is bounded and drops its oldest hash first."""
    queue = filled(count)
    assert len(queue.entries()) == min(count, BLOCKHASHES_KEPT)
    assert queue.latest() == entry(count - 1)
    assert BlockhashQueue.restore(queue.entries()).entries() == queue.entries()


def test_latest_at_a_slot() -> None:
    queue = filled(5)
    assert queue.latest_at(1_002) == entry(2)
    assert queue.latest_at(9_999) == entry(4)
    assert queue.latest_at(1) == entry(0)


def test_expiring_leaves_only_the_newest() -> None:
    queue = filled(5)
    queue.expire_all()
    assert queue.entries() == [entry(4)]
    assert not queue.is_usable(entry(3).blockhash, 2_000, 4)


def test_salt_and_content_both_change_the_hash() -> None:
    """Two nodes, or two blocks, never share a blockhash."""
    previous = Hash.default()
    base = next_blockhash(b"a" * 32, previous, 5, [b"x"])
    assert base == next_blockhash(b"a" * 32, previous, 5, [b"x"])
    assert base != next_blockhash(b"b" * 32, previous, 5, [b"x"])
    assert base != next_blockhash(b"a" * 32, previous, 6, [b"x"])
    assert base != next_blockhash(b"a" * 32, previous, 5, [b"y"])


def test_hashes_of_a_lost_fork_are_unknown() -> None:
    """The hashes of a lost fork are not usable, and its heights may be used again."""
    queue = BlockhashQueue()
    hashes = [Hash.from_bytes(bytes([number]) * 32) for number in range(4)]
    for number in range(3):
        queue.register(RecentBlockhash(hashes[number], 100 + number, number))
    queue.abandon(101)
    assert queue.latest().blockhash == hashes[0]
    assert not queue.is_usable(hashes[1], 110, 3)
    queue.register(RecentBlockhash(hashes[3], 103, 1))
    assert queue.is_usable(hashes[3], 103, 2) and queue
    queue.abandon(0)
    assert not queue


VALUE = Hash.from_bytes(b"\x07" * 32)


def nonce_account(state: int = 1, owner: Pubkey = SYSTEM_PROGRAM) -> Account:
    head = (1).to_bytes(4, "little") + state.to_bytes(4, "little")
    data = head + bytes(32) + bytes(VALUE) + (5_000).to_bytes(8, "little")
    return Account(1_447_680, data, owner, False, 0)


def test_only_initialized_nonce_accounts_have_a_value() -> None:
    assert stored_value(nonce_account()) == VALUE
    assert stored_value(nonce_account(state=0)) is None
    assert stored_value(nonce_account(owner=TOKEN_PROGRAM)) is None
    assert stored_value(Account(1, b"", SYSTEM_PROGRAM, False, 0)) is None
    assert stored_value(None) is None


def test_setting_the_value_touches_nothing_else() -> None:
    other = Hash.from_bytes(b"\x08" * 32)
    changed = with_value(nonce_account(), other)
    assert stored_value(changed) == other
    assert changed.data[:40] == nonce_account().data[:40] and changed.data[72:] == nonce_account().data[72:]
    assert changed.lamports == 1_447_680


def test_nonces_of_different_hashes_differ() -> None:
    assert durable_nonce(VALUE) != durable_nonce(Hash.default())
    assert durable_nonce(VALUE) != VALUE


def test_the_nonce_account_is_the_first_of_advance() -> None:
    key = Pubkey.from_bytes(b"\x01" * 32)
    advance = (4).to_bytes(4, "little")
    assert nonce_account_of(SYSTEM_PROGRAM, advance, (key,)) == key
    assert nonce_account_of(TOKEN_PROGRAM, advance, (key,)) is None
    assert nonce_account_of(SYSTEM_PROGRAM, (2).to_bytes(4, "little"), (key,)) is None
    assert nonce_account_of(SYSTEM_PROGRAM, advance, ()) is None
