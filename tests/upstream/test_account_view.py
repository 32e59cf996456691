"""What one call knows of its account's view."""

import asyncio

from actors.upstream.account_view import AccountView, current_view, under
from actors.upstream.node_health import Commitment

PROCESSED, CONFIRMED, FINALIZED = Commitment
PLENTY = 10**9


def test_nothing_told_is_nothing_known():
    view = AccountView(None)
    assert [view.floor(level, PLENTY) for level in Commitment] == [0, 0, 0]
    assert not any(view.is_certain(level) for level in Commitment)
    assert view.shown() is None


def test_each_commitment_has_its_own_floor_and_what_is_final_is_confirmed_too():
    view = AccountView((100, 90, 95, 0, 0, 0))
    assert [view.floor(level, PLENTY) for level in Commitment] == [100, 95, 95]
    assert AccountView((100, 90, 60, 0, 0, 0)).floor(FINALIZED, PLENTY) == 60


def test_a_bound_is_heeded_and_is_not_certain():
    view = AccountView((0, 0, 0, 0, 90, 0))
    assert view.floor(CONFIRMED, PLENTY) == 90 and not view.is_certain(CONFIRMED)
    view.make_certain(CONFIRMED, 80, PLENTY)
    assert view.floor(CONFIRMED, PLENTY) == 90 and view.is_certain(CONFIRMED)


def test_a_bound_that_nobody_believes_does_not_count():
    """A node that lied to the racer must not raise a floor."""
    view = AccountView((0, 0, 70, 0, 10**12, 0))
    view.make_certain(CONFIRMED, 80, 230)
    assert view.floor(CONFIRMED, 230) == 80
    assert view.floor(PROCESSED, 230) == 80


def test_a_certain_floor_is_heeded_whatever_is_believed_now():
    """So a chain that starts again is not read behind the back of its readers."""
    assert AccountView((0, 500, 0, 0, 0, 0)).floor(CONFIRMED, 230) == 500


def test_what_was_shown_is_told_with_its_certainty():
    view = AccountView((0, 90, 0, 0, 0, 0))
    view.show(CONFIRMED, 95)
    view.show(CONFIRMED, 93)
    view.show(FINALIZED, 60)
    assert view.shown() == (0, 95, -60)


async def test_the_view_reaches_every_question_of_a_call_and_no_other():
    seen = []

    async def ask(name: str) -> str:
        await asyncio.gather(look(name), look(name))
        return name

    async def look(name: str) -> None:
        await asyncio.sleep(0)
        seen.append((name, current_view()))

    one, other = AccountView(None), AccountView(None)
    ends = await asyncio.gather(under(one, ask, "one"), under(other, ask, "other"), under(None, ask, "none"))
    assert ends == ["one", "other", "none"]
    assert sorted(seen, key=lambda pair: pair[0]) == [("none", None)] * 2 + [("one", one)] * 2 + [("other", other)] * 2
    assert current_view() is None


async def test_a_call_that_fails_leaves_no_view():
    async def fail() -> None:
        raise ValueError

    try:
        await under(AccountView(None), fail)
    except ValueError:
        assert current_view() is None
