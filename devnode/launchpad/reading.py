"""Reads and checks the accounts of an instruction, and reads the configuration accounts.

Implements: accounts by their names in the instruction, with their flags and addresses. Anchor's order of checks:
number of accounts, then signers and writable flags, then addresses.
Reads the VM only.
"""

from dataclasses import dataclass
from functools import lru_cache

from solders.account import Account
from solders.pubkey import Pubkey

from actors.launch_programs import addresses, pdas
from actors.launch_programs.accounts import Keys, Slot
from actors.launch_programs.configs import (
    FeeConfig,
    Global,
    QuoteControl,
    decode_fee_config,
    decode_global,
    decode_quote_control,
)
from actors.launch_programs.curve_account import BondingCurve, decode_curve
from devnode.launchpad.faults import Fault
from devnode.launchpad.stage import Stage
from devnode.parsing.token_accounts import is_mint, mint_supply

# Cached, because every trade reads both accounts and they hardly ever change.
_global_in = lru_cache(4)(decode_global)
_fee_config_in = lru_cache(4)(decode_fee_config)
# The errors for wrong addresses; other names have 2006 (wrong seeds).
_WRONG = {
    "bonding_curve_v2": 6074,
    "user_base": 2009,
    "user_quote": 2009,
    "system_program": 3008,
    "program": 3008,
    "fee_program": 3008,
    "base_program": 3008,
    "quote_program": 3008,
    "associated_program": 3008,
    "token_2022_program": 3008,
    "mayhem_program": 3008,
    "metadata_program": 3008,
    "amm": 3008,
    "withdraw_authority": 6000,
}
_MISSING = {"bonding_curve_v2": 6074, "buyback": 6062}  # The errors for missing trailing accounts.


@dataclass(frozen=True, slots=True)
class Passed:
    """The addresses an instruction passes, by the names of its account list."""

    keys: Keys

    @classmethod
    def of(cls, stage: Stage, slots: tuple[Slot, ...]) -> "Passed":
        if len(stage.refs) < len(slots):
            raise Fault.number(_MISSING.get(slots[len(stage.refs)].name, 3005))
        for ref, slot in zip(stage.refs, slots, strict=False):
            if slot.signer and not ref.signer:
                raise Fault.number(3010, slot.name)
            if slot.writable and not ref.writable:
                raise Fault.number(2000, slot.name)
        return cls({slot.name: ref.pubkey for slot, ref in zip(slots, stage.refs, strict=False)})

    def __getitem__(self, name: str) -> Pubkey:
        return self.keys[name]

    def get(self, name: str) -> Pubkey | None:
        return self.keys.get(name)


def require_addresses(passed: Passed, expected: Keys) -> None:
    for name, pubkey in passed.keys.items():
        if name in expected and expected[name] != pubkey:
            raise Fault.number(_WRONG.get(name, 2006), name)


def global_of(stage: Stage) -> Global:
    account = _owned(stage, addresses.GLOBAL, addresses.PUMP, "global")
    config = _global_in(account.data)
    if config is None or not config.initialized:
        raise Fault.number(3012, "global")
    return config


def fee_config_of(stage: Stage) -> FeeConfig | None:
    """The fee schedule; None if it is missing, and then Global's rates apply."""
    account = stage.account(addresses.CURVE_FEE_CONFIG)
    if account is None or account.owner != addresses.PUMP_FEES:
        return None
    return _fee_config_in(account.data)


def quote_control_of(stage: Stage, address: Pubkey) -> QuoteControl:
    account = stage.account(addresses.QUOTE_CONTROL)
    if address != addresses.QUOTE_CONTROL or account is None or account.owner != addresses.PUMP:
        raise Fault.number(6075)
    control = decode_quote_control(account.data)
    if control is None:
        raise Fault.number(6075)
    return control


@dataclass(frozen=True, slots=True)
class Coin:
    mint: Pubkey
    program: Pubkey
    decimals: int
    supply: int
    curve: BondingCurve
    curve_bytes: int


def coin_of(stage: Stage, mint: Pubkey) -> Coin:
    account = stage.account(mint)
    if account is None:
        raise Fault.number(3012, "mint")
    if account.owner not in addresses.TOKEN_PROGRAMS or not is_mint(account.data):
        raise Fault.number(3007, "mint")
    held = _owned(stage, pdas.bonding_curve(mint), addresses.PUMP, "bonding_curve")
    curve = decode_curve(held.data)
    if curve is None:
        raise Fault.number(3012, "bonding_curve")
    return Coin(mint, account.owner, account.data[44], mint_supply(account.data), curve, len(held.data))


def quote_mint_of(stage: Stage, mint: Pubkey) -> tuple[Pubkey, int]:
    """The token program and the decimals of a quote mint."""
    account = stage.account(mint)
    if account is None or account.owner not in addresses.TOKEN_PROGRAMS or not is_mint(account.data):
        raise Fault.number(6063, "quote_mint")
    return account.owner, account.data[44]


def _owned(stage: Stage, pubkey: Pubkey, owner: Pubkey, name: str) -> Account:
    account = stage.account(pubkey)
    if account is None:
        raise Fault.number(3012, name)
    if account.owner != owner:
        raise Fault.number(3007, name)
    return account
