"""Raydium's constant-product program: addresses of mainnet, layouts, amounts by their properties."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st
from solders.pubkey import Pubkey

from actors.launch_programs import addresses, pdas
from actors.launch_programs.cpmm import (
    AMM_CONFIG,
    AUTHORITY,
    CPMM_POOL_BYTES,
    CPMM_SLOTS,
    CpmmConfig,
    CpmmKind,
    CpmmPool,
    cpmm_initialize,
    cpmm_input,
    cpmm_output,
    cpmm_pool_keys,
    cpmm_swap,
    decode_cpmm_config,
    decode_cpmm_pool,
    encode_cpmm_config,
    encode_cpmm_pool,
)

LOW, HIGH = sorted((Pubkey.new_unique(), Pubkey.new_unique()), key=bytes)
KEYS = cpmm_pool_keys(HIGH, addresses.TOKEN_2022_PROGRAM, LOW, addresses.TOKEN_PROGRAM)
USER = Pubkey.new_unique()


def test_fixed_addresses_are_those_of_mainnet() -> None:
    """The first configuration and the authority of all vaults, derived from their seeds."""
    assert str(AMM_CONFIG) == "D4FPEruKEHrG5TenZ2mpDGEfu1iUvTiqBxvpU8HLBvC2"
    assert str(AUTHORITY) == "GpMZbSM2GgvTKHJirzeGfMFoaZ8UR2X7F4v8vHTvxFbL"


def test_a_pool_has_its_mints_in_order() -> None:
    """Whichever mint is named first; each side keeps its token program."""
    assert (KEYS["mint_0"], KEYS["mint_1"]) == (LOW, HIGH)
    assert KEYS["program_1"] == addresses.TOKEN_2022_PROGRAM
    assert cpmm_pool_keys(LOW, addresses.TOKEN_PROGRAM, HIGH, addresses.TOKEN_2022_PROGRAM) == KEYS


def test_classifiers_find_their_accounts() -> None:
    """Creator, pool and mints of a creation; payer, pool and token accounts of a swap, in both directions."""
    made = cpmm_initialize(KEYS, USER, 5, 6).accounts
    assert [made[position].pubkey for position in (0, 3, 4, 5)] == [USER, KEYS["pool"], LOW, HIGH]
    assert len(made) == len(CPMM_SLOTS[CpmmKind.INITIALIZE]) == 20
    for mint, other in ((LOW, HIGH), (HIGH, LOW)):
        swap = cpmm_swap(KEYS, CpmmKind.SWAP_BASE_INPUT, USER, mint, 7, 8)
        found = [swap.accounts[position].pubkey for position in (0, 3, 10, 11)]
        assert found == [USER, KEYS["pool"], mint, other]
        program = addresses.TOKEN_PROGRAM if mint == LOW else addresses.TOKEN_2022_PROGRAM
        assert swap.accounts[4].pubkey == pdas.associated_token(USER, program, mint)
        assert bytes(swap.data)[8:] == (7).to_bytes(8, "little") + (8).to_bytes(8, "little")


def test_accounts_survive_their_bytes() -> None:
    """At the program's sizes; other data is no account of it."""
    pool = CpmmPool(*(Pubkey.new_unique() for _ in range(10)), 250, 0, 9, 6, 9, 10**9, open_time=7)
    data = encode_cpmm_pool(pool)
    assert len(data) == CPMM_POOL_BYTES and decode_cpmm_pool(data) == pool
    assert data[8 + 5 * 32 : 8 + 6 * 32] == bytes(pool.mint_0)
    config = CpmmConfig(255, False, 3, 2_500, fund_owner=Pubkey.new_unique())
    assert decode_cpmm_config(encode_cpmm_config(config)) == config
    for decode in (decode_cpmm_pool, decode_cpmm_config):
        assert decode(b"") is None and decode(bytes(700)) is None
    assert decode_cpmm_pool(data[:-1]) is None
    assert dataclasses.replace(pool, lp_supply=1) != pool


@given(st.integers(1, 10**15), st.integers(10**3, 10**15), st.integers(10**3, 10**15), st.integers(0, 50_000))
def test_no_swap_takes_value_out_of_the_pool(amount: int, inside: int, outside: int, fee_rate: int) -> None:
    """The product of both reserves never falls; paying the price of an output gives at least that output."""
    out, fee = cpmm_output(amount, inside, outside, fee_rate)
    assert 0 <= out < outside and fee * 1_000_000 >= amount * fee_rate
    assert (inside + amount) * (outside - out) >= inside * outside
    cost = cpmm_input(amount, inside, outside, fee_rate)
    assert (cost is None) == (amount >= outside)
    if cost is not None:
        assert cpmm_output(cost[0], inside, outside, fee_rate)[0] >= amount
