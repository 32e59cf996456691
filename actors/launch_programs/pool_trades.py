"""Trades in pools of the platform's AMM: instruction data, account lists, addresses, amounts.

Implements: `buy`, `buy_exact_quote_in` and `sell` with their trailing accounts (pool v2 and the buyback recipient), and
the integer formulas of a trade. Reserves are the vaults' balances; a pool's virtual quote reserves are added by the
caller. Pure. Not here: the pool account (pools.py), events (pool_events.py).
"""

from dataclasses import dataclass
from enum import Enum, unique

from solders.instruction import Instruction
from solders.pubkey import Pubkey

from actors.launch_programs import addresses, pdas
from actors.launch_programs.accounts import Keys, Slot
from actors.launch_programs.borsh import Fields, decode, encode
from actors.launch_programs.pools import Pool

BPS = 10_000
_FIELDS: Fields = (("amount", "u64"), ("limit", "u64"), ("track_volume", "bool"))
_BYTES_MIN = 24


@unique
class PoolKind(Enum):
    """An instruction of the AMM, by its discriminator."""

    BUY = bytes.fromhex("66063d1201daebea")
    BUY_EXACT_QUOTE_IN = bytes.fromhex("c62e1552b4d9e870")
    SELL = bytes.fromhex("33e685a4017f83ad")

    @property
    def title(self) -> str:
        """The name in the program's log."""
        return "".join(word.capitalize() for word in self.name.split("_"))


_START = (
    "pool:w user:ws amm_global_config mint quote_mint user_base:w user_quote:w pool_base:w pool_quote:w fee_recipient "
    "fee_recipient_quote:w base_program quote_program system_program associated_program amm_event_authority amm "
    "creator_vault_quote:w creator_vault"
)
_END = "pool_v2 buyback buyback_quote:w"
_BUY = Slot.list_of(f"{_START} amm_global_volume amm_user_volume:w amm_fee_config fee_program {_END}")
POOL_SLOTS: dict[PoolKind, tuple[Slot, ...]] = {
    PoolKind.BUY: _BUY,
    PoolKind.BUY_EXACT_QUOTE_IN: _BUY,
    PoolKind.SELL: Slot.list_of(f"{_START} amm_fee_config fee_program {_END}"),
}


@dataclass(frozen=True, slots=True)
class PoolArguments:
    """amount: base tokens, or the budget of an exact-in buy. limit: the largest cost or the smallest result, in the
    other unit."""

    amount: int
    limit: int
    track_volume: bool = False


def pool_kind_of(data: bytes) -> PoolKind | None:
    return next((kind for kind in PoolKind if kind.value == data[:8]), None)


def pool_arguments(data: bytes) -> PoolArguments | None:
    if len(data) < _BYTES_MIN:
        return None
    values = decode(_FIELDS, data, 8)
    return None if values is None else PoolArguments(**values)


def pool_trade_keys(
    pool: Pool, address: Pubkey, base_program: Pubkey, user: Pubkey, fee_recipient: Pubkey, buyback: Pubkey
) -> Keys:
    """All accounts of a trade in a pool whose quote is an SPL token (WSOL for SOL coins)."""
    quote_program, quote = addresses.TOKEN_PROGRAM, pool.quote_mint
    vault = pdas.amm_creator_vault(pool.coin_creator)
    return {
        "pool": address,
        "user": user,
        "amm_global_config": addresses.AMM_GLOBAL_CONFIG,
        "mint": pool.base_mint,
        "quote_mint": quote,
        "user_base": pdas.associated_token(user, base_program, pool.base_mint),
        "user_quote": pdas.associated_token(user, quote_program, quote),
        "pool_base": pool.base_vault,
        "pool_quote": pool.quote_vault,
        "fee_recipient": fee_recipient,
        "fee_recipient_quote": pdas.associated_token(fee_recipient, quote_program, quote),
        "base_program": base_program,
        "quote_program": quote_program,
        "system_program": addresses.SYSTEM_PROGRAM,
        "associated_program": addresses.ASSOCIATED_TOKEN_PROGRAM,
        "amm_event_authority": addresses.AMM_EVENT_AUTHORITY,
        "amm": addresses.PUMP_AMM,
        "creator_vault": vault,
        "creator_vault_quote": pdas.associated_token(vault, quote_program, quote),
        "amm_global_volume": pdas.amm_global_volume_accumulator(),
        "amm_user_volume": pdas.amm_user_volume_accumulator(user),
        "amm_fee_config": addresses.AMM_FEE_CONFIG,
        "fee_program": addresses.PUMP_FEES,
        "pool_v2": pdas.pool_v2(pool.base_mint),
        "buyback": buyback,
        "buyback_quote": pdas.associated_token(buyback, quote_program, quote),
    }


def pool_trade_instruction(kind: PoolKind, arguments: PoolArguments, keys: Keys) -> Instruction:
    """Build a trade. keys: from `pool_trade_keys`."""
    fields = _FIELDS[:2] if kind is PoolKind.SELL else _FIELDS
    values = {"amount": arguments.amount, "limit": arguments.limit, "track_volume": arguments.track_volume}
    data = bytes(kind.value) + encode(fields, values)
    return Instruction(addresses.PUMP_AMM, data, [slot.meta(keys) for slot in POOL_SLOTS[kind]])


@dataclass(frozen=True, slots=True)
class PoolRates:
    lp_bps: int
    protocol_bps: int
    creator_bps: int

    @property
    def total_bps(self) -> int:
        return self.lp_bps + self.protocol_bps + self.creator_bps


@dataclass(frozen=True, slots=True)
class PoolAmounts:
    """A trade: base tokens, the quote that the price gives for them, and the fees, which a buyer pays on top."""

    base: int
    quote: int
    lp_fee: int
    protocol_fee: int
    creator_fee: int

    @property
    def fees(self) -> int:
        return self.lp_fee + self.protocol_fee + self.creator_fee

    @property
    def paid_by_buyer(self) -> int:
        return self.quote + self.fees

    @property
    def left_for_seller(self) -> int:
        return self.quote - self.fees


def pool_buy(base_reserve: int, quote_reserve: int, base_out: int, rates: PoolRates) -> PoolAmounts | None:
    """Price an exact number of base tokens. None: the pool does not have so many."""
    if not 0 < base_out < base_reserve:
        return None
    return _with_fees(base_out, -(-quote_reserve * base_out // (base_reserve - base_out)), rates)


def pool_buy_exact_in(base_reserve: int, quote_reserve: int, budget: int, rates: PoolRates) -> PoolAmounts | None:
    """Price a budget with all fees in it. None: it buys nothing."""
    quote = budget * BPS // (BPS + rates.total_bps)
    quote -= max(0, _with_fees(0, quote, rates).paid_by_buyer - budget)
    base_out = base_reserve * quote // (quote_reserve + quote) if quote > 0 else 0
    return _with_fees(base_out, quote, rates) if base_out else None


def pool_sell(base_reserve: int, quote_reserve: int, base_in: int, rates: PoolRates) -> PoolAmounts | None:
    """Price a sale. None: it gives nothing after fees."""
    if base_in <= 0 or base_reserve <= 0:
        return None
    amounts = _with_fees(base_in, quote_reserve * base_in // (base_reserve + base_in), rates)
    return amounts if amounts.left_for_seller > 0 else None


def _with_fees(base: int, quote: int, rates: PoolRates) -> PoolAmounts:
    """Every fee is rounded up."""
    fees = (-(-quote * bps // BPS) for bps in (rates.lp_bps, rates.protocol_bps, rates.creator_bps))
    return PoolAmounts(base, quote, *fees)
