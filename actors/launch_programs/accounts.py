"""Account lists of the launch platform's instructions, and whole instructions.

Implements: the accounts, in order, of the legacy, v2 and v3 trades, of create, create_v2, extend_account,
init_user_volume_accumulator, migrate and migrate_v2; the address for each name; and whole instructions.
Pure. Not here: instruction data (instructions.py), the choice of an instruction for a coin (the caller's).
"""

from dataclasses import dataclass

from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey

from actors.launch_programs import addresses, pdas
from actors.launch_programs.curve_account import BondingCurve
from actors.launch_programs.instructions import (
    LEGACY_TRADES,
    CreateArguments,
    Kind,
    TradeArguments,
    create_data,
    trade_data,
)


@dataclass(frozen=True, slots=True)
class Slot:
    name: str
    writable: bool = False
    signer: bool = False

    @classmethod
    def list_of(cls, text: str) -> "tuple[Slot, ...]":
        """Parse a list of names with flags: `name`, `name:w` (writable), `name:ws` (writable signer)."""
        found = []
        for word in text.split():
            name, _, flags = word.partition(":")
            found.append(cls(name, "w" in flags, "s" in flags))
        return tuple(found)

    def meta(self, keys: "Keys") -> AccountMeta:
        return AccountMeta(keys[self.name], self.signer, self.writable)


_slots = Slot.list_of


_LEGACY_START = "global fee_recipient:w mint bonding_curve:w curve_base:w user_base:w user:ws system_program"
_LEGACY_BUY = _slots(
    f"{_LEGACY_START} base_program creator_vault:w event_authority program global_volume user_volume:w fee_config "
    "fee_program bonding_curve_v2 buyback:w"
)
_LEGACY_SELL_START = f"{_LEGACY_START} creator_vault:w base_program event_authority program fee_config fee_program"
_LEGACY_SELL = _slots(f"{_LEGACY_SELL_START} bonding_curve_v2 buyback:w")
# Of a cashback coin, whose sales also list the seller's volume accumulator.
CASHBACK_SELL_SLOTS = _slots(f"{_LEGACY_SELL_START} user_volume:w bonding_curve_v2 buyback:w")
_V2_START = (
    "global mint quote_mint base_program quote_program associated_program fee_recipient:w fee_recipient_quote:w "
    "buyback:w buyback_quote:w bonding_curve:w curve_base:w curve_quote:w user:ws user_base:w user_quote:w "
    "creator_vault:w creator_vault_quote:w sharing_config"
)
_V2_END = "user_volume:w user_volume_quote:w fee_config fee_program system_program event_authority program"
_V3 = _slots(
    "global mint quote_mint base_program quote_program bonding_curve:w curve_base:w curve_quote:w user:ws user_base:w "
    "user_quote:w user_volume:w fee_config buyback_v3:w system_program event_authority program"
)
SLOTS: dict[Kind, tuple[Slot, ...]] = {
    Kind.BUY: _LEGACY_BUY,
    Kind.BUY_EXACT_SOL_IN: _LEGACY_BUY,
    Kind.SELL: _LEGACY_SELL,
    Kind.BUY_V2: _slots(f"{_V2_START} global_volume {_V2_END}"),
    Kind.BUY_EXACT_QUOTE_IN_V2: _slots(f"{_V2_START} global_volume {_V2_END}"),
    Kind.SELL_V2: _slots(f"{_V2_START} {_V2_END}"),
    Kind.BUY_V3: _V3,
    Kind.BUY_EXACT_QUOTE_IN_V3: _V3,
    Kind.SELL_V3: _V3,
    Kind.CREATE: _slots(
        "mint:ws mint_authority bonding_curve:w curve_base:w global metadata_program metadata:w user:ws system_program "
        "base_program associated_program rent event_authority program"
    ),
    Kind.CREATE_V2: _slots(
        "mint:ws mint_authority bonding_curve:w curve_base:w global user:ws system_program base_program "
        "associated_program mayhem_program:w mayhem_params mayhem_sol_vault:w mayhem_state:w mayhem_token_vault:w "
        "event_authority program"
    ),
    Kind.EXTEND_ACCOUNT: _slots("account:w user:ws system_program event_authority program"),
    Kind.INIT_USER_VOLUME_ACCUMULATOR: _slots("payer:ws user user_volume:w system_program event_authority program"),
    Kind.MIGRATE: _slots(
        "global withdraw_authority:w mint bonding_curve:w curve_base:w user:ws system_program base_program amm pool:w "
        "pool_authority:w pool_authority_base:w pool_authority_quote:w amm_global_config quote_mint lp_mint:w "
        "user_lp:w pool_base:w pool_quote:w token_2022_program associated_program amm_event_authority "
        "event_authority program rent"
    ),
    Kind.MIGRATE_V2: _slots(
        "global withdraw_authority:w mint quote_mint bonding_curve:w curve_base:w curve_quote:w user:ws system_program "
        "amm pool:w pool_authority:w pool_authority_base:w pool_authority_quote:w amm_global_config lp_mint:w "
        "user_lp:w pool_base:w pool_quote:w base_program quote_program token_2022_program associated_program "
        "amm_event_authority rent event_authority program"
    ),
}
# Trailing accounts of create_v2 for a token quote; the last is only read for quotes that Global does not list.
CREATE_V2_QUOTE_SLOTS = _slots("quote_mint curve_quote:w quote_program quote_control")

FIXED: dict[str, Pubkey] = {
    "global": addresses.GLOBAL,
    "system_program": addresses.SYSTEM_PROGRAM,
    "associated_program": addresses.ASSOCIATED_TOKEN_PROGRAM,
    "token_2022_program": addresses.TOKEN_2022_PROGRAM,
    "metadata_program": addresses.TOKEN_METADATA_PROGRAM,
    "rent": addresses.RENT_SYSVAR,
    "mint_authority": addresses.MINT_AUTHORITY,
    "event_authority": addresses.EVENT_AUTHORITY,
    "program": addresses.PUMP,
    "global_volume": addresses.GLOBAL_VOLUME_ACCUMULATOR,
    "fee_config": addresses.CURVE_FEE_CONFIG,
    "fee_program": addresses.PUMP_FEES,
    "quote_control": addresses.QUOTE_CONTROL,
    "mayhem_program": addresses.MAYHEM,
    "mayhem_params": addresses.MAYHEM_GLOBAL_PARAMS,
    "mayhem_sol_vault": addresses.MAYHEM_SOL_VAULT,
    "amm": addresses.PUMP_AMM,
    "amm_global_config": addresses.AMM_GLOBAL_CONFIG,
    "amm_event_authority": addresses.AMM_EVENT_AUTHORITY,
}
Keys = dict[str, Pubkey]


@dataclass(frozen=True, slots=True)
class Trader:
    """The trading wallet, and the fee recipients that it chooses from Global's lists."""

    user: Pubkey
    fee_recipient: Pubkey
    buyback: Pubkey


def coin_keys(mint: Pubkey, base_program: Pubkey) -> Keys:
    curve = pdas.bonding_curve(mint)
    return FIXED | {
        "mint": mint,
        "base_program": base_program,
        "bonding_curve": curve,
        "bonding_curve_v2": pdas.bonding_curve_v2(mint),
        "curve_base": pdas.associated_token(curve, base_program, mint),
        "sharing_config": pdas.sharing_config(mint),
        "metadata": pdas.token_metadata(mint),
        "mayhem_state": pdas.mayhem_state(mint),
        "mayhem_token_vault": pdas.associated_token(addresses.MAYHEM_SOL_VAULT, base_program, mint),
    }


def trade_keys(mint: Pubkey, base_program: Pubkey, curve: BondingCurve, trader: Trader, quote_program: Pubkey) -> Keys:
    """All accounts of a trade in any family. quote_program: the owner of the quote mint (WSOL's for SOL)."""
    keys = coin_keys(mint, base_program)
    quote = curve.trade_quote_mint
    vault = pdas.creator_vault(curve.creator)
    volume = pdas.user_volume_accumulator(trader.user)

    def quote_account(owner: Pubkey) -> Pubkey:
        return pdas.associated_token(owner, quote_program, quote)

    return keys | {
        "quote_mint": quote,
        "quote_program": quote_program,
        "user": trader.user,
        "user_base": pdas.associated_token(trader.user, base_program, mint),
        "user_quote": quote_account(trader.user),
        "user_volume": volume,
        "user_volume_quote": quote_account(volume),
        "creator_vault": vault,
        "creator_vault_quote": quote_account(vault),
        "curve_quote": quote_account(keys["bonding_curve"]),
        "fee_recipient": trader.fee_recipient,
        "fee_recipient_quote": quote_account(trader.fee_recipient),
        "buyback": trader.buyback,
        "buyback_quote": quote_account(trader.buyback),
        "buyback_v3": trader.buyback if curve.curve_type == "classic" else quote_account(trader.buyback),
    }


def trade_instruction(
    kind: Kind, arguments: TradeArguments, keys: Keys, *, is_cashback_coin: bool = False
) -> Instruction:
    """Build a trade. keys: from `trade_keys`. Legacy buys have track_volume; buy_v3 has partial_fill only if it is
    set."""
    flag: bool | None = None
    if kind in LEGACY_TRADES and kind is not Kind.SELL:
        flag = arguments.flag
    elif kind is Kind.BUY_V3 and arguments.flag:
        flag = True
    data = trade_data(kind, arguments.amount, arguments.limit, flag)
    if is_cashback_coin and kind is Kind.SELL:
        return Instruction(addresses.PUMP, data, [_meta(slot, keys) for slot in CASHBACK_SELL_SLOTS])
    return instruction(kind, data, keys)


def create_instruction(
    kind: Kind, arguments: CreateArguments, mint: Pubkey, user: Pubkey, quote: tuple[Pubkey, Pubkey] | None = None
) -> Instruction:
    """Build a launch, which the mint's key and the user must sign. quote: mint and token program of a token quote
    (create_v2 only)."""
    program = addresses.TOKEN_PROGRAM if kind is Kind.CREATE else addresses.TOKEN_2022_PROGRAM
    keys = coin_keys(mint, program) | {"user": user}
    made = instruction(kind, create_data(kind, arguments), keys)
    if quote is None:
        return made
    quote_mint, quote_program = quote
    keys["quote_mint"], keys["quote_program"] = quote_mint, quote_program
    keys["curve_quote"] = pdas.associated_token(keys["bonding_curve"], quote_program, quote_mint)
    more = [_meta(slot, keys) for slot in CREATE_V2_QUOTE_SLOTS]
    return Instruction(addresses.PUMP, made.data, [*made.accounts, *more])


def migrate_keys(mint: Pubkey, base_program: Pubkey, user: Pubkey, quote_mint: Pubkey, quote_program: Pubkey) -> Keys:
    """Accounts of migrate and migrate_v2. quote_mint: WSOL for SOL coins."""
    keys = coin_keys(mint, base_program)
    pool, authority = pdas.canonical_pool(mint, quote_mint), pdas.pool_authority(mint)
    lp_mint = pdas.pool_lp_mint(pool)
    return keys | {
        "withdraw_authority": addresses.WITHDRAW_AUTHORITY,
        "user": user,
        "quote_mint": quote_mint,
        "quote_program": quote_program,
        "curve_quote": pdas.associated_token(keys["bonding_curve"], quote_program, quote_mint),
        "pool": pool,
        "pool_authority": authority,
        "pool_authority_base": pdas.associated_token(authority, base_program, mint),
        "pool_authority_quote": pdas.associated_token(authority, quote_program, quote_mint),
        "lp_mint": lp_mint,
        "user_lp": pdas.associated_token(authority, addresses.TOKEN_2022_PROGRAM, lp_mint),
        "pool_base": pdas.associated_token(pool, base_program, mint),
        "pool_quote": pdas.associated_token(pool, quote_program, quote_mint),
    }


def instruction(kind: Kind, data: bytes, keys: Keys) -> Instruction:
    return Instruction(addresses.PUMP, data, [_meta(slot, keys) for slot in SLOTS[kind]])


def _meta(slot: Slot, keys: Keys) -> AccountMeta:
    return AccountMeta(keys[slot.name], slot.signer, slot.writable)
