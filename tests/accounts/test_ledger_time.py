"""Which time the ledger goes by while clocks are set, and when acts that cannot be undone may happen."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.accounts.ledger_time import ANSWER_MS_MAX, SETTLING_MS, TOLERANCE_MS, Clocks, after_answer, agreed_ms, doubt
from tests.accounts.making import START_MS

DAY_MS = 86_400_000
JUMPS = [0, 5_000, 140_000, -140_000, DAY_MS, -DAY_MS, 400 * DAY_MS, -400 * DAY_MS]


@dataclass
class Host:
    """The true time, and how far each clock is from it."""

    steady_ms: int = 1_000_000
    wall_ahead: int = 0
    database_ahead: int = 0
    clocks: Clocks | None = None

    @property
    def true_ms(self) -> int:
        return START_MS + self.steady_ms

    @property
    def wall_ms(self) -> int:
        return self.true_ms + self.wall_ahead

    def answer(self, took_ms: int = 0) -> None:
        """The database reads its clock, and its answer arrives so much later."""
        asked_ms, told_ms = self.steady_ms, self.true_ms + self.database_ahead
        self.steady_ms += took_ms
        self.clocks = after_answer(self.clocks, told_ms, self.wall_ms, asked_ms, self.steady_ms)

    @property
    def ledger_ms(self) -> int:
        assert self.clocks is not None
        return self.steady_ms + self.clocks.ledger_ms

    @property
    def agreed_ms(self) -> int | None:
        return agreed_ms(self.clocks, self.wall_ms, self.steady_ms)

    @property
    def doubt(self) -> str | None:
        return doubt(self.clocks, self.wall_ms, self.steady_ms)


steps = st.lists(st.tuples(st.integers(0, 2 * SETTLING_MS), st.sampled_from(JUMPS), st.booleans()), max_size=30)


@given(steps=steps, took_ms=st.integers(0, 3 * ANSWER_MS_MAX))
def test_one_process_with_a_wrong_clock_never_acts_early(steps: list[tuple[int, int, bool]], took_ms: int) -> None:
    """Threat 53: the database is right, and the wall clock of this process is whatever it likes."""
    host = Host()
    host.answer()
    for pause_ms, host.wall_ahead, answers in steps:
        host.steady_ms += pause_ms
        if answers:
            host.answer(took_ms)
        assert host.agreed_ms is None or host.agreed_ms <= host.true_ms
        assert abs(host.ledger_ms - host.true_ms) <= TOLERANCE_MS
        if abs(host.wall_ahead) > TOLERANCE_MS + ANSWER_MS_MAX:
            assert host.agreed_ms is None and host.doubt is not None


@given(steps=steps)
def test_a_database_with_a_wrong_clock_expires_nothing(steps: list[tuple[int, int, bool]]) -> None:
    """The other way round. A process that began while both were right keeps the right time, too."""
    host = Host()
    host.answer()
    for pause_ms, host.database_ahead, answers in steps:
        host.steady_ms += pause_ms
        if answers:
            host.answer()
        assert host.agreed_ms is None or host.agreed_ms <= host.true_ms
        assert abs(host.ledger_ms - host.true_ms) <= TOLERANCE_MS


@given(steps=steps)
def test_one_clock_for_all_that_is_wrong_for_less_than_ten_minutes_expires_nothing(
    steps: list[tuple[int, int, bool]],
) -> None:
    """A machine whose processes and database share a clock, which is set wrong, seen, and set right again."""
    host = Host()
    host.answer()
    host.steady_ms += SETTLING_MS
    for pause_ms, jump, _ in steps:
        host.wall_ahead = host.database_ahead = jump
        host.answer()
        host.steady_ms += pause_ms % SETTLING_MS
        host.answer()
        assert host.agreed_ms is None or host.agreed_ms <= host.true_ms + TOLERANCE_MS
        host.wall_ahead = host.database_ahead = 0
        host.answer()
        host.steady_ms += pause_ms


@given(steps=steps)
def test_clocks_that_are_right_again_agree_after_ten_minutes(steps: list[tuple[int, int, bool]]) -> None:
    """No disturbance lasts for good, and nobody has to restart anything."""
    host = Host()
    host.answer()
    for pause_ms, jump, of_the_database in steps:
        host.steady_ms += pause_ms
        if of_the_database:
            host.database_ahead = jump
        else:
            host.wall_ahead = jump
        host.answer()
    host.wall_ahead = host.database_ahead = 0
    host.answer()
    host.steady_ms += SETTLING_MS
    host.answer()
    assert host.agreed_ms == host.ledger_ms == host.true_ms
    assert host.doubt is None


def test_nothing_is_agreed_before_the_database_has_spoken() -> None:
    """Nor in the first ten minutes of a process: it may have been started because the clock was set."""
    host = Host()
    assert host.agreed_ms is None and host.doubt is None
    host.answer()
    host.steady_ms += SETTLING_MS - 1
    assert host.agreed_ms is None and host.doubt is None
    host.steady_ms += 1
    assert host.agreed_ms == host.true_ms


def test_a_slow_answer_says_nothing() -> None:
    """A group that the disk held up for five seconds carries a time that is five seconds old."""
    host = Host()
    host.answer()
    before = host.clocks
    host.answer(took_ms=ANSWER_MS_MAX + 1)
    assert host.clocks is before


def test_steps_too_small_to_be_noticed_add_up() -> None:
    """A clock of database and process that gains four seconds with every answer is not in step."""
    host = Host()
    host.answer()
    host.steady_ms += SETTLING_MS
    assert host.agreed_ms is not None
    for _ in range(3):
        host.steady_ms += 1_000
        host.wall_ahead = host.database_ahead = host.wall_ahead + 4_000
        host.answer()
    assert host.agreed_ms is None
    assert host.doubt == "the database's clock was set less than 600 s ago"


@pytest.mark.parametrize(("ahead", "words"), [(DAY_MS, "86400 s ahead of"), (-140_000, "140 s behind")])
def test_a_doubt_is_told_in_words(ahead: int, words: str) -> None:
    """For the log and the health page."""
    host = Host()
    host.answer()
    host.wall_ahead = ahead
    assert host.doubt is not None and words in host.doubt
