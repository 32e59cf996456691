"""Guards the budget of answers that clients do not read: in all, and of each account or address."""

from hypothesis import given
from hypothesis import strategies as st

from actors.http_server.unread_answers import UnreadAnswers


def test_an_owner_over_its_budget_does_not_concern_others():
    """Threat 60: the bytes of one address or account are bounded, and a neighbour's connections stay."""
    unread = UnreadAnswers(bytes_max=100, owner_bytes_max=40)
    unread.resize("a", 0, 30)
    assert not unread.is_over("a")
    unread.resize("a", 0, 20)
    assert unread.is_over("a") and not unread.is_over("b")
    unread.resize("a", 30, 0)
    assert not unread.is_over("a")


def test_all_owners_together_have_a_budget():
    """Rule: many accounts that stay below their own budget are bounded together."""
    unread = UnreadAnswers(bytes_max=100, owner_bytes_max=40)
    for owner in "abc":
        unread.resize(owner, 0, 35)
    assert all(unread.is_over(owner) for owner in "abc")
    unread.resize("a", 35, 0)
    assert not any(unread.is_over(owner) for owner in "abc")


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 50)), max_size=30))
def test_nothing_is_kept_of_connections_that_ended(steps):
    """Any sizes of any owners: when all connections have ended, nothing is counted."""
    unread, sizes = UnreadAnswers(), {}
    for owner, size in steps:
        unread.resize(owner, sizes.get(owner, 0), size)
        sizes[owner] = size
    assert unread.bytes == sum(sizes.values())
    for owner, size in sizes.items():
        unread.resize(owner, size, 0)
    assert (unread.bytes, dict(unread._by_owner)) == (0, {})
