from hypothesis import given
from hypothesis import strategies as st

from actors.accounts.nonces import (
    NONCE_SECONDS,
    from_stored,
    is_replay,
    new_nonce_set,
    nonces_max,
    stored_form,
)
from tests.accounts.making import operation

NONCES = st.text("abcXYZ019-_:.,", min_size=1, max_size=128)


@given(NONCES, st.binary(min_size=16, max_size=16))
def test_what_is_stored_can_be_read_back(nonce: str, taken_by: bytes) -> None:
    """The separator is not among a nonce's characters."""
    assert from_stored(stored_form(nonce, taken_by)) == (nonce, taken_by)


@given(st.text(max_size=200), st.binary(min_size=16, max_size=16))
def test_an_unreadable_entry_refuses_everybody(text: str, asking: bytes) -> None:
    """A nonce of another form still counts as taken, whoever asks."""
    nonces = new_nonce_set()
    nonce, taken_by = from_stored(text)
    nonces.put(nonce, taken_by, 0)
    assert is_replay(nonces, nonce, asking) or taken_by == asking


@given(st.lists(st.tuples(NONCES, st.integers(0, 20), st.integers(0, 40)), max_size=60))
def test_a_nonce_is_good_for_one_operation(asked: list[tuple[str, int, int]]) -> None:
    """Money rule 11: whoever took it first has it, for at least as long as its signature can be valid."""
    nonces = new_nonce_set()
    taken: dict[str, tuple[int, int]] = {}
    now = 1_000
    for nonce, number, pause in asked:
        now += pause
        first, at = taken.get(nonce, (number, now))
        replay = is_replay(nonces, nonce, operation(number))
        if now - at < NONCE_SECONDS:
            assert replay == (first != number)
        if not replay:
            nonces.put(nonce, operation(number), now)
            taken[nonce] = (number, now)


def test_nonces_outlive_both_sides_of_the_time_window() -> None:
    """Hostile input 4: a message signed 60 s ahead is good for 120 s."""
    assert NONCE_SECONDS > 120


def test_memory_for_nonces_follows_the_accounts_own_rate() -> None:
    """All that can be admitted while nonces are kept fits twice."""
    assert nonces_max(100) == 2 * 130 * 100
    assert nonces_max(1) == nonces_max(100)
    assert nonces_max(10_000) >= 10_000 * NONCE_SECONDS * 3 // 2
