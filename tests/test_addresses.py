"""Addresses that several contexts name."""

from solders.compute_budget import ID as COMPUTE_BUDGET
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM
from solders.token.associated import get_associated_token_address

from actors import addresses
from actors.units import parse_pubkey
from devnode.encoding import addresses as chain_addresses


def key(text: str) -> Pubkey:
    return Pubkey.from_string(text)


def test_addresses_are_those_of_the_chain_library_and_of_devnode() -> None:
    """A slip in one character would be an address that nobody has, and money sent there would be lost."""
    assert key(addresses.SYSTEM_PROGRAM) == SYSTEM
    assert key(addresses.COMPUTE_BUDGET_PROGRAM) == COMPUTE_BUDGET
    wallet, mint = Pubkey(bytes(range(32))), key(addresses.USDC_MAINNET_MINT)
    seeds = [bytes(wallet), bytes(key(addresses.TOKEN_PROGRAM)), bytes(mint)]
    found, _ = Pubkey.find_program_address(seeds, key(addresses.ASSOCIATED_TOKEN_PROGRAM))
    assert found == get_associated_token_address(wallet, mint)
    assert key(addresses.TOKEN_2022_PROGRAM) == chain_addresses.TOKEN_2022_PROGRAM
    assert key(addresses.USDC_DEVNET_MINT) == chain_addresses.USDC_MINT
    assert tuple(map(key, addresses.TIP_ACCOUNTS)) == chain_addresses.TIP_ACCOUNTS


def test_every_mint_is_a_public_key() -> None:
    """Payers and wallets refuse a mint that is not one."""
    mints = (addresses.WRAPPED_SOL_MINT, addresses.USDC_MAINNET_MINT, addresses.USDC_DEVNET_MINT)
    assert all(parse_pubkey(mint) for mint in mints)
    assert len(set(mints)) == 3
