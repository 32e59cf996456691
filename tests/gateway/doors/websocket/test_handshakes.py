"""How many handshakes a second an account and an address may make."""

from actors.gateway.doors.websocket import handshakes as handshake_limits
from actors.gateway.doors.websocket.handshakes import HandshakeLimits
from actors.identity.client_addresses import UNKNOWN

NOW = 1_000


def test_an_account_and_an_address_have_so_many_in_a_second() -> None:
    limits = HandshakeLimits(2, 3)
    assert [limits.admits_account(b"one", NOW) for _ in range(3)] == [True, True, False]
    assert limits.admits_account(b"two", NOW) and limits.admits_account(b"one", NOW + 1)
    assert [limits.admits_address("192.0.2.1", NOW + 1) for _ in range(4)] == [True, True, True, False]
    assert limits.admits_address("192.0.2.2", NOW + 1)


def test_an_ipv6_site_has_ten_times_as_many_as_one_of_its_networks() -> None:
    limits = HandshakeLimits(1, 1)
    networks = [f"2001:db8:1:{number}::/64" for number in range(12)]
    assert [limits.admits_address(name, NOW) for name in networks] == [True] * 10 + [False] * 2
    assert not limits.admits_address(networks[0], NOW) and limits.admits_address("2001:db8:2::/64", NOW)


def test_an_address_that_is_not_known_has_no_limit() -> None:
    """Many clients share it."""
    limits = HandshakeLimits(1, 1)
    assert all(limits.admits_address(UNKNOWN, NOW) for _ in range(10))


def test_a_clock_that_was_set_back_locks_nobody_out() -> None:
    limits = HandshakeLimits(1, 1)
    assert limits.admits_account(b"one", NOW) and limits.admits_account(b"one", NOW - 5)


def test_names_of_a_second_are_bounded() -> None:
    limits = HandshakeLimits(1, 1)
    for number in range(handshake_limits.NAMES_MAX + 10):
        limits.admits_account(b"%d" % number, NOW)
    assert len(limits._counts) == handshake_limits.NAMES_MAX
    assert not limits.admits_account(b"0", NOW)
