from hypothesis import given
from hypothesis import strategies as st

from actors.accounts.expiring_map import ExpiringMap


@given(
    seconds=st.integers(1, 200),
    start=st.integers(0, 10**9),
    steps=st.lists(st.tuples(st.integers(0, 90), st.integers(0, 30)), max_size=60),
)
def test_a_key_is_kept_long_enough_and_not_for_long(seconds: int, start: int, steps: list[tuple[int, int]]) -> None:
    """At least `seconds` after it was put, and gone after half as long again (and what rounding adds)."""
    remembered: ExpiringMap[int, int] = ExpiringMap(seconds)
    put_at: dict[int, int] = {}
    now = start
    for pause, key in steps:
        now += pause
        remembered.put(key, now, now)
        put_at[key] = now
        remembered.turn(now)
        for known, at in put_at.items():
            if now - at < seconds:
                assert remembered.get(known) == at
            elif now - at > seconds * 3 / 2 + 3:
                assert remembered.get(known) is None


def test_memory_is_bounded_by_the_rate() -> None:
    """A long life at a steady rate holds no more than half as much again as must be kept."""
    seconds = 120
    remembered: ExpiringMap[int, bool] = ExpiringMap(seconds)
    for now in range(10_000):
        for number in range(3):
            remembered.put(now * 3 + number, True, now)
        assert len(remembered) <= 3 * seconds * 3 // 2


def test_a_dropped_key_is_gone_at_once() -> None:
    remembered: ExpiringMap[str, int] = ExpiringMap(10)
    remembered.put("a", 1, 0)
    remembered.put("b", 1, 6)
    remembered.put("a", 2, 6)
    remembered.drop("a")
    assert remembered.get("a") is None and remembered.get("b") == 1
