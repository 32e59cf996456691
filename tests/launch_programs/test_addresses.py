from solders.pubkey import Pubkey

from actors.launch_programs import addresses


def derived(program: Pubkey, *seeds: bytes) -> Pubkey:
    return Pubkey.find_program_address(list(seeds), program)[0]


def test_fixed_addresses_are_derived_from_their_seeds() -> None:
    """A mistyped address would be refused by the program, or belong to another person."""
    pump, fees, amm, mayhem = addresses.PUMP, addresses.PUMP_FEES, addresses.PUMP_AMM, addresses.MAYHEM
    assert derived(pump, b"global") == addresses.GLOBAL
    assert derived(pump, b"__event_authority") == addresses.EVENT_AUTHORITY
    assert derived(pump, b"global_volume_accumulator") == addresses.GLOBAL_VOLUME_ACCUMULATOR
    assert derived(pump, b"mint-authority") == addresses.MINT_AUTHORITY
    assert derived(pump, b"quote-control") == addresses.QUOTE_CONTROL
    assert derived(fees, b"fee_config", bytes(pump)) == addresses.CURVE_FEE_CONFIG
    assert derived(fees, b"fee_config", bytes(amm)) == addresses.AMM_FEE_CONFIG
    assert derived(amm, b"global_config") == addresses.AMM_GLOBAL_CONFIG
    assert derived(amm, b"__event_authority") == addresses.AMM_EVENT_AUTHORITY
    assert derived(mayhem, b"global-params") == addresses.MAYHEM_GLOBAL_PARAMS
    assert derived(mayhem, b"sol-vault") == addresses.MAYHEM_SOL_VAULT


def test_every_recipient_is_listed_once() -> None:
    lists = addresses.NORMAL_FEE_RECIPIENTS + addresses.RESERVED_FEE_RECIPIENTS + addresses.BUYBACK_FEE_RECIPIENTS
    assert len(lists) == len(set(lists)) == 24
