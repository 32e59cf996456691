"""Accounts of the launch programs in a new chain: programs, configuration and fee recipients.

Implements: genesis accounts with the values of mainnet (slot 454,742,940), and whether the platform's program is
imitated. Pure.

Program accounts look as on a real cluster (upgradeable loader, executable, a pointer to their program data), but the
program data does not exist. A call to them inside the VM fails with the runtime's "Program is not deployed".
"""

from typing import Protocol

from solders.account import Account
from solders.pubkey import Pubkey

from actors.launch_programs import addresses
from actors.launch_programs.configs import (
    FEE_CONFIG_BYTES,
    FeeConfig,
    Fees,
    FeeTier,
    Global,
    QuoteControl,
    encode_fee_config,
    encode_global,
    encode_quote_control,
    global_volume_accumulator_bytes,
)
from actors.launch_programs.cpmm import AMM_CONFIG, AMM_CONFIG_BUMP, CPMM, CpmmConfig, encode_cpmm_config
from devnode.encoding.addresses import RENT_EPOCH_EXEMPT, SYSTEM_PROGRAM, UPGRADEABLE_LOADER
from devnode.encoding.addresses import USDC_MINT as DEVNET_USDC_MINT
from devnode.launchpad.routing import ROUTER

IMITATED = (
    addresses.PUMP,
    addresses.PUMP_FEES,
    addresses.PUMP_AMM,
    addresses.MAYHEM,
    addresses.TOKEN_METADATA_PROGRAM,
    CPMM,
    ROUTER,
)
# Initial virtual reserves of a token quote, in base units: Global's value for its listed mint, and for devnet's USDC.
INITIAL_VIRTUAL_USDC = 4_292_000_000
CPMM_FEE_RATE = 2_500  # 0.25 %, the rate of mainnet's first configuration.
_PROGRAM_TAG = (2).to_bytes(4, "little")  # The state "program" of the upgradeable loader.
_WALLET_LAMPORTS = 1_000_000_000
_RENT_PER_BYTE, _RENT_BASE_BYTES = 6_960, 128
_CURVE_FEES = Fees(0, 95, 30)
_TIERS = (FeeTier(0, _CURVE_FEES),)


class ReadsAccounts(Protocol):
    def account(self, pubkey: Pubkey) -> Account | None: ...


def global_config() -> Global:
    """The values of mainnet's account. The private keys of its authorities are unknown, so they cannot change it."""
    return Global(
        initialized=True,
        authority=addresses.WITHDRAW_AUTHORITY,
        fee_recipient=addresses.NORMAL_FEE_RECIPIENTS[0],
        initial_virtual_token_reserves=1_073_000_000_000_000,
        initial_virtual_sol_reserves=30_000_000_000,
        initial_real_token_reserves=793_100_000_000_000,
        token_total_supply=1_000_000_000_000_000,
        fee_basis_points=95,
        withdraw_authority=addresses.WITHDRAW_AUTHORITY,
        enable_migrate=True,
        pool_migration_fee=15_000_001,
        creator_fee_basis_points=5,
        fee_recipients=addresses.NORMAL_FEE_RECIPIENTS[1:],
        set_creator_authority=addresses.WITHDRAW_AUTHORITY,
        admin_set_creator_authority=addresses.WITHDRAW_AUTHORITY,
        create_v2_enabled=True,
        whitelist_pda=addresses.MAYHEM_SOL_VAULT,
        reserved_fee_recipient=addresses.RESERVED_FEE_RECIPIENTS[0],
        mayhem_mode_enabled=True,
        reserved_fee_recipients=addresses.RESERVED_FEE_RECIPIENTS[1:],
        is_cashback_enabled=False,
        buyback_fee_recipients=addresses.BUYBACK_FEE_RECIPIENTS,
        buyback_basis_points=5_000,
        initial_virtual_quote_reserves=INITIAL_VIRTUAL_USDC,
        whitelisted_quote_mints=(addresses.USDC_MINT,),
        creator_fee_configurable=True,
        max_configurable_creator_fee_bps=300,
        holder_reward_claim_authority=addresses.ZERO_KEY,
        is_holder_reward_enabled=False,
        curve_depth_max=1,
    )


def fee_config() -> FeeConfig:
    return FeeConfig(0, addresses.WITHDRAW_AUTHORITY, _CURVE_FEES, _TIERS, _TIERS, _CURVE_FEES)


def launch_accounts() -> list[tuple[Pubkey, Account]]:
    """All accounts that the platform's transactions use and that do not belong to a coin or a user."""
    pump, fees = addresses.PUMP, addresses.PUMP_FEES
    wallets = (
        *addresses.NORMAL_FEE_RECIPIENTS,
        *addresses.RESERVED_FEE_RECIPIENTS,
        *addresses.BUYBACK_FEE_RECIPIENTS,
        addresses.WITHDRAW_AUTHORITY,
        addresses.MINT_AUTHORITY,
        addresses.EVENT_AUTHORITY,
        addresses.AMM_EVENT_AUTHORITY,
        addresses.MAYHEM_SOL_VAULT,
    )
    control = QuoteControl(addresses.WITHDRAW_AUTHORITY, ((DEVNET_USDC_MINT, INITIAL_VIRTUAL_USDC),))
    schedule = encode_fee_config(fee_config())
    assert len(schedule) == FEE_CONFIG_BYTES
    return [
        *((program, program_account(program)) for program in IMITATED),
        (addresses.GLOBAL, _data(encode_global(global_config()), pump)),
        (addresses.CURVE_FEE_CONFIG, _data(schedule, fees)),
        (addresses.AMM_FEE_CONFIG, _data(schedule, fees)),
        (addresses.QUOTE_CONTROL, _data(encode_quote_control(control), pump)),
        (addresses.GLOBAL_VOLUME_ACCUMULATOR, _data(global_volume_accumulator_bytes(), pump)),
        (AMM_CONFIG, _data(encode_cpmm_config(CpmmConfig(AMM_CONFIG_BUMP, False, 0, CPMM_FEE_RATE)), CPMM)),
        *((wallet, Account(_WALLET_LAMPORTS, b"", SYSTEM_PROGRAM, False, RENT_EPOCH_EXEMPT)) for wallet in wallets),
    ]


def program_data_address(program: Pubkey) -> Pubkey:
    return Pubkey.find_program_address([bytes(program)], UPGRADEABLE_LOADER)[0]


def program_account(program: Pubkey) -> Account:
    data = _PROGRAM_TAG + bytes(program_data_address(program))
    return Account(_rent(len(data)), data, UPGRADEABLE_LOADER, True, RENT_EPOCH_EXEMPT)


def is_imitated(chain: ReadsAccounts, program: Pubkey = addresses.PUMP) -> bool:
    """Whether the program is the one of `launch_accounts`: executable, and without code."""
    account = chain.account(program)
    if account is None or not account.executable or account.owner != UPGRADEABLE_LOADER:
        return False
    return chain.account(Pubkey.from_bytes(account.data[4:36])) is None


def _data(data: bytes, owner: Pubkey) -> Account:
    return Account(_rent(len(data)), data, owner, False, RENT_EPOCH_EXEMPT)


def _rent(size: int) -> int:
    return (size + _RENT_BASE_BYTES) * _RENT_PER_BYTE
