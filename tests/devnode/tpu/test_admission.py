import pytest
from solders.pubkey import Pubkey

from devnode.tpu.admission import INTERVAL_SECONDS, Admission, Admitted, Arrivals, Limits, Throttle, TooMany

BIG, SMALL, TINY, UNSTAKED = (Pubkey.from_bytes(bytes((number,)) * 32) for number in range(1, 5))
STAKES = {BIG: 75_000, SMALL: 24_999, TINY: 1}


def admission(**limits: int) -> Admission:
    return Admission(Limits(**limits), STAKES)  # type: ignore[arg-type]


def test_an_address_may_connect_eight_times_a_minute() -> None:
    """An address may make a burst of eight connections, then one every 7.5 seconds."""
    arrivals = Arrivals(Limits())
    assert [arrivals.allows("a", 100.0) for _ in range(9)] == [True] * 8 + [False]
    assert arrivals.allows("b", 100.0)
    assert not arrivals.allows("a", 107.0)
    assert arrivals.allows("a", 107.6) and not arrivals.allows("a", 107.6)
    assert [arrivals.allows("a", 1_000.0) for _ in range(9)] == [True] * 8 + [False]


def test_idle_addresses_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded, from however many addresses clients connect."""
    monkeypatch.setattr("devnode.tpu.admission._ADDRESSES_MAX", 3)
    arrivals = Arrivals(Limits())
    for number in range(10):
        arrivals.allows(str(number), number * 100.0)
    assert len(arrivals._buckets) <= 3


def test_streams_grow_with_the_share_of_stake() -> None:
    """The number of streams goes from 128 to 512; a share below 1 in 50,000 counts as none."""
    one = admission()
    assert one.admit(1, UNSTAKED) == Admitted(128, is_staked=False)
    assert one.admit(2, "192.0.2.1") == Admitted(128, is_staked=False)
    assert one.admit(3, TINY) == Admitted(128, is_staked=False)
    assert one.admit(4, BIG) == Admitted(128 + 288, is_staked=True)
    assert one.stake_share(SMALL) == 24_999 / 100_000


def test_connections_of_a_peer_are_counted_together() -> None:
    """A peer may have eight connections without stake and sixteen with; one that leaves makes room."""
    one = admission()
    assert [isinstance(one.admit(number, UNSTAKED), Admitted) for number in range(9)] == [True] * 8 + [False]
    assert [isinstance(one.admit(100 + number, BIG), Admitted) for number in range(17)] == [True] * 16 + [False]
    one.leave(3)
    one.leave(3)
    assert isinstance(one.admit(50, UNSTAKED), Admitted)
    assert one.admit(51, UNSTAKED) == TooMany()


def test_a_full_table_loses_its_oldest_tenth() -> None:
    """Peers with stake have a separate table."""
    one = admission(unstaked_connections_max=10)
    one.admit(0, BIG)
    for number in range(1, 11):
        assert isinstance(one.admit(number, str(number)), Admitted)
    full = one.admit(11, "new")
    assert isinstance(full, Admitted) and full.evicted == (1,)
    again = one.admit(12, "newer")
    assert isinstance(again, Admitted) and again.evicted == (2,)


def test_the_rate_is_counted_by_tenths_of_a_second() -> None:
    throttle = Throttle(2)
    assert [throttle.wait_seconds(7.01), throttle.wait_seconds(7.02)] == [0, 0]
    wait = throttle.wait_seconds(7.04)
    assert wait == pytest.approx(0.06) and wait <= INTERVAL_SECONDS
    assert throttle.wait_seconds(7.04 + wait) == 0
    unlimited = Throttle(None)
    assert not any(unlimited.wait_seconds(7.0) for _ in range(1_000))
