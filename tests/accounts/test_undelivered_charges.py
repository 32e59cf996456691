"""Guards which charges are in doubt when an edge dies."""

from hypothesis import given
from hypothesis import strategies as st

from actors.accounts import undelivered_charges
from actors.accounts.undelivered_charges import UndeliveredCharges
from actors.calls import SettleRequest

EDGES = [b"edge-one", b"edge-two"]


def charge(edge: int, number: int) -> SettleRequest:
    return SettleRequest(EDGES[edge] + number.to_bytes(8, "big"), bytes(32), 1, "getSlot", 1, 1, 0, 0)


steps = st.lists(st.tuples(st.booleans(), st.integers(0, 1), st.integers(0, 9)))


@given(steps=steps)
def test_what_was_posted_and_not_delivered_is_in_doubt_and_nothing_else(steps: list[tuple[bool, int, int]]) -> None:
    """Rule (money rule 2): an edge's death leaves exactly its own undelivered charges to void, once."""
    kept, expected = UndeliveredCharges(), {0: set(), 1: set()}
    for is_post, edge, number in steps:
        if is_post:
            kept.posted(charge(edge, number))
            expected[edge].add(number)
        else:
            kept.delivered((charge(edge, number).operation,))
            expected[edge].discard(number)
    assert len(kept) == len(expected[0]) + len(expected[1])
    assert {item.operation for item in kept.gone(EDGES[0])} == {charge(0, n).operation for n in expected[0]}
    assert kept.gone(EDGES[0]) == []
    assert len(kept) == len(expected[1])


def test_an_edge_that_never_says_anything_does_not_fill_memory(monkeypatch) -> None:
    """Rule: bounded everywhere; beyond the bound the oldest counts as delivered."""
    monkeypatch.setattr(undelivered_charges, "UNDELIVERED_MAX", 3)
    kept = UndeliveredCharges()
    for number in range(10):
        kept.posted(charge(0, number))
    assert [item.operation for item in kept.gone(EDGES[0])] == [charge(0, n).operation for n in (7, 8, 9)]
