from actors.launch_programs import addresses, pdas

from .samples import calls, key, sample


def test_addresses_of_a_coin_are_those_of_the_chain() -> None:
    """They equal the accounts of a landed launch and its first buy."""
    (created, _), (bought, _), _, _ = calls("pump_create_v2_buy_blocksubscribe")
    mint, user = key(created[0]), key(created[5])
    token_2022 = addresses.TOKEN_2022_PROGRAM
    assert pdas.bonding_curve(mint) == key(created[2])
    assert pdas.associated_token(pdas.bonding_curve(mint), token_2022, mint) == key(created[3])
    assert pdas.mayhem_state(mint) == key(created[12])
    assert pdas.associated_token(addresses.MAYHEM_SOL_VAULT, token_2022, mint) == key(created[13])
    assert pdas.creator_vault(user) == key(bought[9])
    assert pdas.user_volume_accumulator(user) == key(bought[13])
    assert pdas.bonding_curve_v2(mint) == key(bought[16])


def test_metadata_of_a_classic_coin() -> None:
    """The address equals that of a landed `create`."""
    accounts = [one["pubkey"] for one in sample("pump_ix_create")["payload"]["accounts"]]
    assert pdas.token_metadata(key(accounts[0])) == key(accounts[6])
    assert pdas.bonding_curve(key(accounts[0])) == key(accounts[2])


def test_sharing_config_and_quote_accounts_of_v2() -> None:
    (instruction,) = (one for one in sample("quote_vectors")["expected"]["instructions"] if one["kind"] == "BUY_V2")
    accounts = [key(text) for text, _ in instruction["accounts"]]
    assert pdas.sharing_config(accounts[1]) == accounts[18]
    assert pdas.associated_token(accounts[16], addresses.TOKEN_PROGRAM, addresses.WSOL_MINT) == accounts[17]


def test_pool_addresses_differ_by_quote() -> None:
    """A coin has one canonical pool for each quote, created by the coin's own authority."""
    mint = key("7YD6ZHb39jGb33ki2iFd7kHK11yMkSFCc9kvjJscpump")
    pools = {pdas.canonical_pool(mint, quote) for quote in (addresses.WSOL_MINT, addresses.USDC_MINT)}
    assert len(pools | {pdas.pool_authority(mint), pdas.holder_rewards(mint)}) == 4
    assert len({pdas.pool_lp_mint(pool) for pool in pools}) == 2
