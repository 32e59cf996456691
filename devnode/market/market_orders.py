"""Builds the instructions of the market's wallets: launches, trades, migrations and pools.

Implements: each order for the state that the chain has now. Reads the chain only. Not here: which order comes next, and
what it is expected to be (market.py).
"""

from dataclasses import dataclass

from solders.instruction import Instruction
from solders.pubkey import Pubkey

from actors.launch_programs import addresses, pdas
from actors.launch_programs.accounts import (
    Keys,
    Trader,
    create_instruction,
    instruction,
    migrate_keys,
    trade_instruction,
    trade_keys,
)
from actors.launch_programs.cpmm import CpmmKind, cpmm_initialize, cpmm_pool_keys, cpmm_swap
from actors.launch_programs.curve_account import BondingCurve, decode_curve
from actors.launch_programs.instructions import CreateArguments, Kind, TradeArguments
from actors.launch_programs.pool_trades import PoolArguments, PoolKind, pool_trade_instruction, pool_trade_keys
from actors.launch_programs.pools import decode_pool
from devnode.encoding.addresses import USDC_MINT
from devnode.execution.vm import Vm
from devnode.launchpad import calls
from devnode.parsing.token_accounts import holding

_SOL_TOKEN = (addresses.WSOL_MINT, addresses.TOKEN_PROGRAM)


@dataclass(slots=True)
class MarketCoin:
    """A coin of the market. has_other_pool: it also has a pool of another program (CPMM)."""

    mint: Pubkey
    program: Pubkey
    in_sol: bool = True
    has_other_pool: bool = False


class Orders:
    """The instructions of one wallet at a time."""

    def __init__(self, vm: Vm) -> None:
        self._vm = vm

    # Reading.

    def curve(self, coin: MarketCoin) -> BondingCurve:
        account = self._vm.account(pdas.bonding_curve(coin.mint))
        curve = None if account is None else decode_curve(account.data)
        assert curve is not None, coin
        return curve

    def tokens(self, wallet: Pubkey, coin: MarketCoin) -> int:
        return self._held(pdas.associated_token(wallet, coin.program, coin.mint))

    def wsol(self, wallet: Pubkey) -> int:
        return self._held(wsol_account(wallet))

    def _held(self, token_account: Pubkey) -> int:
        held = holding(self._vm.account(token_account))
        return 0 if held is None else held.amount

    # Curves.

    def creation(self, wallet: Pubkey, kind: str, mint: Pubkey, name: str) -> tuple[MarketCoin, Instruction]:
        """Launch a coin. kind: classic, v2, mayhem or usdc."""
        arguments = CreateArguments(name, name[:10].upper(), "", wallet, kind == "mayhem")
        create = Kind.CREATE if kind == "classic" else Kind.CREATE_V2
        program = addresses.TOKEN_PROGRAM if kind == "classic" else addresses.TOKEN_2022_PROGRAM
        quote = (USDC_MINT, addresses.TOKEN_PROGRAM) if kind == "usdc" else None
        made = create_instruction(create, arguments, mint, wallet, quote)
        return MarketCoin(mint, program, in_sol=quote is None), made

    def token_account(self, wallet: Pubkey, coin: MarketCoin) -> list[Instruction]:
        """Create the wallet's account of the coin, unless it exists."""
        account = pdas.associated_token(wallet, coin.program, coin.mint)
        if self._vm.account(account) is not None:
            return []
        return [calls.create_token_account(wallet, account, wallet, coin.mint, coin.program, idempotent=True)]

    def curve_trade(
        self, wallet: Pubkey, coin: MarketCoin, kind: Kind, amount: int, limit: int, curve: BondingCurve | None = None
    ) -> Instruction:
        """Trade on the curve. curve: of a coin that the same transaction launches; None: the one on the chain."""
        curve = curve or self.curve(coin)
        recipients = addresses.RESERVED_FEE_RECIPIENTS if curve.is_mayhem_mode else addresses.NORMAL_FEE_RECIPIENTS
        trader = Trader(wallet, recipients[1], addresses.BUYBACK_FEE_RECIPIENTS[0])
        keys = trade_keys(coin.mint, coin.program, curve, trader, addresses.TOKEN_PROGRAM)
        return trade_instruction(kind, TradeArguments(amount, limit), keys)

    def migration(self, wallet: Pubkey, coin: MarketCoin) -> Instruction:
        keys = migrate_keys(coin.mint, coin.program, wallet, *_SOL_TOKEN)
        return instruction(Kind.MIGRATE_V2, Kind.MIGRATE_V2.discriminator, keys)

    # Pools.

    def pool_trade(self, wallet: Pubkey, coin: MarketCoin, kind: PoolKind, amount: int) -> Instruction:
        address = pdas.canonical_pool(coin.mint, addresses.WSOL_MINT)
        account = self._vm.account(address)
        pool = None if account is None else decode_pool(account.data)
        assert pool is not None, coin
        recipients = addresses.RESERVED_FEE_RECIPIENTS if pool.is_mayhem_mode else addresses.NORMAL_FEE_RECIPIENTS
        keys = pool_trade_keys(pool, address, coin.program, wallet, recipients[1], addresses.BUYBACK_FEE_RECIPIENTS[0])
        return pool_trade_instruction(kind, PoolArguments(amount, 1), keys)

    def other_pool(self, wallet: Pubkey, coin: MarketCoin, tokens: int, lamports: int) -> Instruction:
        keys = self._other_keys(coin)
        amounts = {coin.mint: tokens, addresses.WSOL_MINT: lamports}
        return cpmm_initialize(keys, wallet, amounts[keys["mint_0"]], amounts[keys["mint_1"]])

    def other_swap(self, wallet: Pubkey, coin: MarketCoin, is_buy: bool, amount: int) -> Instruction:
        paid = addresses.WSOL_MINT if is_buy else coin.mint
        return cpmm_swap(self._other_keys(coin), CpmmKind.SWAP_BASE_INPUT, wallet, paid, amount, 1)

    def _other_keys(self, coin: MarketCoin) -> Keys:
        return cpmm_pool_keys(coin.mint, coin.program, *_SOL_TOKEN)


def wsol_account(wallet: Pubkey) -> Pubkey:
    return pdas.associated_token(wallet, addresses.TOKEN_PROGRAM, addresses.WSOL_MINT)


def wrapping(wallet: Pubkey, lamports: int) -> list[Instruction]:
    """Instructions that move lamports into the wallet's WSOL account."""
    account = wsol_account(wallet)
    return [
        calls.create_token_account(
            wallet, account, wallet, addresses.WSOL_MINT, addresses.TOKEN_PROGRAM, idempotent=True
        ),
        calls.transfer_lamports(wallet, account, lamports),
        calls.sync_native(addresses.TOKEN_PROGRAM, account),
    ]
