from hypothesis import given
from hypothesis import strategies as st

from actors.launch_programs.addresses import PUMP, USDC_MINT, WSOL_MINT, ZERO_KEY
from actors.launch_programs.pools import POOL_BYTES, POOL_BYTES_MIN, Pool, decode_pool, encode_pool


@given(reserves=st.integers(-(2**127), 2**127 - 1), supply=st.integers(0, 2**64 - 1))
def test_pools_decode_to_what_was_encoded(reserves: int, supply: int) -> None:
    """The virtual reserves are signed and have 128 bits; another size would move all later fields."""
    pool = Pool(254, 0, PUMP, USDC_MINT, WSOL_MINT, PUMP, USDC_MINT, WSOL_MINT, supply, PUMP, True, False, reserves, 30)
    data = encode_pool(pool)
    assert len(data) == POOL_BYTES and decode_pool(data + bytes(29)) == pool
    assert (data[9:11], data[43:75], data[75:107]) == (bytes(2), bytes(USDC_MINT), bytes(WSOL_MINT))
    assert data[203:211] == supply.to_bytes(8, "little") and data[261:269] == (30).to_bytes(8, "little")


def test_missing_fields_of_an_older_pool_are_zero() -> None:
    pool = Pool(254, 0, PUMP, USDC_MINT, WSOL_MINT, PUMP, USDC_MINT, WSOL_MINT, 5, PUMP)
    read = decode_pool(encode_pool(pool)[:POOL_BYTES_MIN])
    assert read is not None and read.lp_supply == 5 and read.coin_creator == ZERO_KEY
    assert decode_pool(encode_pool(pool)[: POOL_BYTES_MIN - 1]) is None
    assert decode_pool(bytes(POOL_BYTES)) is None
