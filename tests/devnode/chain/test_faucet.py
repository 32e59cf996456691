import pytest
from solders.pubkey import Pubkey
from solders.token.associated import get_associated_token_address

from devnode.chain.faucet import Faucet, FaucetError
from devnode.encoding.addresses import USDC_MINT
from devnode.parsing.token_accounts import holding, mint_supply
from tests.devnode.local_node import LocalNode


def test_a_wallet_gets_what_was_asked_for(local: LocalNode) -> None:
    wallet = Pubkey.new_unique()
    funded = local.faucet.fund(wallet, 10**9, 5_000_000)
    account = local.chain.vm.account(wallet)
    assert account is not None and account.lamports == 10**9
    token_account = get_associated_token_address(wallet, USDC_MINT)
    assert funded.token_account == str(token_account)
    held = holding(local.chain.vm.account(token_account))
    assert held is not None and (held.owner, held.amount) == (wallet, 5_000_000)
    mint = local.chain.vm.account(USDC_MINT)
    assert mint is not None and mint_supply(mint.data) == 5_000_000


def test_equal_grants_in_one_slot_are_separate_transactions(local: LocalNode) -> None:
    wallet = Pubkey.new_unique()
    signatures = {local.faucet.airdrop(wallet, 10**9) for _ in range(20)}
    assert len(signatures) == 20
    account = local.chain.vm.account(wallet)
    assert account is not None and account.lamports == 20 * 10**9


def test_a_new_faucet_finds_an_unused_price(local: LocalNode) -> None:
    """A restarted faucet counts prices from the start again, on the same blockhash."""
    wallet = Pubkey.new_unique()
    first = local.faucet.airdrop(wallet, 10**9)
    second = Faucet(local.chain, local.keys.faucet).airdrop(wallet, 10**9)
    assert first != second


def test_funding_sends_only_the_requested_currency(local: LocalNode) -> None:
    wallet = Pubkey.new_unique()
    funded = local.faucet.fund(wallet, 0, 1)
    assert funded.sol_signature is None and funded.usdc_signature is not None
    assert local.chain.vm.account(wallet) is None
    assert local.faucet.fund(wallet, 10**9, 0).usdc_signature is None


def test_a_grant_that_cannot_land_says_why(local: LocalNode) -> None:
    with pytest.raises(FaucetError, match="insufficient funds for rent"):
        local.faucet.airdrop(Pubkey.new_unique(), 1)
    local.chain.gates.append(lambda decoded, source: False)
    with pytest.raises(FaucetError, match="dropped"):
        local.faucet.airdrop(Pubkey.new_unique(), 10**9)
