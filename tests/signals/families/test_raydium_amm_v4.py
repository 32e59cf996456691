"""New pools and swaps of AMM v4."""

from actors.signals.families import raydium_amm_v4 as amm
from actors.signals.observations import WSOL, What
from tests.signals.made import bought, key, numbered, seen


def test_only_a_whole_initialize2_is_a_new_pool() -> None:
    """One-byte tags are weak, so length of data and accounts count too."""
    (found,) = seen(numbered(amm.PROGRAM, b"\x01" + bytes(25), 21, put={9: WSOL}))
    assert (found.what, found.mint, found.accounts) == (What.CREATED, key(8), (key(4), key(8), key(17)))
    assert seen(numbered(amm.PROGRAM, b"\x01" + bytes(24), 21)) == []
    assert seen(numbered(amm.PROGRAM, b"\x01" + bytes(25), 20)) == []
    assert seen(numbered(amm.PROGRAM, b"\x03" + bytes(25), 21)) == []


def test_the_traders_accounts_count_from_the_end() -> None:
    """Swaps of 17, 18 and 8 accounts."""
    for tag, count in ((b"\x09", 17), (b"\x09", 18), (b"\x0b", 17), (b"\x10", 8), (b"\x11", 8)):
        found = bought(amm.PROGRAM, tag + bytes(16), -3, -2, count)
        assert found.accounts == (key(1), key(99), key(count - 1))
