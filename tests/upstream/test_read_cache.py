import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.upstream import replies
from actors.upstream.node_health import Commitment
from actors.upstream.read_cache import Kept, ReadCache, marked, read_of, slot_result
from actors.upstream.replies import Lease, NodeAnswer

BALANCE = read_of("getBalance", b'["k",{"commitment":"confirmed"}]')
BLOCK = read_of("getBlock", b"[5]")


def answer_of(result: object) -> NodeAnswer:
    return replies.judge(orjson.dumps({"jsonrpc": "2.0", "result": result, "id": 1}), "a")


def at_slot(slot: int, value: int = 0) -> NodeAnswer:
    return answer_of({"context": {"slot": slot}, "value": value})


ERROR = replies.judge(b'{"jsonrpc":"2.0","error":{"code":-32004,"message":"Block not available for slot 5"},"id":1}')


@pytest.mark.parametrize("method", ["sendTransaction", "simulateTransaction", "simulateBundle", "requestAirdrop", "x"])
def test_sends_and_simulations_are_not_shared(method):
    """Two sends are two sends, however alike."""
    assert read_of(method, b"[]") is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'["k"]', b'[ "k" ]'),
        (b'["k"]', b'["k",{}]'),
        (b'["k"]', b'["k",{"commitment":"finalized"}]'),
        (
            b'["k",{"commitment":"confirmed","encoding":"base64"}]',
            b'["k",{"encoding":"base64","commitment":"confirmed"}]',
        ),
        (b'["k",{"encoding":"base64"}]', b'["k",{"encoding":"base64","minContextSlot":null}]'),
        (b'["\\u006b"]', b'["k"]'),
    ],
)
def test_the_same_question_in_other_bytes_is_the_same(one, other):
    """Spaces, the order of names, and what goes without saying."""
    assert read_of("getAccountInfo", one) == read_of("getAccountInfo", other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'["k"]', b'["l"]'),
        (b'["k"]', b'["k",{"commitment":"confirmed"}]'),
        (b'["k"]', b'["k",{"commitment":"processed"}]'),
        (b'["k"]', b'["k",{"minContextSlot":5}]'),
        (b'["k",{"dataSlice":{"offset":0,"length":1}}]', b'["k",{"dataSlice":{"offset":1,"length":0}}]'),
        (b"[18446744073709551616]", b"[18446744073709551617]"),
        (b"[1.0]", b"[1]"),
        (b'["1"]', b"[1]"),
        (b"[true]", b"[1]"),
    ],
)
def test_another_question_is_another(one, other):
    """Nobody gets the answer to somebody else's question; numbers that decoding would blur included."""
    assert read_of("getAccountInfo", one).key != read_of("getAccountInfo", other).key


def test_methods_are_told_apart():
    """The name is part of the question."""
    assert read_of("getBalance", b'["k"]').key != read_of("getAccountInfo", b'["k"]').key


@pytest.mark.parametrize(
    ("method", "params", "kept"),
    [
        ("getGenesisHash", b"[]", Kept.FOREVER),
        ("getBlock", b'[5,{"commitment":"confirmed"}]', Kept.FOREVER),
        ("getBlock", b"[null]", Kept.IN_FLIGHT),
        ("getBalance", b'["k"]', Kept.SLOT),
        ("getBalance", b'["k",{"commitment":"confirmed"}]', Kept.SLOT),
        ("getBalance", b'["k",{"commitment":"processed"}]', Kept.IN_FLIGHT),
        ("getBalance", b'["k",{"commitment":"recent"}]', Kept.IN_FLIGHT),
        ("getBalance", b'["k",{"commitment":7}]', Kept.IN_FLIGHT),
        ("getSlot", b"[]", Kept.IN_FLIGHT),
        ("getSignatureStatuses", b'[["s"]]', Kept.IN_FLIGHT),
        ("getLatestBlockhash", b"[]", Kept.IN_FLIGHT),
    ],
)
def test_what_is_kept_and_for_how_long(method, params, kept):
    """At processed a slot's bank is still being built; clocks and statuses are what callers poll for change."""
    assert read_of(method, params).kept is kept


@pytest.mark.parametrize(
    ("method", "params", "answer", "final"),
    [
        ("getGenesisHash", b"[]", answer_of("hash"), True),
        ("getBlock", b"[150]", answer_of({"blockhash": "x"}), True),
        ("getBlock", b'[100,{"commitment":"confirmed"}]', answer_of({"blockhash": "x"}), True),
        ("getBlock", b'[101,{"commitment":"confirmed"}]', answer_of({"blockhash": "x"}), False),
        ("getBlock", b'[100,{"commitment":"processed"}]', answer_of({"blockhash": "x"}), True),
        ("getBlock", b'[100,{"commitment":"recent"}]', answer_of({"blockhash": "x"}), False),
        ("getBlock", b"[5]", ERROR, False),
        ("getBlock", b"[5]", answer_of(None), False),
        ("getBlockTime", b"[100]", answer_of(1_700_000_000), True),
        ("getBlockTime", b"[101]", answer_of(1_700_000_000), False),
        ("getBlockTime", b"[5]", answer_of(None), False),
        ("getTransaction", b'["s"]', answer_of({"slot": 500}), True),
        ("getTransaction", b'["s",{"commitment":"confirmed"}]', answer_of({"meta": {"slot": 5}, "slot": 100}), True),
        ("getTransaction", b'["s",{"commitment":"confirmed"}]', answer_of({"slot": 101}), False),
        ("getTransaction", b'["s",{"commitment":"confirmed"}]', answer_of({"x": 1}), False),
        ("getTransaction", b'["s"]', answer_of(None), False),
    ],
)
def test_only_what_is_final_is_kept_for_ever(method, params, answer, final):
    """Errors, null and blocks that a fork may replace are not final; the highest finalized slot is 100 here."""
    read, cache = read_of(method, params), ReadCache(10_000)
    if b"confirmed" in params:
        cache.keep(read, answer, 0.0, None)
        assert cache.permanent(read) is None
    cache.keep(read, answer, 0.0, 100)
    assert (cache.permanent(read) is not None) is final


@pytest.mark.parametrize(
    ("result", "slot"),
    [
        ({"context": {"apiVersion": "3.0", "slot": 42}, "value": 1}, 42),
        ({"value": {"slot": 42}}, None),
        ({"value": "x" * 300, "context": {"slot": 42}}, None),
    ],
)
def test_the_slot_of_the_bank_is_read_from_the_result(result, slot):
    """Only from its context, which comes first; a slot within the value is not one."""
    cache = ReadCache(10_000)
    cache.keep(BALANCE, answer_of(result), 0.0)
    entry = cache.pinned(BALANCE, 0.0)
    assert (entry.slot if entry else None) == slot


def test_the_slot_that_a_node_gives_is_a_number_or_nothing():
    """Whatever else it says proves nothing."""
    assert slot_result(answer_of(7)) == 7
    assert slot_result(answer_of("7")) is None
    assert slot_result(ERROR) is None
    assert slot_result(replies.TIMED_OUT) is None


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), 1 << 64) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(values, max_size=3), st.lists(values, max_size=3))
def test_keys_are_equal_only_for_equal_questions(one, other):
    """Against Python's own comparison, with types told apart."""

    def typed(value: object) -> object:
        if isinstance(value, dict):
            return {name: typed(item) for name, item in value.items()}
        if isinstance(value, list):
            return [typed(item) for item in value]
        return (type(value).__name__, value)

    def plain(arguments: list) -> object:
        if arguments and isinstance(arguments[-1], dict):
            rest = {
                name: item
                for name, item in arguments[-1].items()
                if item is not None and (name, item) != ("commitment", "finalized")
            }
            arguments = [*arguments[:-1], rest] if rest else arguments[:-1]
        return typed(arguments)

    keys = [read_of("getAccountInfo", orjson_or_json(arguments)).key for arguments in (one, other)]
    assert (keys[0] == keys[1]) is (plain(one) == plain(other))


def orjson_or_json(value: object) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # Beyond 64 bits.
        import json

        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def test_what_is_final_is_given_for_ever():
    """And says that it was kept, and who served it first."""
    cache = ReadCache(10_000)
    cache.keep(BLOCK, answer_of({"blockhash": "x"}), 0.0)
    kept = cache.permanent(BLOCK)
    assert (kept.cache, kept.node) == ("hit", "a")
    assert cache.pinned(BLOCK, 0.0) is None


def test_what_became_final_after_it_was_asked_is_not_kept():
    """The answer may have been read before, from a fork that was lost since."""
    cache = ReadCache(10_000)
    block = read_of("getBlock", b'[5,{"commitment":"confirmed"}]')
    cache.saw_slot(Commitment.FINALIZED, 9)
    for finalized_slot in (None, 4):
        cache.keep(block, answer_of({"blockhash": "lost"}), 0.0, finalized_slot)
        assert cache.permanent(block) is None
    cache.keep(block, answer_of({"blockhash": "x"}), 0.0, 5)
    assert cache.permanent(block) is not None


def test_errors_and_null_are_never_kept():
    """What is not there yet may be there in a moment."""
    cache = ReadCache(10_000)
    error = replies.judge(b'{"jsonrpc":"2.0","error":{"code":-32004,"message":"Block not available"},"id":1}')
    for answer in (error, answer_of(None), replies.TIMED_OUT, replies.UNREACHABLE):
        cache.keep(BLOCK, answer, 0.0)
        cache.keep(BALANCE, answer, 0.0)
    assert not cache.entries


def test_a_pinned_answer_ends_with_its_slot():
    """As soon as a later slot is known at its commitment, or after a slot's length in any case."""
    cache = ReadCache(10_000)
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
    cache = ReadCache(10_000)
    cache.saw_slot(Commitment.CONFIRMED, 8)
    cache.keep(BALANCE, at_slot(7), 0.0)
    assert not cache.entries


def test_an_answer_that_names_no_slot_is_not_kept():
    """Nothing could say when it ends."""
    cache = ReadCache(10_000)
    cache.keep(BALANCE, answer_of({"value": 1}), 0.0)
    assert not cache.entries


def test_a_kept_answer_gives_back_the_room_of_large_ones():
    """What is kept has a bound of its own."""
    given_back = []
    cache = ReadCache(10_000)
    body = b'{"jsonrpc":"2.0","result":{"x":1},"id":1}'
    cache.keep(BLOCK, replies.judge(body, "a", Lease(lambda: given_back.append(1))), 0.0)
    assert given_back == [1]
    assert cache.permanent(BLOCK) is not None


def test_failures_carry_no_mark():
    """Nothing was served, so nothing was hit or missed."""
    assert marked(replies.TIMED_OUT, "miss") is replies.TIMED_OUT
    assert marked(at_slot(1), "miss").cache == "miss"


def test_the_longest_unused_goes_first():
    """Looking at an answer counts as using it."""
    cache = ReadCache(4_000)
    reads = [read_of("getBlock", b"[%d]" % number) for number in range(5)]
    for read in reads[:4]:
        cache.keep(read, answer_of({"x": "y" * 440}), 0.0)
    assert cache.permanent(reads[0]) is not None
    cache.keep(reads[4], answer_of({"x": "y" * 440}), 0.0)
    assert [read for read in reads if cache.permanent(read) is None] == [reads[1]]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3_000)), max_size=80))
def test_bytes_are_bounded(steps):
    """Whatever is kept: the sum is right and within the bound, and one answer never fills it all."""
    cache = ReadCache(10_000)
    for number, size in steps:
        cache.keep(read_of("getBlock", b"[%d]" % number), answer_of({"x": "y" * size}), 0.0)
        assert cache.bytes_used == sum(entry.size for entry in cache.entries.values()) <= 10_000
        assert all(entry.size <= 2_500 for entry in cache.entries.values())
