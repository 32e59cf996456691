import copy

from hypothesis import given
from hypothesis import strategies as st

from actors.accounts.credits import (
    REFUND_GRACE_SECONDS,
    SPENT_MAX,
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
    remember_spent,
    unknown_batches,
    write_parcels,
)
from actors.units import Credits, UnixSeconds

LIFE = 100
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["grant", "spend", "hold", "release", "expire", "refund"]),
        st.integers(1, 40),
        st.integers(0, 2_000),
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
    made: dict[int, Batch] = {}  # All that there ever were, as the store has them.
    for what, amount, pause in steps:
        now += pause
        fresh: Batch | None = None
        moves: Moves = ()
        if what == "grant":
            moves, fresh = plan_grant(purse, Source.DEPOSIT, amount, now, 2 * REFUND_GRACE_SECONDS)
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
            parcels = spent.pop()
            remember_spent(purse, [made[number] for number in unknown_batches(purse, parcels)])
            moves, fresh = plan_refund(purse, parcels, now)
        if fresh is not None:
            made[fresh.id] = fresh
        if moves:
            journal.append((moves, copy.copy(fresh)))
            total += move(purse, moves, fresh)
        purse.check()
        assert purse.balance == total
        assert purse.available >= 0
    replayed = Purse()
    remember_spent(replayed, made.values())
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


def test_expiry_leaves_holds_the_expired_credits_they_need() -> None:
    """A younger batch does not stand in for them: its credits stay available, and no more of the expired ones go."""
    purse = Purse()
    granted(purse, 30, 0)
    granted(purse, 10, 50)
    purse.held = Credits(25)
    assert plan_expiry(purse, LIFE - 1) == ()
    moves = plan_expiry(purse, LIFE)
    assert moves == ((1, -5, 25),)
    move(purse, moves, None)
    assert purse.available == 10
    assert plan_expiry(purse, LIFE) == ()
    purse.held = Credits(0)
    assert plan_expiry(purse, LIFE) == ((1, -25, 0),)


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 2 * LIFE)), min_size=1, max_size=6),
    st.integers(0, 240),
    st.integers(0, 3 * LIFE),
)
def test_expiry_takes_nothing_that_a_hold_needs(batches: list[tuple[int, int]], held: int, now: int) -> None:
    """Docstring of credits.py: posts of all live holds take as much from expired and from younger batches as before the
    expiry, all the rest of the expired credits goes, and nothing else."""
    purse = Purse()
    for amount, at in batches:
        granted(purse, amount, at)
    purse.held = Credits(min(held, purse.balance))
    expired = {batch.id for batch in purse.batches if batch.expires_at <= now}
    needed = plan_spend(purse, purse.held) if purse.held else ()
    from_expired = -sum(delta for number, delta, _ in needed if number in expired)
    from_younger = {number: delta for number, delta, _ in needed if number not in expired}
    moves = plan_expiry(purse, now)
    assert {number for number, _, _ in moves} <= expired
    move(purse, moves, None)
    purse.check()
    after = plan_spend(purse, purse.held) if purse.held else ()
    assert -sum(delta for number, delta, _ in after if number in expired) == from_expired
    assert {number: delta for number, delta, _ in after if number not in expired} == from_younger
    assert sum(batch.remaining for batch in purse.batches if batch.id in expired) == from_expired
    assert plan_expiry(purse, now) == ()


def test_refunded_credits_go_back_where_they_came_from() -> None:
    """With the expiry dates that they had, also to a batch that was spent to the last credit meanwhile."""
    purse = Purse()
    granted(purse, 10, 0)
    granted(purse, 10, 50)
    early = -REFUND_GRACE_SECONDS  # Both batches last longer than the grace.
    spent = plan_spend(purse, 14)
    move(purse, spent, None)
    moves, fresh = plan_refund(purse, write_parcels(spent), early)
    assert fresh is None and moves == ((1, 10, 10), (2, 4, 10))
    move(purse, moves, fresh)
    purse.check()
    assert [(batch.id, batch.remaining, batch.expires_at) for batch in purse.batches] == [(1, 10, 100), (2, 10, 150)]


def test_a_refund_prolongs_old_credits_by_the_grace_and_no_more() -> None:
    """A batch with 5 s left, one that has expired and one that nobody knows: an hour from now, not another year."""
    purse = Purse()
    granted(purse, 10, 0)
    granted(purse, 10, 50)
    granted(purse, 10, REFUND_GRACE_SECONDS)
    spent = plan_spend(purse, 22)
    move(purse, spent, None)
    moves, fresh = plan_refund(purse, write_parcels(spent), LIFE - 5)
    assert fresh is not None and moves == ((3, 2, 10), (4, 20, 20))
    assert (fresh.source, fresh.credits, fresh.expires_at) == (Source.ADJUSTMENT, 20, LIFE - 5 + REFUND_GRACE_SECONDS)
    move(purse, moves, fresh)
    purse.check()
    moves, fresh = plan_refund(purse, "77:-4", 150)
    assert fresh is not None and moves == ((5, 4, 4),) and fresh.expires_at == 150 + REFUND_GRACE_SECONDS


def test_spent_batches_are_remembered_within_bounds() -> None:
    """Of an account that spends many small deposits; what is forgotten is named, so that the store can be asked."""
    purse = Purse()
    for number in range(SPENT_MAX + 10):
        granted(purse, 1, number)
        move(purse, plan_spend(purse, 1), None)
    assert len(purse.spent) == SPENT_MAX
    assert unknown_batches(purse, "10:-1 11:-1") == [10]
    remember_spent(purse, [Batch(10, Source.DEPOSIT, Credits(1), Credits(0), UnixSeconds(9), UnixSeconds(109))])
    assert unknown_batches(purse, "10:-1 11:-1") == []
    moves, fresh = plan_refund(purse, "10:-1", 109 - REFUND_GRACE_SECONDS)
    assert moves == ((10, 1, 1),) and fresh is None


def test_parcels_are_read_as_they_were_written() -> None:
    moves = ((3, -5, 0), (4, -20, 7))
    assert write_parcels(moves) == "3:-5 4:-20"
    assert read_parcels("3:-5 4:-20") == ((3, -5), (4, -20))
    assert read_parcels("") == ()
