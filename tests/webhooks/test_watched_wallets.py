"""Guards the places of watched wallets when accounts stop paying and pay again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.place_shares import PlaceShares
from actors.webhooks.watched_wallets import WatchedWallets

SHARES = PlaceShares(total=40, kept=10, base=2, of_one_max=20)
ACCOUNTS = [bytes([number]) * 32 for number in range(4)]
NEWCOMER = b"n" * 32


def wallets(account: bytes, count: int) -> frozenset[str]:
    return frozenset(f"{account[0]}:{number}" for number in range(count))


@pytest.mark.threat(68)
def test_an_account_that_pays_again_waits_until_its_places_are_free() -> None:
    first, second, third, small = ACCOUNTS
    watched = WatchedWallets(SHARES)
    assert len(watched.of({first: wallets(first, 20)})) == 20
    assert watched.of({}) == frozenset()
    others = {second: wallets(second, 15), third: wallets(third, 14)}
    assert len(watched.of(others)) == 29
    back = others | {first: wallets(first, 20)}
    assert watched.of(back) == watched.of(others) and not watched.is_holder(first)
    assert wallets(small, 2) <= watched.of(back | {small: wallets(small, 2)})
    del back[second]
    assert wallets(first, 16) < watched.of({first: wallets(first, 16), third: back[third]})


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(ACCOUNTS), st.sampled_from(["name", "stop", "return"]), st.integers(1, 20)),
        max_size=40,
    )
)
def test_however_accounts_come_and_go_places_are_not_exceeded_and_some_are_kept(
    steps: list[tuple[bytes, str, int]],
) -> None:
    """Accounts name wallets as the commands let them, stop to pay, and pay again in any order."""
    watched, named, away = WatchedWallets(SHARES), dict[bytes, frozenset[str]](), dict[bytes, frozenset[str]]()
    watched.of(named)
    for account, step, count in steps:
        if step == "name" and account not in away:
            own = len(named.get(account, ())) if watched.is_holder(account) else 0
            if count <= SHARES.most(own, len(watched.of(named)), 1_000) and count >= len(named.get(account, ())):
                named[account] = wallets(account, count)
                assert named[account] <= watched.of(named), "what was promised is watched"
        elif step == "stop" and account in named:
            away[account] = named.pop(account)
        elif step == "return" and account in away:
            named[account] = away.pop(account)
        assert len(watched.of(named)) <= SHARES.total
        assert SHARES.most(0, len(watched.of(named)), 1_000) >= SHARES.base
        assert wallets(NEWCOMER, 2) <= WatchedWallets.of(watched, named | {NEWCOMER: wallets(NEWCOMER, 2)})
        watched.of(named)
