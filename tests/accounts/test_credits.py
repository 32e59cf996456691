import copy

from hypothesis import given
from hypothesis import strategies as st

from actors.accounts.credits import (
    Batch,
    Moves,
    Purse,
    Source,
    move,
    plan_expiry,
    plan_grant,
    plan_refund,
    plan_spend,
    read_parcels,
    write_parcels,
)
from actors.units import Credits

LIFE = 100
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["grant", "spend", "hold", "release", "expire", "refund"]),
        st.integers(1, 40),
        st.integers(0, 30),
    ),
    max_size=60,
)


def granted(purse: Purse, amount: int, now: int) -> None:
    moves, fresh = plan_grant(purse, Source.DEPOSIT, amount, now, LIFE)
    move(purse, moves, fresh)


@given(STEPS)
def test_credits_are_neither_made_nor_lost(steps: list[tuple[str, int, int]]) -> None:
    """Granted, less spent, less expired, plus given back, is what there is; and the moves alone rebuild the purse."""
    purse, now, total = Purse(), 0, 0
    journal: list[tuple[Moves, Batch | None]] = []
    spent: list[str] = []
    for what, amount, pause in steps:
        now += pause
        fresh: Batch | None = None
        moves: Moves = ()
        if what == "grant":
            moves, fresh = plan_grant(purse, Source.DEPOSIT, amount, now, LIFE)
        elif what == "spend" and purse.available >= amount:
            moves = plan_spend(purse, amount)
            spent.append(write_parcels(moves))
        elif what == "hold" and purse.available >= amount:
            purse.held = Credits(purse.held + amount)
        elif what == "release":
            purse.held = Credits(max(0, purse.held - amount))
        elif what == "expire":
            moves = plan_expiry(purse, now)
        elif what == "refund" and spent:
            moves, fresh = plan_refund(purse, spent.pop(), now, LIFE)
        if moves:
            journal.append((moves, copy.copy(fresh)))
            total += move(purse, moves, fresh)
        purse.check()
        assert purse.balance == total
        assert purse.available >= 0
    replayed = Purse()
    for moves, fresh in journal:
        move(replayed, moves, fresh)
    replayed.held = purse.held
    assert replayed == purse


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 20)), min_size=1, max_size=8), st.data())
def test_the_oldest_expiry_is_spent_first(batches: list[tuple[int, int]], data: st.DataObject) -> None:
    """Decisions: spent oldest expiry first; only the last one touched may have something left."""
    purse = Purse()
    for amount, at in batches:
        granted(purse, amount, at)
    order = [batch.id for batch in purse.batches]
    expiries = {batch.id: batch.expires_at for batch in purse.batches}
    assert [expiries[number] for number in order] == sorted(expiries.values())
    moves = plan_spend(purse, data.draw(st.integers(1, purse.balance)))
    touched = [number for number, _, _ in moves]
    assert touched == order[: len(touched)]
    assert all(left == 0 for _, _, left in moves[:-1])


def test_expiry_never_undercuts_what_is_held() -> None:
    """The part of an expired batch that live holds set aside stays for them, and expires when they end."""
    purse = Purse()
    granted(purse, 30, 0)
    granted(purse, 10, 50)
    purse.held = Credits(25)
    assert plan_expiry(purse, LIFE - 1) == ()
    moves = plan_expiry(purse, LIFE)
    assert moves == ((1, -15, 15),)
    move(purse, moves, None)
    assert purse.available == 0
    assert plan_expiry(purse, LIFE) == ()
    purse.held = Credits(0)
    assert plan_expiry(purse, LIFE) == ((1, -15, 0),)


def test_refunded_credits_go_back_where_they_came_from() -> None:
    """To batches that live still; for the rest a fresh batch with a full life."""
    purse = Purse()
    granted(purse, 10, 0)
    granted(purse, 10, 50)
    spent = plan_spend(purse, 14)
    move(purse, spent, None)
    moves, fresh = plan_refund(purse, write_parcels(spent), 60, LIFE)
    assert fresh is not None
    assert (fresh.id, fresh.source, fresh.credits, fresh.expires_at) == (3, Source.ADJUSTMENT, 10, 160)
    assert moves == ((2, 4, 10), (3, 10, 10))
    move(purse, moves, fresh)
    purse.check()

    late, fresh = plan_refund(purse, "2:-4", 150, LIFE)
    assert fresh is not None and late == ((4, 4, 4),)


def test_parcels_are_read_as_they_were_written() -> None:
    moves = ((3, -5, 0), (4, -20, 7))
    assert write_parcels(moves) == "3:-5 4:-20"
    assert read_parcels("3:-5 4:-20") == ((3, -5), (4, -20))
    assert read_parcels("") == ()
