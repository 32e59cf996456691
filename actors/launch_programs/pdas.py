"""Addresses that are derived from a coin or a wallet.

Implements: the program-derived addresses of the launch platform, its AMM and its mayhem mode, and associated token
accounts of both token programs. Pure. Results are cached, because every trade needs the same dozen addresses.
"""

from functools import lru_cache

from solders.pubkey import Pubkey

from actors.launch_programs.addresses import (
    ASSOCIATED_TOKEN_PROGRAM,
    MAYHEM,
    PUMP,
    PUMP_AMM,
    PUMP_FEES,
    TOKEN_METADATA_PROGRAM,
)

_KEPT = 4_096
CANONICAL_POOL_INDEX = 0


@lru_cache(_KEPT)
def _derived(program: Pubkey, *seeds: bytes) -> Pubkey:
    return Pubkey.find_program_address(seeds, program)[0]


def bonding_curve(mint: Pubkey) -> Pubkey:
    return _derived(PUMP, b"bonding-curve", bytes(mint))


def bonding_curve_v2(mint: Pubkey) -> Pubkey:
    """A trailing account of the legacy trades; the account need not exist."""
    return _derived(PUMP, b"bonding-curve-v2", bytes(mint))


def creator_vault(creator: Pubkey) -> Pubkey:
    """The vault for a creator's fees. creator: from the live curve; it can differ from the wallet that launched."""
    return _derived(PUMP, b"creator-vault", bytes(creator))


def user_volume_accumulator(user: Pubkey) -> Pubkey:
    return _derived(PUMP, b"user_volume_accumulator", bytes(user))


def holder_rewards(mint: Pubkey) -> Pubkey:
    return _derived(PUMP, b"holder-rewards", bytes(mint))


def pool_authority(mint: Pubkey) -> Pubkey:
    return _derived(PUMP, b"pool-authority", bytes(mint))


def canonical_pool(mint: Pubkey, quote_mint: Pubkey) -> Pubkey:
    """The pool of a migrated coin. quote_mint: WSOL for SOL coins."""
    index = CANONICAL_POOL_INDEX.to_bytes(2, "little")
    return _derived(PUMP_AMM, b"pool", index, bytes(pool_authority(mint)), bytes(mint), bytes(quote_mint))


def pool_lp_mint(pool: Pubkey) -> Pubkey:
    return _derived(PUMP_AMM, b"pool_lp_mint", bytes(pool))


def pool_v2(mint: Pubkey) -> Pubkey:
    """A trailing account of trades in pools; the account need not exist."""
    return _derived(PUMP_AMM, b"pool-v2", bytes(mint))


def amm_creator_vault(coin_creator: Pubkey) -> Pubkey:
    return _derived(PUMP_AMM, b"creator_vault", bytes(coin_creator))


def amm_global_volume_accumulator() -> Pubkey:
    return _derived(PUMP_AMM, b"global_volume_accumulator")


def amm_user_volume_accumulator(user: Pubkey) -> Pubkey:
    return _derived(PUMP_AMM, b"user_volume_accumulator", bytes(user))


def sharing_config(mint: Pubkey) -> Pubkey:
    return _derived(PUMP_FEES, b"sharing-config", bytes(mint))


def mayhem_state(mint: Pubkey) -> Pubkey:
    return _derived(MAYHEM, b"mayhem-state", bytes(mint))


def token_metadata(mint: Pubkey) -> Pubkey:
    """The metadata account of a coin of `create`; coins of `create_v2` have their metadata in the mint."""
    return _derived(TOKEN_METADATA_PROGRAM, b"metadata", bytes(TOKEN_METADATA_PROGRAM), bytes(mint))


def associated_token(owner: Pubkey, token_program: Pubkey, mint: Pubkey) -> Pubkey:
    return _derived(ASSOCIATED_TOKEN_PROGRAM, bytes(owner), bytes(token_program), bytes(mint))
