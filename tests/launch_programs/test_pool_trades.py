"""Trades in pools of the AMM: accounts against a transaction of mainnet, amounts by their properties."""

from hypothesis import given
from hypothesis import strategies as st
from solders.pubkey import Pubkey

from actors.launch_programs import addresses, pdas
from actors.launch_programs.pool_trades import (
    POOL_SLOTS,
    PoolArguments,
    PoolKind,
    PoolRates,
    pool_arguments,
    pool_buy,
    pool_buy_exact_in,
    pool_kind_of,
    pool_sell,
    pool_trade_instruction,
    pool_trade_keys,
)
from actors.launch_programs.pools import Pool

# A buy of mainnet (September 2025), before the three trailing accounts: position to address.
SAMPLE_DATA = bytes.fromhex("66063d1201daebeaa4379b3b18000000c0fd320f0000000001")
SAMPLE = {
    0: "A4erfEr1Y2fUKE4wYnZNhGKSXNPUaqaiRYBGWReYMcx5",
    1: "DZyt9ZDH37TARgRa7ikZckeBPnSzJ58TTpjiiefmZC3c",
    2: "ADyA8hdefvWN2dbGGWFotbzWxrAvLW83WG6QCVXvJKqw",
    3: "8cQynx5ZaJKwdHsuXmSn3Y16RXta7ZTyTS1hW55Gpump",
    4: "So11111111111111111111111111111111111111112",
    9: "7VtfL8fvgNfhz17qKRMjzQEXgbdpnHHHQRh54R9jP2RJ",
    10: "7GFUN3bWzJMKMRZ34JLsvcqdssDbXnp589SiE33KVwcC",
    11: "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
    12: "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
    13: "11111111111111111111111111111111",
    14: "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL",
    15: "GS4CU59F31iL7aR2Q8zVS8DRrcRnXX1yjQ66TqNVQnaR",
    16: "pAMMBay6oceH9fJKBRHGP5D4bD4sWpmSwMn52FMfXEA",
    19: "C2aFPdENg4A2HQsmrd5rTw5TaYBX5Ku887cWjbFKtZpw",
    20: "VmEr9F51o1vt3Zsf2NNDQuT9MVv2PoFNdctYPV3kTZo",
    21: "5PHirr8joyTMp9JMm6nW7hNDVyEYdkzDqazxPD7RaTjx",
    22: "pfeeUxB6jkeY1Hxd7CsFCAjcbHA9rWtchMGdZ6VojVZ",
}
reserves = st.integers(10**6, 10**15)
rates = st.builds(PoolRates, st.integers(0, 300), st.integers(0, 300), st.integers(0, 300))


def sample_pool() -> Pool:
    mint = Pubkey.from_string(SAMPLE[3])
    return Pool(0, 0, pdas.pool_authority(mint), mint, addresses.WSOL_MINT, *(Pubkey.new_unique() for _ in range(3)), 1)


def test_the_accounts_are_those_of_a_buy_on_mainnet() -> None:
    """Derived addresses and order; the trailing accounts came later, and sells have no volume accounts."""
    pool = sample_pool()
    address, user, recipient = (Pubkey.from_string(SAMPLE[position]) for position in (0, 1, 9))
    keys = pool_trade_keys(pool, address, addresses.TOKEN_PROGRAM, user, recipient, addresses.BUYBACK_FEE_RECIPIENTS[0])
    made = pool_trade_instruction(PoolKind.BUY, PoolArguments(104_079_243_172, 255_000_000, True), keys)
    assert bytes(made.data) == SAMPLE_DATA
    assert {position: str(made.accounts[position].pubkey) for position in SAMPLE} == SAMPLE
    assert [meta.is_signer for meta in made.accounts].index(True) == 1
    assert len(made.accounts) == 26
    sells = [slot.name for slot in POOL_SLOTS[PoolKind.SELL]]
    assert sells == [slot.name for slot in POOL_SLOTS[PoolKind.BUY] if "volume" not in slot.name]


def test_data_is_read_as_it_is_written() -> None:
    """A sell has no third argument; foreign data is no trade."""
    assert pool_kind_of(SAMPLE_DATA) is PoolKind.BUY
    assert pool_arguments(SAMPLE_DATA) == PoolArguments(104_079_243_172, 255_000_000, True)
    assert pool_arguments(SAMPLE_DATA[:24]) == PoolArguments(104_079_243_172, 255_000_000, False)
    assert pool_arguments(SAMPLE_DATA[:23]) is None
    assert pool_kind_of(bytes(24)) is None


@given(reserves, reserves, st.integers(1, 10**15), rates)
def test_no_trade_takes_value_out_of_the_pool(base: int, quote: int, amount: int, fees: PoolRates) -> None:
    """The product of both reserves never falls, with the fee of liquidity providers in the pool; a budget is never
    exceeded; no fee is rounded down."""
    sold = pool_sell(base, quote, amount, fees)
    if sold is not None:
        assert (base + amount) * (quote - sold.quote + sold.lp_fee) >= base * quote
        assert sold.left_for_seller > 0
    bought = pool_buy(base, quote, amount, fees)
    assert (bought is None) == (amount >= base)
    if bought is not None:
        assert (base - amount) * (quote + bought.quote + bought.lp_fee) >= base * quote
        assert bought.protocol_fee * 10_000 >= bought.quote * fees.protocol_bps
    budget = pool_buy_exact_in(base, quote, amount, fees)
    if budget is not None:
        assert 0 < budget.base < base and budget.paid_by_buyer <= amount
        assert (base - budget.base) * (quote + budget.quote) >= base * quote


def test_nothing_is_no_trade() -> None:
    """Zero amounts, an empty pool, a budget that buys no token."""
    free = PoolRates(0, 0, 0)
    assert pool_sell(10, 10, 0, free) is None and pool_sell(0, 10, 1, free) is None
    assert pool_buy(10, 10, 0, free) is None
    assert pool_buy_exact_in(10, 10**9, 1, free) is None
