import orjson
from hypothesis import given
from hypothesis import strategies as st

from actors.upstream import replies
from actors.upstream.cache import Cache, marked
from actors.upstream.node_health import Commitment
from actors.upstream.reads import read_of
from actors.upstream.replies import Lease, NodeAnswer

BALANCE = read_of("getBalance", b'["k",{"commitment":"confirmed"}]')
BLOCK = read_of("getBlock", b"[5]")


def answer_of(result: object) -> NodeAnswer:
    return replies.judge(orjson.dumps({"jsonrpc": "2.0", "result": result, "id": 1}), "a")


def at_slot(slot: int, value: int = 0) -> NodeAnswer:
    return answer_of({"context": {"slot": slot}, "value": value})


def test_what_is_final_is_given_for_ever():
    """And says that it was kept, and who served it first."""
    cache = Cache(10_000)
    cache.keep(BLOCK, answer_of({"blockhash": "x"}), 0.0)
    kept = cache.forever(BLOCK)
    assert (kept.cache, kept.node) == ("hit", "a")
    assert cache.pinned(BLOCK, 0.0) is None


def test_what_became_final_after_it_was_asked_is_not_kept():
    """The answer may have been read before, from a fork that was lost since."""
    cache = Cache(10_000)
    block = read_of("getBlock", b'[5,{"commitment":"confirmed"}]')
    cache.saw_slot(Commitment.FINALIZED, 9)
    for finalized_slot in (None, 4):
        cache.keep(block, answer_of({"blockhash": "lost"}), 0.0, finalized_slot)
        assert cache.forever(block) is None
    cache.keep(block, answer_of({"blockhash": "x"}), 0.0, 5)
    assert cache.forever(block) is not None


def test_errors_and_null_are_never_kept():
    """What is not there yet may be there in a moment."""
    cache = Cache(10_000)
    error = replies.judge(b'{"jsonrpc":"2.0","error":{"code":-32004,"message":"Block not available"},"id":1}')
    for answer in (error, answer_of(None), replies.TIMED_OUT, replies.UNREACHABLE):
        cache.keep(BLOCK, answer, 0.0)
        cache.keep(BALANCE, answer, 0.0)
    assert not cache.entries


def test_a_pinned_answer_ends_with_its_slot():
    """As soon as a later slot is known at its commitment, or after a slot's length in any case."""
    cache = Cache(10_000)
    cache.keep(BALANCE, at_slot(7), 0.0)
    entry = cache.pinned(BALANCE, 0.1)
    assert entry.slot == 7
    assert cache.pinned(BALANCE, 0.5) is None
    cache.saw_slot(Commitment.PROCESSED, 9)
    assert cache.pinned(BALANCE, 0.1) is entry
    cache.saw_slot(Commitment.FINALIZED, 8)
    assert cache.pinned(BALANCE, 0.1) is None
    assert not cache.holds(BALANCE, entry)


def test_an_answer_from_a_node_behind_is_not_kept():
    """It was given to whoever was sent there; nobody else need get it."""
    cache = Cache(10_000)
    cache.saw_slot(Commitment.CONFIRMED, 8)
    cache.keep(BALANCE, at_slot(7), 0.0)
    assert not cache.entries


def test_an_answer_that_names_no_slot_is_not_kept():
    """Nothing could say when it ends."""
    cache = Cache(10_000)
    cache.keep(BALANCE, answer_of({"value": 1}), 0.0)
    assert not cache.entries


def test_a_kept_answer_gives_back_the_room_of_large_ones():
    """What is kept has a bound of its own."""
    given_back = []
    cache = Cache(10_000)
    body = b'{"jsonrpc":"2.0","result":{"x":1},"id":1}'
    cache.keep(BLOCK, replies.judge(body, "a", Lease(lambda: given_back.append(1))), 0.0)
    assert given_back == [1]
    assert cache.forever(BLOCK) is not None


def test_failures_carry_no_mark():
    """Nothing was served, so nothing was hit or missed."""
    assert marked(replies.TIMED_OUT, "miss") is replies.TIMED_OUT
    assert marked(at_slot(1), "miss").cache == "miss"


def test_the_longest_unused_goes_first():
    """Looking at an answer counts as using it."""
    cache = Cache(4_000)
    reads = [read_of("getBlock", b"[%d]" % number) for number in range(5)]
    for read in reads[:4]:
        cache.keep(read, answer_of({"x": "y" * 440}), 0.0)
    assert cache.forever(reads[0]) is not None
    cache.keep(reads[4], answer_of({"x": "y" * 440}), 0.0)
    assert [read for read in reads if cache.forever(read) is None] == [reads[1]]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3_000)), max_size=80))
def test_bytes_are_bounded(steps):
    """Whatever is kept: the sum is right and within the bound, and one answer never fills it all."""
    cache = Cache(10_000)
    for number, size in steps:
        cache.keep(read_of("getBlock", b"[%d]" % number), answer_of({"x": "y" * size}), 0.0)
        assert cache.bytes_used == sum(entry.size for entry in cache.entries.values()) <= 10_000
        assert all(entry.size <= 2_500 for entry in cache.entries.values())
