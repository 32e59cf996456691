"""Calls that wait to be written: what they become, and how many there may be."""

from actors.call_log.core import WAITING_MAX, WAITING_OF_ACCOUNT_MAX, LoggedCall, Noted, RecentCalls, of_account

ACCOUNT = b"a" * 32


def noted(outcome: str = "result", credits: int = 1, has_credits: bool = True, ended_at: float = 9.0) -> Noted:
    return (3, 0.00125, ended_at, "r-1", has_credits), "getSlot", outcome, credits


def test_a_noted_call_becomes_what_is_kept() -> None:
    """Its time is the wall's, though the moment of its end was told by a clock that nobody sets."""
    recent = RecentCalls()
    room = recent.room_of(ACCOUNT, 1)
    assert room is not None
    room.append(noted())
    ((pubkey, taken),) = recent.take()
    found = of_account(pubkey, taken, 10.0, 1_700_000_000_000)
    call = LoggedCall(1_700_000_000_000 - 1_000, "getSlot", "result", 1_250, 1, "r-1", 3)
    assert found == (ACCOUNT, (call,), True)
    assert recent.take() == []


def test_an_account_without_credits_is_known_by_its_calls() -> None:
    assert not of_account(ACCOUNT, [noted("INSUFFICIENT_CREDITS", 0, False)], 10.0, 0).has_credits
    assert of_account(ACCOUNT, [noted("result", 5, False)], 10.0, 0).has_credits


def test_one_account_that_floods_leaves_room_for_the_others() -> None:
    """And all together have a room that does not grow; what finds none is counted."""
    recent = RecentCalls()
    for _ in range(3 * WAITING_OF_ACCOUNT_MAX):
        room = recent.room_of(ACCOUNT, 1)
        if room is not None:
            room.append(noted())
    assert recent.left_out == 2 * WAITING_OF_ACCOUNT_MAX
    for number in range(2 * WAITING_MAX):
        room = recent.room_of(number.to_bytes(32, "big"), 1)
        if room is not None:
            room.append(noted())
    taken = recent.take()
    assert sum(len(calls) for _, calls in taken) == WAITING_MAX
    assert recent.left_out == 2 * WAITING_OF_ACCOUNT_MAX + WAITING_MAX + WAITING_OF_ACCOUNT_MAX
    assert recent.room_of(ACCOUNT, 100) is not None, "what was taken away gives its room back"
