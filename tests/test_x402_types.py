"""The names of networks and tokens that payers check before they sign."""

from actors import x402_types
from actors.config import PaymentsConfig


def test_the_network_id_is_the_start_of_its_genesis_hash():
    """CAIP-2 for this chain: the first 32 characters; clients refuse any other id."""
    assert x402_types.NETWORKS["mainnet"].v2 == "solana:" + "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"[:32]
    assert x402_types.NETWORKS["devnet"].v2 == "solana:" + "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG"[:32]


def test_the_mint_follows_the_network_unless_it_is_set():
    """Without a setting the service is on mainnet; a mint of the operator's own wins."""
    assert x402_types.mint_of(PaymentsConfig()) == "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
    assert x402_types.mint_of(PaymentsConfig(network="devnet")) == x402_types.NETWORKS["devnet"].usdc_mint
    own = "So11111111111111111111111111111111111111112"
    assert x402_types.mint_of(PaymentsConfig(network="devnet", usdc_mint=own)) == own
