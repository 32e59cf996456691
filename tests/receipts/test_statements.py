from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from actors.receipts.merkle import leaf_hash
from actors.receipts.statements import (
    LEAF_BYTES,
    NO_STATEMENT,
    AccountPaths,
    SignedStatement,
    Statement,
    find_leaf,
    leaf_of,
    parse,
    root_of,
    unpack,
)

HASHES = [sha256(bytes([number])).digest() for number in range(5)]
ALICE, BOB = b"a" * 32, b"b" * 32
LEAVES = [leaf_of(ALICE, 1, HASHES), leaf_of(BOB, 7, HASHES[:2])]
PACKED = b"".join(leaf.packed() for leaf in LEAVES)


def test_leaves_come_back_as_they_were_packed() -> None:
    assert list(unpack(PACKED)) == LEAVES and len(PACKED) == 2 * LEAF_BYTES
    assert find_leaf(PACKED, BOB) == (1, LEAVES[1]) and find_leaf(PACKED, b"c" * 32) is None
    assert (LEAVES[0].last, LEAVES[1].last, LEAVES[1].head) == (5, 8, HASHES[1])


@given(*(st.integers(0, 10**9 - 1) for _ in range(2)), st.integers(0, 10**14), st.binary(min_size=32, max_size=32))
def test_a_statement_is_read_as_it_was_written(series: int, number: int, at_ms: int, digest: bytes) -> None:
    statement = Statement(series, number, at_ms, NO_STATEMENT, 2, 7, digest)
    assert parse(statement.text()) == statement
    assert parse(statement.text() + " ") is None and parse(statement.text().replace("series", "line")) is None


def test_each_statement_names_the_one_before_by_its_text() -> None:
    text = Statement(0, 1, 2, NO_STATEMENT, 2, 7, root_of(PACKED)).text()
    assert SignedStatement(text, "k", b"", b"").digest == sha256(text.encode()).digest()


def test_a_path_has_what_is_beside_an_entry_and_its_account() -> None:
    path = AccountPaths(PACKED, 1, LEAVES[1], HASHES[:2]).of(8)
    assert (len(path.entry_path), len(path.account_path), path.account_index) == (1, 1, 1)
    assert path.entry_path == [leaf_hash(HASHES[0])] and path.account_path == [leaf_hash(LEAVES[0].packed())]
