from devnode.chain.fee_cache import BLOCKS_KEPT, FeeCache


def test_the_lowest_price_of_a_block_counts() -> None:
    cache = FeeCache()
    cache.add_block(1, [(500, ("a", "b")), (300, ("b",))])
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
