from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from solders.pubkey import Pubkey

from actors.launch_programs import addresses
from actors.launch_programs.configs import (
    FEE_CONFIG_BYTES,
    FEE_CONFIG_DISCRIMINATOR,
    GLOBAL_BYTES,
    GLOBAL_DISCRIMINATOR,
    QUOTE_CONTROL_DISCRIMINATOR,
    FeeConfig,
    Fees,
    FeeTier,
    Global,
    QuoteControl,
    decode_fee_config,
    decode_global,
    decode_quote_control,
    encode_fee_config,
    encode_global,
    encode_quote_control,
    global_volume_accumulator_bytes,
    user_volume_accumulator_bytes,
)

KEY = addresses.WITHDRAW_AUTHORITY
GLOBAL = Global(
    initialized=True,
    authority=KEY,
    fee_recipient=addresses.NORMAL_FEE_RECIPIENTS[0],
    initial_virtual_token_reserves=1_073_000_000_000_000,
    initial_virtual_sol_reserves=30_000_000_000,
    initial_real_token_reserves=793_100_000_000_000,
    token_total_supply=10**15,
    fee_basis_points=95,
    withdraw_authority=KEY,
    enable_migrate=True,
    pool_migration_fee=15_000_001,
    creator_fee_basis_points=5,
    fee_recipients=addresses.NORMAL_FEE_RECIPIENTS[1:],
    set_creator_authority=KEY,
    admin_set_creator_authority=KEY,
    create_v2_enabled=True,
    whitelist_pda=addresses.MAYHEM_SOL_VAULT,
    reserved_fee_recipient=addresses.RESERVED_FEE_RECIPIENTS[0],
    mayhem_mode_enabled=True,
    reserved_fee_recipients=addresses.RESERVED_FEE_RECIPIENTS[1:],
    is_cashback_enabled=False,
    buyback_fee_recipients=addresses.BUYBACK_FEE_RECIPIENTS,
    buyback_basis_points=5_000,
    initial_virtual_quote_reserves=4_292_000_000,
    whitelisted_quote_mints=(addresses.USDC_MINT,),
    creator_fee_configurable=True,
    max_configurable_creator_fee_bps=300,
    holder_reward_claim_authority=KEY,
    is_holder_reward_enabled=True,
    curve_depth_max=1,
)
OFFSETS = {
    8: b"\x01",
    73: (1_073_000_000_000_000).to_bytes(8, "little"),
    105: (95).to_bytes(8, "little"),
    113: bytes(KEY),
    146: (15_000_001).to_bytes(8, "little"),
    162: bytes(addresses.NORMAL_FEE_RECIPIENTS[1]),
    450: b"\x01",
    483: bytes(addresses.RESERVED_FEE_RECIPIENTS[0]),
    515: b"\x01",
    741: bytes(addresses.BUYBACK_FEE_RECIPIENTS[0]),
    997: (5_000).to_bytes(8, "little"),
    1013: bytes(addresses.USDC_MINT),
    1045: b"\x01",
    1046: (300).to_bytes(8, "little"),
    1087: b"\x01",
}
bps = st.integers(0, 10_000)
fees = st.builds(Fees, bps, bps, bps)
tiers = st.lists(st.builds(FeeTier, st.integers(0, 2**128 - 1), fees), min_size=1, max_size=5).map(tuple)


def test_the_layout_of_global_agrees_with_the_chain() -> None:
    data = encode_global(GLOBAL)
    assert len(data) == GLOBAL_BYTES and data[:8] == GLOBAL_DISCRIMINATOR
    for at, wanted in OFFSETS.items():
        assert data[at : at + len(wanted)] == wanted, at
    assert decode_global(data) == GLOBAL


def test_in_an_older_global_the_newer_switches_are_off() -> None:
    """An account of 1,045 bytes has neither creator fees of coins nor holder rewards; the other fields are read."""
    read = decode_global(encode_global(GLOBAL)[:1_045])
    assert read is not None and read.buyback_basis_points == 5_000
    assert not read.creator_fee_configurable and not read.is_holder_reward_enabled
    assert decode_global(b"other" * 300) is None


def test_recipients_depend_on_the_mode() -> None:
    """Mayhem coins have other fee recipients than normal coins."""
    assert GLOBAL.fee_recipients_of(is_mayhem=False) == addresses.NORMAL_FEE_RECIPIENTS
    assert GLOBAL.fee_recipients_of(is_mayhem=True) == addresses.RESERVED_FEE_RECIPIENTS


@given(flat=fees, sol=tiers, stable=tiers, exotic=fees)
def test_fee_configs_are_read_back(
    flat: Fees, sol: tuple[FeeTier, ...], stable: tuple[FeeTier, ...], exotic: Fees
) -> None:
    config = FeeConfig(7, KEY, flat, sol, stable, exotic)
    data = encode_fee_config(config)
    assert len(data) == FEE_CONFIG_BYTES and decode_fee_config(data) == config
    without_exotic = decode_fee_config(data[:4_073])
    assert without_exotic == replace(config, exotic=Fees(0, 0, 0))
    first = decode_fee_config(data[:2_512])
    assert first is not None and first.tiers == sol and first.stable_tiers == ()


@given(data=st.binary(max_size=400))
def test_hostile_configs_are_none_or_read(data: bytes) -> None:
    """A wrong count must not make the decoder loop or raise."""
    for prefix in (FEE_CONFIG_DISCRIMINATOR, GLOBAL_DISCRIMINATOR, QUOTE_CONTROL_DISCRIMINATOR):
        for read in (decode_fee_config, decode_global, decode_quote_control):
            read(prefix + data)
    lying = FEE_CONFIG_DISCRIMINATOR + bytes(57) + b"\xff" * 4 + data
    assert decode_fee_config(lying) is None


@given(
    entries=st.lists(
        st.tuples(st.binary(min_size=32, max_size=32).map(Pubkey.from_bytes), st.integers(0, 2**64 - 1)), max_size=5
    )
)
def test_quote_control_is_read_back(entries: list[tuple[Pubkey, int]]) -> None:
    control = QuoteControl(KEY, tuple(entries))
    assert decode_quote_control(encode_quote_control(control)) == control
    for mint, reserves in dict(entries).items():
        assert control.initial_virtual_quote_reserves(mint) == reserves
    assert control.initial_virtual_quote_reserves(addresses.NATIVE_MINT_2022) is None


def test_volume_accumulators_have_their_size() -> None:
    """137 bytes cost a new user 1,844,400 lamports of rent."""
    data = user_volume_accumulator_bytes(KEY)
    assert len(data) == 137 and data[8:40] == bytes(KEY) and data[:8].hex() == "56ff700e66359afa"
    assert global_volume_accumulator_bytes()[:8].hex() == "ca2af62b8ebe1eff"
