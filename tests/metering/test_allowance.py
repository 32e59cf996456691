"""What streams may spend before it is posted."""

from hypothesis import given
from hypothesis import strategies as st

from actors.metering.allowance import HELD_CREDITS_MAX, PARTS_MAX, UNITS_PER_CREDIT, Allowance, HeldPart

_steps = st.lists(
    st.one_of(
        st.tuples(st.just("spend"), st.sampled_from((1, 1, 1, 10, 100, 260))),
        st.tuples(st.sampled_from(("ask", "grant", "refuse", "end", "post")), st.integers(1, 25)),
        st.tuples(st.just("wait"), st.integers(1, 12)),
    ),
    max_size=200,
)


def part(ceiling: int, since: float = 0.0) -> HeldPart:
    return HeldPart(b"o" * 16, 1, ceiling, 0, since, 0)


@given(steps=_steps)
def test_every_spent_unit_is_charged_once_and_at_most_fifty_credits_are_ahead(steps: list[tuple[str, int]]) -> None:
    """Money rule 10: in any order of events, holds and posts, charges make up what was spent, rounded down, and never
    more than HELD_CREDITS_MAX credits are held or not posted yet."""
    allowance, now = Allowance(), 0.0
    asked = spent = charged = unposted = 0
    posting: list[int] = []
    for step, number in steps:
        if step == "spend":
            from_plenty = allowance.spend_from_plenty(number)
            assert not from_plenty or (not allowance.has_used_up and not allowance.credits_to_hold())
            spent += number if from_plenty or allowance.spend(number) else 0
        elif step == "ask":
            asked += bool(allowance.credits_to_hold())
        elif step == "grant" and asked:
            allowance.held(part(number, now))
            asked, unposted = asked - 1, unposted + number
        elif step == "refuse" and asked:
            allowance.not_held()
            asked -= 1
        elif step == "end":
            for ended, credits in allowance.parts_to_end(now):
                assert 0 <= credits <= ended.ceiling
                charged += credits
                posting.append(ended.ceiling)
        elif step == "post" and posting:
            allowance.posted()
            unposted -= posting.pop()
        elif step == "wait":
            now += number
        assert unposted <= HELD_CREDITS_MAX and asked <= PARTS_MAX
    charged += sum(credits for _, credits in allowance.parts_to_end(now, all_of_them=True))
    assert charged <= spent / UNITS_PER_CREDIT
    carried_max = UNITS_PER_CREDIT - 1
    assert spent - charged * UNITS_PER_CREDIT <= carried_max


def test_a_part_is_posted_after_ten_seconds_and_its_rest_carried() -> None:
    """Ten notifications are a credit, however they lie around a post."""
    allowance = Allowance()
    assert not allowance.spend(1) and allowance.credits_to_hold() == 25
    allowance.held(part(25))
    assert all(allowance.spend(1) for _ in range(17))
    assert allowance.parts_to_end(9.9) == []
    assert [credits for _, credits in allowance.parts_to_end(10.0)] == [1]
    allowance.posted()
    assert not allowance.spend(1) and allowance.credits_to_hold()
    allowance.held(part(25, 10.0))
    assert all(allowance.spend(1) for _ in range(3))
    assert [credits for _, credits in allowance.parts_to_end(20.0)] == [1]  # 7 and 3.


def test_an_idle_stream_holds_nothing() -> None:
    """Credits are held when events come, not while nothing happens."""
    allowance = Allowance()
    assert allowance.credits_to_hold() == 0
    allowance.spend(1)
    allowance.credits_to_hold()
    allowance.held(part(25))
    [(_, credits)] = allowance.parts_to_end(10.0)
    allowance.posted()
    assert credits == 0 and allowance.credits_to_hold() == 0
