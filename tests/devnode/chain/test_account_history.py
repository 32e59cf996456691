from hypothesis import given
from hypothesis import strategies as st
from solders.account import Account
from solders.pubkey import Pubkey

from devnode.chain.account_history import AccountHistory

KEYS = [Pubkey.from_bytes(bytes([number]) * 32) for number in range(4)]


def holds(lamports: int) -> Account:
    return Account(lamports, b"", Pubkey.default(), False, 0)


def test_only_accounts_written_after_the_slot_have_changed() -> None:
    history = AccountHistory()
    history.note(5, KEYS[0], None)
    assert history.changed_after(KEYS[0], 4)
    assert not history.changed_after(KEYS[0], 5)
    assert not history.changed_after(KEYS[1], 0)
    assert history.changed_among(KEYS, 4) == [KEYS[0]]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=40), st.integers(0, 41))
def test_every_past_state_can_be_read(writes: list[tuple[int, int]], forgotten: int) -> None:
    """Write by write, as_of and overlay agree with a full copy of the accounts at the end of each slot."""
    history = AccountHistory()
    now: dict[Pubkey, Account] = {}
    states = {0: dict(now)}
    slot = 1
    for which, advance in writes:
        for _ in range(advance):
            states[slot] = dict(now)
            slot += 1
        key = KEYS[which]
        history.note(slot, key, now.get(key))
        now[key] = holds(len(states) * 100 + which)
    forgotten = min(forgotten, slot - 1)
    history.forget_up_to(forgotten)
    for past in range(forgotten, slot):
        state = states[past]
        for key in KEYS:
            seen = history.as_of(key, past) if history.changed_after(key, past) else now.get(key)
            assert (seen and seen.lamports) == (state.get(key) and state[key].lamports)
        overlay = history.overlay(past)
        assert set(overlay) == {key for key in KEYS if history.changed_after(key, past)}


def test_an_abandoned_fork_returns_the_accounts_before_it() -> None:
    """`abandon` returns each account as before the fork's first write, and removes the fork from the log."""
    history = AccountHistory()
    history.note(4, KEYS[0], holds(1))
    history.note(5, KEYS[0], holds(2))
    history.note(6, KEYS[0], holds(3))
    history.note(6, KEYS[1], None)
    held = history.abandon(5)
    assert {key: account and account.lamports for key, account in held.items()} == {KEYS[0]: 2, KEYS[1]: None}
    assert not history.changed_after(KEYS[0], 4) and not history.changed_after(KEYS[1], 0)
    assert history.changed_after(KEYS[0], 3)
    history.note(7, KEYS[0], holds(2))
    history.forget_up_to(7)
    assert history.overlay(0) == {}
