from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from actors.receipts import merkle


def reference_root(items: list[bytes]) -> bytes:
    """RFC 6962, section 2.1, word for word: split at the largest power of two below the length."""
    if len(items) == 1:
        return sha256(b"\0" + items[0]).digest()
    split = 1
    while split * 2 < len(items):
        split *= 2
    return sha256(b"\1" + reference_root(items[:split]) + reference_root(items[split:])).digest()


def reference_path(index: int, items: list[bytes]) -> list[bytes]:
    """RFC 6962, section 2.1.1, word for word."""
    if len(items) == 1:
        return []
    split = 1
    while split * 2 < len(items):
        split *= 2
    if index < split:
        return [*reference_path(index, items[:split]), reference_root(items[split:])]
    return [*reference_path(index - split, items[split:]), reference_root(items[:split])]


# Of the test vectors of Certificate Transparency's own log (trillian, "compact" and "merkle" tests): their inputs and
# the root over all eight.
VECTORS = [bytes.fromhex(text) for text in ("", "00", "10", "2021", "3031", "40414243")]
VECTORS += [bytes.fromhex("5051525354555657"), bytes.fromhex("606162636465666768696a6b6c6d6e6f")]
ROOT_OF_8 = "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"


def test_the_root_is_that_of_certificate_transparency() -> None:
    assert merkle.root(list(map(merkle.leaf_hash, VECTORS))).hex() == ROOT_OF_8


@given(st.lists(st.binary(max_size=8), min_size=1, max_size=70), st.data())
def test_roots_and_paths_are_those_of_the_rfc(items: list[bytes], data: st.DataObject) -> None:
    leaves = list(map(merkle.leaf_hash, items))
    assert merkle.root(leaves) == reference_root(items)
    index = data.draw(st.integers(0, len(items) - 1))
    assert merkle.path(merkle.levels(leaves), index) == reference_path(index, items)
