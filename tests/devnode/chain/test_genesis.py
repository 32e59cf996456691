from solders.token.state import Mint

from devnode.chain.genesis import SALT_BYTES, chain_keys, genesis_accounts, seeded_salt
from devnode.encoding.addresses import NATIVE_MINT, USDC_MINT

SALT = bytes(32)


def test_keys_depend_on_seed_and_salt_alone() -> None:
    assert chain_keys(1, SALT).faucet == chain_keys(1, SALT).faucet
    assert chain_keys(1, SALT).faucet != chain_keys(2, SALT).faucet
    assert chain_keys(1, SALT).faucet != chain_keys(1, b"\x01" * 32).faucet
    keys = chain_keys(1, SALT)
    assert len({keys.faucet.pubkey(), keys.identity.pubkey(), keys.vote.pubkey()}) == 3


def test_only_the_faucet_mints_usdc_and_nobody_freezes() -> None:
    keys = chain_keys(0, SALT)
    accounts = dict(genesis_accounts(keys))
    usdc = Mint.from_bytes(accounts[USDC_MINT].data)
    assert (usdc.mint_authority, usdc.decimals, usdc.freeze_authority) == (keys.faucet.pubkey(), 6, None)
    native = Mint.from_bytes(accounts[NATIVE_MINT].data)
    assert (native.mint_authority, native.decimals) == (None, 9)


def test_each_seed_has_its_own_salt() -> None:
    assert seeded_salt(7) == seeded_salt(7) != seeded_salt(8) and len(seeded_salt(7)) == SALT_BYTES
