from solders.signature import Signature

from devnode.chain.status_cache import Landed, StatusCache


def signature(number: int) -> Signature:
    return Signature.from_bytes(number.to_bytes(64, "little"))


def test_a_landed_signature_is_known_with_its_slot_and_error() -> None:
    cache = StatusCache()
    cache.add(signature(1), 10, None)
    cache.add(signature(2), 10, "AccountNotFound")
    assert cache.get(signature(1)) == Landed(10, None)
    assert cache.get(signature(2)) == Landed(10, "AccountNotFound")
    assert signature(3) not in cache and cache.get(signature(3)) is None


def test_statuses_outlive_every_hash_they_could_be_replayed_with() -> None:
    """A status is kept for as many blocks as its hash, then it is dropped."""
    cache = StatusCache(blocks_kept=3)
    for slot in range(5):
        cache.add(signature(slot), slot, None)
        cache.seal(slot)
    assert [signature(slot) in cache for slot in range(5)] == [False, False, True, True, True]


def test_transactions_of_a_lost_fork_have_not_landed() -> None:
    cache = StatusCache()
    for slot in (10, 11, 12):
        cache.add(signature(slot), slot, None)
        cache.seal(slot)
    assert cache.abandon(11) == 2
    assert [signature(slot) in cache for slot in (10, 11, 12)] == [True, False, False]
    cache.add(signature(11), 13, None)
    assert cache.get(signature(11)) == Landed(13, None)
