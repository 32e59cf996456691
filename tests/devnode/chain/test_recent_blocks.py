from solders.signature import Signature

from devnode.chain.recent_blocks import BLOCKS_KEPT, FeeCache, Landed, PerformanceSampler, Sample, StatusCache


def test_the_lowest_price_of_a_block_counts() -> None:
    cache = FeeCache()
    cache.add_block(1, [(500, ("a", "b")), (300, ("b",)), (None, ("b",))])  # The last asked for no units.
    cache.add_block(2, [])
    assert cache.recent([]) == [(1, 300), (2, 0)]


def test_a_locked_account_raises_the_price_to_its_own_lowest() -> None:
    """An account that no transaction of a block locked has the block's price."""
    cache = FeeCache()
    cache.add_block(1, [(500, ("a",)), (700, ("a", "c")), (100, ("b",))])
    assert cache.recent(["a"]) == [(1, 500)]
    assert cache.recent(["c", "b"]) == [(1, 700)]
    assert cache.recent(["z"]) == [(1, 100)]


def test_a_hundred_and_fifty_blocks_are_kept() -> None:
    cache = FeeCache()
    for slot in range(BLOCKS_KEPT + 20):
        cache.add_block(slot, [])
    assert len(cache.recent([])) == BLOCKS_KEPT
    assert cache.recent([])[0][0] == 20


def test_prices_of_a_lost_fork_are_forgotten() -> None:
    cache = FeeCache()
    for slot in (1, 2, 3):
        cache.add_block(slot, [(slot * 100, ())])
    cache.abandon(2)
    assert cache.recent([]) == [(1, 100)]


def test_a_sample_covers_a_minute() -> None:
    sampler = PerformanceSampler()
    for second in range(121):
        sampler.observe(1_000 + second, 2, float(second))
    newest, older = sampler.recent(10)
    assert older == Sample(1_060, 61, 122, 60)
    assert newest == Sample(1_120, 60, 120, 60)
    assert sampler.recent(1) == [newest]


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
