"""Large bodies in parts: judged as one, hashed on the way, and never another caller's hash."""

from hashlib import sha256

import pytest

from actors.upstream import replies
from actors.upstream.large_bodies import LargeBody
from actors.upstream.replies import AnswerKind, NodeAnswer

OURS, PARAMS = b"123456789012345", b"[5]"
FILLER = bytes(range(35, 91)) * 12_000  # 672,000 bytes without a quotation mark or a backslash.
AT_THE_END = b'{"jsonrpc":"2.0","result":"%b","id":%b}' % (FILLER, OURS)
AT_THE_START = b'{"jsonrpc":"2.0","id":%b,"result":"%b"}' % (OURS, FILLER)


def judged(body: bytes, step: int, asked: tuple[bytes, bytes] | None = (PARAMS, b'"mine"')) -> NodeAnswer | None:
    """The body, received in pieces of `step` bytes."""
    large = LargeBody(asked)
    for start in range(0, len(body), step):
        large.add(body[start : start + step])
    return replies.judge_large(large, "a", None, OURS)


@pytest.mark.parametrize("step", [1_000, 65_536, 100_001, 256 << 10, 10 << 20])
@pytest.mark.parametrize("end", [b"", b"\n", b" "])
@pytest.mark.parametrize("body", [AT_THE_END, AT_THE_START])
def test_a_body_in_parts_is_the_same_answer_as_in_one(body: bytes, end: bytes, step: int) -> None:
    """Whatever the pieces were, and wherever the id stands: the same bytes leave, and the ledger gets their hash."""
    found, whole = judged(body + end, step), replies.judge(body + end, "a", None, OURS)
    assert found is not None and found.kind is AnswerKind.RESULT
    assert (found.body, found.size, found.node) == (whole.body, len(whole.body), "a")
    for raw_id in (b"1", b'"a longer id than the one that it takes the place of"'):
        assert found.reply(raw_id) == b"".join(found.reply_parts(raw_id)) == whole.reply(raw_id)
    assert found.hashed is not None
    assert found.hashed.digest == sha256(PARAMS + b"\n" + whole.reply(b'"mine"')).digest()


@pytest.mark.parametrize(
    "body",
    [
        AT_THE_END[:-9] + b"9}",  # Another id.
        AT_THE_START.replace(OURS, b"9"),
        AT_THE_END[:-1],  # It does not end.
        AT_THE_START[:-1],
        b'{"error":' + AT_THE_END,
    ],
)
def test_a_body_whose_ends_are_wrong_is_read_whole(body: bytes) -> None:
    """The judge of small answers then says what it is."""
    assert judged(body, 100_000) is None
    assert replies.judge(body, "a", None, OURS) == replies.GARBAGE


def test_a_huge_body_whose_ends_are_wrong_is_garbage() -> None:
    """Reading it would hold the loop."""
    assert judged(b"x" * (replies.PARSED_BYTES_MAX + 1), 1 << 20) == replies.GARBAGE


def test_nothing_is_hashed_for_nobody() -> None:
    found = judged(AT_THE_END, 100_000, None)
    assert found is not None and found.hashed is None


@pytest.mark.parametrize("place", [(70_000, 70_015), (len(AT_THE_START) - 20, len(AT_THE_START) - 5)])
def test_an_id_elsewhere_than_it_was_looked_for_leaves_no_hash(place: tuple[int, int]) -> None:
    """A wrong hash in the ledger would be worse than one that is made later."""
    large = LargeBody((PARAMS, b"1", bytes(32)))
    for start in range(0, len(AT_THE_START), 100_000):
        large.add(AT_THE_START[start : start + 100_000])
    assert large.parts()
    assert large.hashed(place) is None


def test_small_pieces_become_parts_of_some_size() -> None:
    """A node that sends byte by byte must not make the replica hold an object for each."""
    large = LargeBody(None)
    for start in range(0, len(AT_THE_END), 100):
        large.add(AT_THE_END[start : start + 100])
    assert all(len(part) >= 64 << 10 for part in large.parts())
    assert b"".join(large.parts()) == AT_THE_END
