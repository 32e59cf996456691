"""Whether the slices of a kind are spread evenly over its actors."""

from actors.ownership.team import Team, is_even

TEAM = Team("racers", 8, 3, "racer", lambda count: [f"racer-{index}" for index in range(count)], 1.0, 1.0)


def test_a_spread_is_even_when_all_who_are_wanted_hold_as_many() -> None:
    names = TEAM.names(3)
    assert is_even(TEAM, {"racer-0": 3, "racer-1": 3, "racer-2": 2}, names)
    assert not is_even(TEAM, {"racer-0": 4, "racer-1": 2, "racer-2": 2}, names), "two more than another"
    assert not is_even(TEAM, {"racer-0": 3, "racer-1": 3, "racer-2": 2}, names[:2]), "one that is not wanted"
    assert not is_even(TEAM, {"racer-0": 4, "racer-1": 4}, names), "one without"
    assert not is_even(TEAM, {"racer-0": 2, "racer-1": 2, "racer-2": 2}, names), "two slices that nobody has"
    assert not is_even(TEAM, {}, names)
