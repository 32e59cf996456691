"""Client addresses and their allowance. Decisions, "IP-level limits"; threats 35 and 39."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.identity.client_addresses import (
    UNKNOWN,
    AddressVerdict,
    Counts,
    TrustedProxies,
    allowance_name,
    allowances,
    client_address,
    front_token,
    judge,
    minute_of,
    parse_hop,
)

TRUSTED = TrustedProxies(["10.0.0.0/8", "192.0.2.7", "fd00::/8", "::1"])


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "client"),
    [
        ("203.0.113.5", [], "203.0.113.5"),
        ("203.0.113.5", [b"198.51.100.1"], "203.0.113.5"),  # Not a trusted proxy: not believed.
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", [b"198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", [b"1.1.1.1, 198.51.100.1"], "198.51.100.1"),  # The client claims 1.1.1.1.
        ("10.0.0.1", [b"1.1.1.1, 198.51.100.1, 10.9.9.9, 192.0.2.7"], "198.51.100.1"),
        ("10.0.0.1", [b"1.1.1.1", b"198.51.100.1,10.9.9.9"], "198.51.100.1"),
        ("10.0.0.1", [b"10.1.1.1, 10.2.2.2"], "10.1.1.1"),  # All trusted: the first.
        ("10.0.0.1", [b"1.1.1.1, nonsense"], "10.0.0.1"),
        ("10.0.0.1", [b"1.1.1.1, nonsense, 10.2.2.2"], "10.2.2.2"),
        ("10.0.0.1", [b"1.1.1.1, , 10.2.2.2"], "10.2.2.2"),
        ("10.0.0.1", [b""], "10.0.0.1"),
        ("10.0.0.1", [b"unknown"], "10.0.0.1"),
        ("10.0.0.1", [b"\xff\xfe"], "10.0.0.1"),
        ("10.0.0.1", [b"198.51.100.1:5000"], "198.51.100.1"),
        ("10.0.0.1", [b"[2001:db8::1]:443"], "2001:db8::1"),
        ("10.0.0.1", [b"2001:DB8:0:0::1"], "2001:db8::1"),
        ("::1", [b"::ffff:198.51.100.1"], "198.51.100.1"),
        ("::ffff:10.0.0.1", [b"198.51.100.1"], "198.51.100.1"),
        ("fd12::9", [b"2001:db8::1, fd00::1"], "2001:db8::1"),
        ("fe80::1%eth0", [b"198.51.100.1"], "fe80::1"),
        (None, [b"198.51.100.1"], UNKNOWN),
        ("", [], UNKNOWN),
        ("testclient", [], UNKNOWN),
    ],
)
def test_the_client_is_the_last_untrusted_hop(peer: str | None, forwarded_for: list[bytes], client: str) -> None:
    """Decisions: the peer, or the last untrusted hop of X-Forwarded-For when the peer is a configured proxy."""
    assert client_address(peer, forwarded_for, TRUSTED) == client


@given(claims=st.lists(st.binary(max_size=40), max_size=50))
def test_no_claim_changes_who_an_untrusted_hop_is(claims: list[bytes]) -> None:
    """Whatever a client writes into the header, the proxy's own entry after it decides."""
    forwarded_for = [*claims, b"198.51.100.1"]
    assert client_address("10.0.0.1", forwarded_for, TRUSTED) == "198.51.100.1"
    assert client_address("10.0.0.1", [b", ".join(forwarded_for)], TRUSTED) == "198.51.100.1"


@pytest.mark.threat(35)
def test_a_huge_header_is_read_from_its_end_only() -> None:
    assert client_address("10.0.0.1", [b"1.1.1.1," * 2_000_000 + b"198.51.100.1"], TRUSTED) == "198.51.100.1"
    assert client_address("10.0.0.1", [b"10.1.1.1," * 2_000_000 + b"10.2.2.2"], TRUSTED) == "10.1.1.1"


def test_a_wrong_proxy_is_named() -> None:
    with pytest.raises(ValueError, match=r"identity\.trusted_proxies: 'proxy\.local'"):
        TrustedProxies(["10.0.0.1", "proxy.local"])


@given(text=st.text(max_size=100))
def test_any_hop_is_parsed_without_an_exception(text: str) -> None:
    parse_hop(text)


def test_an_ipv6_customer_has_one_allowance() -> None:
    """One customer line has 2**64 addresses; counted singly, the limit would bite nobody."""
    assert allowance_name("2001:db8:1:2:3:4:5:6") == allowance_name("2001:db8:1:2:ffff::1") == "2001:db8:1:2::/64"
    assert allowance_name("2001:db8:1:3::1") != allowance_name("2001:db8:1:2::1")
    assert allowance_name("198.51.100.1") == "198.51.100.1"
    assert allowance_name(UNKNOWN) == UNKNOWN


def test_an_ipv6_site_is_counted_beside_its_lines() -> None:
    """A /48 holds 65,536 lines; counted by line alone, its owner would have 65,536 allowances."""
    line = allowance_name("2001:db8:1:2:3:4:5:6")
    assert allowances(line) == (("2001:db8:1:2::/64", 1), ("2001:db8:1::/48", 10))
    assert allowances(allowance_name("2001:db8:1:ffff::9"))[1] == allowances(line)[1]
    assert allowances(allowance_name("2001:db8:2::9"))[1] != allowances(line)[1]
    assert allowances("198.51.100.1") == (("198.51.100.1", 1),)
    assert allowances(UNKNOWN) == ()


@given(address=st.ip_addresses())
def test_every_address_has_an_allowance_of_its_own_first(address: object) -> None:
    """The narrow count comes first, at the plain limit; the wider one is never the same name."""
    names = allowances(allowance_name(str(address)))
    assert names[0][1] == 1
    assert len({name for name, _ in names}) == len(names)


TOKEN = front_token(b"secret of the cluster")
FRONTED = TrustedProxies(["10.0.0.0/8"], TOKEN)


@pytest.mark.parametrize(
    ("front_says", "peer"),
    [
        ([TOKEN + b" 203.0.113.5"], "203.0.113.5"),
        ([b"x" * 32 + b" 203.0.113.6", TOKEN + b" 203.0.113.5"], "203.0.113.5"),
        ([TOKEN + b" 2001:db8::1"], "2001:db8::1"),
        ([], "127.0.0.1"),
        ([b"203.0.113.5"], "127.0.0.1"),
        ([b" 203.0.113.5"], "127.0.0.1"),
        ([b"", TOKEN[:-1] + b" 203.0.113.5"], "127.0.0.1"),
        ([b"\xff\xfe 203.0.113.5"], "127.0.0.1"),
    ],
)
def test_only_the_front_can_say_who_its_peer_is(front_says: list[bytes], peer: str) -> None:
    """The token is the proof; without it the peer of the connection counts."""
    assert FRONTED.peer("127.0.0.1", front_says) == peer


def test_without_a_front_an_empty_token_proves_nothing() -> None:
    """A service without a front must not believe a header with nothing before the address."""
    assert TrustedProxies([]).peer("127.0.0.1", [b" 203.0.113.5"]) == "127.0.0.1"


def test_behind_a_proxy_that_tells_no_addresses_there_is_no_peer() -> None:
    """Its own address would be one bucket for everybody."""
    hidden = TrustedProxies([], TOKEN, peers_are_clients=False)
    assert hidden.peer("127.0.0.1", []) is None
    assert client_address(hidden.peer("127.0.0.1", []), [], hidden) == UNKNOWN
    assert hidden.peer("127.0.0.1", [TOKEN + b" 203.0.113.5"]) == "203.0.113.5"


def test_the_token_is_of_this_cluster_and_is_not_its_secret() -> None:
    """It stands in a configuration file; the secret must not."""
    assert front_token(b"a") != front_token(b"b")
    assert len(TOKEN) == 32
    assert TOKEN.isalnum()


@given(total=st.integers(1, 200), limit=st.integers(1, 100), now=st.integers(0, 2**33))
def test_the_verdict_follows_from_the_count(total: int, limit: int, now: int) -> None:
    """Fixed one-minute windows; Retry-After reaches exactly into the next one."""
    verdict = judge(total, limit, now)
    assert verdict.allowed is (total <= limit)
    assert verdict.remaining == max(0, limit - total)
    assert 1 <= verdict.retry_after_seconds <= 60
    assert minute_of(now + verdict.retry_after_seconds) == minute_of(now) + 1
    assert verdict.reset == now + verdict.retry_after_seconds


def test_the_last_allowed_and_the_first_refused() -> None:
    assert judge(60, 60, 120) == AddressVerdict(True, 60, 0, 180, 60)
    assert judge(61, 60, 179) == AddressVerdict(False, 60, 0, 180, 1)


def test_counts_start_again_with_the_minute() -> None:
    counts = Counts()
    assert [counts.add("a", 5, 1), counts.add("a", 5, 2), counts.add("b", 5, 1), counts.add("a", 6, 1)] == [1, 3, 1, 1]
    assert counts.totals == {"a": 1}
    assert counts.add("a", 5, 1) == 2  # A late one of the minute before: it is counted, not forgotten.


@pytest.mark.threat(35, 39)
def test_ten_thousand_addresses_are_bounded() -> None:
    """Beyond the bound all newcomers share one count, and are so shed early; those known before are not harmed."""
    counts = Counts(names_max=100)
    totals = [counts.add(f"198.51.{number >> 8}.{number & 255}", 1, 1) for number in range(10_000)]
    assert len(counts.totals) <= 101
    assert set(totals[:100]) == {1}
    assert totals[-1] == 9_900
    assert counts.add("198.51.0.5", 1, 1) == 2
