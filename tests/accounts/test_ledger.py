import hashlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.accounts.ledger import Entry, EntryType, canonical, chain, describe, genesis
from actors.calls import Outcome
from tests.accounts.making import ALICE, BOB

TEXTS = st.text(max_size=12)
ENTRIES = st.builds(
    Entry,
    seq=st.integers(1, 50),
    at_ms=st.integers(0, 50),
    type=st.sampled_from([kind.value for kind in EntryType]),
    amount=st.integers(-50, 50),
    balance=st.integers(0, 50),
    operation=st.binary(max_size=3),
    method=TEXTS,
    outcome=st.integers(0, 3),
    description=TEXTS,
    parcels=st.sampled_from(["", "1:-5", "1:-5 2:-20", "12:3"]),
)
DEBIT = Entry(7, 1_700_000_000_123, EntryType.DEBIT, -25, 975, b"\x01\x02", "getBlock", 0, "", "3:-25")


@given(ENTRIES, ENTRIES)
def test_two_entries_have_the_same_bytes_only_if_they_are_equal(one: Entry, two: Entry) -> None:
    """Otherwise one could stand in the other's place without breaking the chain."""
    assert (canonical(one) == canonical(two)) == (one == two)


def test_texts_cannot_borrow_from_each_other() -> None:
    one = msgspec.structs.replace(DEBIT, method="a,b", description="c")
    two = msgspec.structs.replace(DEBIT, method="a", description="b,c")
    assert canonical(one) != canonical(two)


def test_the_bytes_and_the_chain_never_change() -> None:
    """Written ledgers hang on them."""
    assert canonical(DEBIT) == b"7,1700000000123,2,-25,975,0,0102,3:-25,8:getBlock,"
    assert chain(b"head", DEBIT) == hashlib.sha256(b"head" + canonical(DEBIT)).digest()
    assert genesis(ALICE) == hashlib.sha256(b"ledger-gateway account " + ALICE).digest() != genesis(BOB)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "getBlock"),
        ({"outcome": Outcome.CLIENT_GONE}, "getBlock: answered after the client had left"),
        ({"outcome": Outcome.UPSTREAM_ERROR}, "getBlock: the node answered with an error that is billed"),
        ({"type": EntryType.REFUND, "amount": 25}, "getBlock: refunded, the answer could not be delivered"),
        ({"type": EntryType.ADJUSTMENT, "description": "goodwill"}, "goodwill"),
        ({"outcome": 99}, "getBlock"),
    ],
)
def test_an_entry_says_what_happened(change: dict[str, object], words: str) -> None:
    """Threat 36: whether the client was there is in the ledger."""
    assert describe(msgspec.structs.replace(DEBIT, **change)) == words
