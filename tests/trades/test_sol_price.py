import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import addresses
from actors.trades.sol_price import DISCRIMINATOR, EARLY_SECONDS_MAX, SOL_USD_FEED, SolPrice, fee_credits, read_price

NOW = 1_800_000_000


def account(
    price: int = 15_012_345_678,
    confidence: int = 10_000_000,
    exponent: int = -8,
    published_at: int = NOW,
    feed: bytes = SOL_USD_FEED,
    level: bytes = b"\x01",
) -> bytes:
    """As the receiver program writes it: 134 bytes, the last of which is padding when the price is fully verified."""
    message = feed + price.to_bytes(8, "little", signed=True) + confidence.to_bytes(8, "little")
    message += exponent.to_bytes(4, "little", signed=True) + published_at.to_bytes(8, "little", signed=True)
    return (DISCRIMINATOR + bytes(32) + level + message + bytes(32)).ljust(134, b"\x00")


def read(data: bytes) -> SolPrice | str:
    return read_price(addresses.PYTH_RECEIVER_PROGRAM, data)


def test_a_price_is_read_in_millionths_rounded_down() -> None:
    assert read(account()) == SolPrice(150_123_456, NOW)
    assert read(account(price=150, confidence=1, exponent=0)) == SolPrice(150_000_000, NOW)
    assert read(account(price=15, confidence=0, exponent=1)) == SolPrice(150_000_000, NOW)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (account(price=0), "not a price"),
        (account(price=-5), "not a price"),
        (account(price=1, confidence=0, exponent=-8), "not a price"),
        (account(price=2**62, confidence=0, exponent=6), "not a price"),
        (account(exponent=2**31 - 1), "not a price"),
        (account(exponent=-(2**31)), "not a price"),
        (account(confidence=400_000_000), "uncertain"),
        (account(feed=bytes(32)), "not about SOL/USD"),
        (account(level=b"\x00\x05"), "not fully verified"),
        (b"x" + account()[1:], "another layout"),
        (account()[:100], "another layout"),
        (b"", "another layout"),
    ],
)
def test_what_is_no_price_is_refused_with_a_reason(data: bytes, reason: str) -> None:
    """Nothing is guessed: a wrong number would be charged."""
    found = read(data)
    assert isinstance(found, str) and reason in found
    assert isinstance(read_price(addresses.TOKEN_PROGRAM, account()), str)


@given(st.binary(max_size=200), st.booleans())
def test_hostile_bytes_never_raise(data: bytes, is_headed: bool) -> None:
    assert read(account()[:41] + data if is_headed else data)


def test_an_old_price_and_one_of_the_future_are_not_charged_by() -> None:
    """A price is good up to its limit to the second; the operator's has no age."""
    price = SolPrice(1, NOW)
    assert price.fault(NOW + 120, 120) is None and price.fault(NOW - EARLY_SECONDS_MAX, 120) is None
    assert "121 seconds old, at most 120" in str(price.fault(NOW + 121, 120))
    assert "future" in str(price.fault(NOW - EARLY_SECONDS_MAX - 1, 120))
    assert SolPrice(1, None).fault(NOW, 1) is None and SolPrice(1, None).age_seconds(NOW) is None
    assert price.age_seconds(NOW + 7) == 7


def test_the_fee_is_a_fixed_part_and_basis_points_at_the_live_rate() -> None:
    """1 SOL at $150 and 0.5 % is $0.75: 75,000 credits at 100,000 for one USDC."""
    assert fee_credits(25, 50, 10**9, 150_000_000, 100_000) == 75_025
    assert fee_credits(25, 0, 10**9, 150_000_000, 100_000) == 25
    assert fee_credits(25, 50, 1, 150_000_000, 100_000) == 26, "a part of a credit is rounded up"


@given(
    st.integers(1, 10**6),
    st.integers(0, 10_000),
    st.integers(0, 2**64 - 1),
    st.integers(1, 10**12),
    st.integers(1, 10**9),
)
def test_a_fee_is_exact_and_rounded_up_once(build: int, bps: int, lamports: int, micro: int, per_usdc: int) -> None:
    fee = fee_credits(build, bps, lamports, micro, per_usdc) - build
    exact = lamports * bps * micro * per_usdc
    assert exact <= fee * 10**19 < exact + 10**19
