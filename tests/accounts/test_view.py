"""The view of an account, as its owner keeps it."""

from actors.accounts.view import NOTHING, VIEW_SECONDS, View


def test_a_floor_only_rises():
    view = View()
    view.show((0, 100, 0), True, 10)
    view.show((0, 90, 0), True, 11)
    assert view.told(11) == (0, 100, 0, 0, 0, 0)
    view.show((0, 105, 60), True, 12)
    assert view.told(12) == (0, 105, 60, 0, 0, 0)


def test_what_was_not_held_here_is_a_bound_alone():
    """A call that was held before this owner had the account was told another floor."""
    view = View()
    view.show((0, 100, 0), False, 10)
    view.show((0, -103, 0), True, 10)
    assert view.told(10) == (0, 0, 0, 0, 103, 0)
    view.show((0, 104, 0), True, 10)
    assert view.told(10) == (0, 104, 0, 0, 103, 0)


def test_a_send_raises_no_floor():
    """A racer has a slot from one node, which may lie: its word stays apart from what the account has read."""
    view = View()
    view.show((0, 100, 0), True, 10)
    view.show((0, -(10**12), 0), False, 11)
    assert view.told(11) == (0, 100, 0, 0, 10**12, 0)


def test_a_floor_is_given_up_when_nothing_reached_it_for_a_minute():
    """So the floor falls again where a chain starts again, or an operator falls back to a cluster that lags."""
    view = View()
    view.show((0, 100, 0), True, 10)
    assert view.told(10 + VIEW_SECONDS) == (0, 100, 0, 0, 0, 0)
    assert view.told(11 + VIEW_SECONDS) == NOTHING
    view.show((0, 5, 0), True, 12 + VIEW_SECONDS)
    assert view.told(12 + VIEW_SECONDS) == (0, 5, 0, 0, 0, 0)


def test_an_answer_at_the_floor_keeps_it():
    view = View()
    view.show((0, 100, 0), True, 10)
    view.show((0, 100, 0), True, 60)
    view.show((0, 99, 0), True, 100)
    assert view.told(60 + VIEW_SECONDS) == (0, 100, 0, 0, 0, 0)
    assert view.told(61 + VIEW_SECONDS) == NOTHING
