"""The lists of undelivered charges: what a group writes is what the next owner reads."""

from hypothesis import given
from hypothesis import strategies as st

from actors.accounts import undelivered as module
from actors.accounts.undelivered import Listed, UndeliveredCharges
from actors.calls import FIRST_ALLOWANCE, FIRST_STREAM_CHARGE, SettleRequest

REPLICAS = (b"replica1", b"replica2")
COUNTERS = (0, 1, 2, 255, 256, FIRST_STREAM_CHARGE + 1, FIRST_ALLOWANCE + 1)


def charge_of(replica: int, counter: int) -> SettleRequest:
    return SettleRequest(REPLICAS[replica] + counter.to_bytes(8, "big"), bytes(32), 1, "getSlot", 1, 1, 0, 0)


steps = st.lists(
    st.tuples(
        st.sampled_from(["post", "deliver", "cut", "cut one", "fail"]), st.integers(0, 1), st.sampled_from(COUNTERS)
    )
)


@given(steps=steps)
def test_what_was_cut_last_is_what_is_undelivered(steps: list[tuple[str, int, int]]) -> None:
    """Rule (money rule 2): after a cut of all, the lists in the database name exactly the undelivered charges, however
    many cuts of one replica and failed writes came before."""
    kept, database = UndeliveredCharges(), {}
    expected: dict[bytes, set[bytes]] = {replica: set() for replica in REPLICAS}
    for what, replica, counter in steps:
        charge = charge_of(replica, counter)
        if what == "post":
            kept.posted(charge)
            expected[REPLICAS[replica]].add(charge.operation)
        elif what == "deliver":
            kept.delivered((charge.operation,))
            expected[REPLICAS[replica]].discard(charge.operation)
        elif what == "fail":
            kept.cut()
            kept.unwritten()
        else:
            for listed in kept.cut(REPLICAS[replica] if what == "cut one" else None):
                database[listed.replica] = set(listed.operations())
                assert database[listed.replica] == expected[listed.replica]
    database |= {listed.replica: set(listed.operations()) for listed in kept.cut()}
    assert not kept.is_changed
    assert all(database.get(replica, set()) == expected[replica] for replica in REPLICAS)


def test_a_list_has_a_bound_and_keeps_the_newest(monkeypatch) -> None:
    """Rule: bounded everywhere; a page of the database holds one list."""
    monkeypatch.setattr(module, "LISTED_MAX", 3)
    kept = UndeliveredCharges()
    for counter in range(10):
        kept.posted(charge_of(0, counter))
    ((listed),) = kept.cut()
    assert listed.operations() == [charge_of(0, counter).operation for counter in (7, 8, 9)]


def test_an_replica_that_links_again_says_which_recalled_charges_were_delivered() -> None:
    """What it does not name has left; what it names, and what was posted since, may still be refunded."""
    kept = UndeliveredCharges()
    old = [charge_of(0, counter).operation for counter in (1, 2)]
    kept.recall([Listed(REPLICAS[0], b"".join(operation[8:] for operation in old))])
    kept.posted(charge_of(0, 256))
    assert kept.recalled() == [REPLICAS[0]]
    kept.told(REPLICAS[0], (old[1], charge_of(0, 255).operation))
    assert list(kept.of(REPLICAS[0])) == [old[1], charge_of(0, 256).operation]
    kept.posted(charge_of(0, 2))  # Asked for again: its account is known now.
    assert kept.recalled() == []
