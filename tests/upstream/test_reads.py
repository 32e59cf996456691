import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.upstream import reads, replies
from actors.upstream.node_health import Commitment
from actors.upstream.node_selection import Need
from actors.upstream.reads import Kept, need_of, read_of
from actors.upstream.replies import NodeAnswer


def answer_of(result: object) -> NodeAnswer:
    return replies.judge(orjson.dumps({"jsonrpc": "2.0", "result": result, "id": 1}))


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
    ("params", "need"),
    [
        (b'["k"]', None),
        (b'["k",{"minContextSlot":9}]', Need(Commitment.FINALIZED, 9)),
        (b'[{"minContextSlot":9,"commitment":"processed"}]', Need(Commitment.PROCESSED, 9)),
        (b'["k",{"minContextSlot":null}]', None),
        (b'["minContextSlot"]', None),
        (b'["t",{"minContextSlot":9,"preflightCommitment":"confirmed"}]', Need(Commitment.CONFIRMED, 9)),
        (b'["t",{"minContextSlot":9,"commitment":{}}]', Need(Commitment.FINALIZED, 9)),
        (b'["t",{"minContextSlot":9,"commitment":["processed"]}]', Need(Commitment.FINALIZED, 9)),
    ],
)
def test_a_needed_slot_is_read_from_the_question(params, need):
    """minContextSlot counts at the commitment asked for."""
    assert need_of(params) == need


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
def test_only_what_is_final_is_final(method, params, answer, final):
    """Errors, null and what may still be forked away are not; finalized is slot 100 here."""
    assert reads.is_final(read_of(method, params), answer, 100) is final
    if b"confirmed" in params:
        assert not reads.is_final(read_of(method, params), answer, None)


def test_the_slot_of_the_bank_is_read_from_the_result():
    """Only from its context, which comes first; a slot within the value is not one."""
    assert reads.context_slot(answer_of({"context": {"apiVersion": "3.0", "slot": 42}, "value": 1})) == 42
    assert reads.context_slot(answer_of({"value": {"slot": 42}})) is None
    assert reads.context_slot(answer_of({"value": "x" * 300, "context": {"slot": 42}})) is None


def test_the_slot_that_a_node_gives_is_a_number_or_nothing():
    """Whatever else it says proves nothing."""
    assert reads.slot_result(answer_of(7)) == 7
    assert reads.slot_result(answer_of("7")) is None
    assert reads.slot_result(ERROR) is None
    assert reads.slot_result(replies.TIMED_OUT) is None


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

    keys = [reads.read_of("getAccountInfo", orjson_or_json(arguments)).key for arguments in (one, other)]
    assert (keys[0] == keys[1]) is (plain(one) == plain(other))


def orjson_or_json(value: object) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # Beyond 64 bits.
        import json

        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
