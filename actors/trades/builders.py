"""Unsigned v0 transactions that buy from, or sell to, a bonding curve.

Implements: interface, "Trade builder results"; what the platform's own SDK puts around a trade ("What goes around the
trade instruction". Pure. Not here: amounts (quotes.py); accounts and data of the trade itself
(launch_programs/accounts.py).

SOL curves use the legacy instructions, which are the smallest; curves that store wrapped SOL use the v2 ones. A trade
on such a curve creates the wallet's wrapped-SOL account, and a buy funds and syncs it. If the wallet had none before,
the account is closed at the end, so that the rest of the wrapped SOL, or the proceeds of a sale, become lamports again.
An account that the wallet had before stays open, because it may hold wrapped SOL that is not of this trade.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from actors.launch_programs import addresses, pdas
from actors.launch_programs.accounts import Trader, trade_instruction, trade_keys
from actors.launch_programs.instructions import Kind, TradeArguments
from actors.trades.quotes import Disposal, Purchase
from actors.trades.snapshot import CoinState, UnreadableAccountsError, WalletState

TRANSACTION_BYTES_MAX = 1_232
# Compute units. Seen on the chain: legacy buys 72,000, sales 37,000, v2 buys 94,000, creation of an account 25,000. A
# wallet pays its priority fee for the whole limit, so it is not wider than is safe.
LEGACY_BUY_UNITS, LEGACY_SELL_UNITS, V2_BUY_UNITS, V2_SELL_UNITS = 200_000, 150_000, 400_000, 300_000
COMPLETION_UNITS = 100_000  # The last buy of a curve does more work.
_CREATE_IDEMPOTENT, _SYNC_NATIVE, _CLOSE_ACCOUNT = b"\x01", b"\x11", b"\x09"


@dataclass(frozen=True, slots=True)
class Recent:
    """blockhash: of a recent block. unit_price: micro-lamports for each compute unit."""

    blockhash: Hash
    unit_price: int


def choose_trader(coin: CoinState, user: Pubkey, chance: int) -> Trader:
    """Choose fee recipients of Global's lists. chance: any number; it spreads trades over the recipients' locks."""
    recipients = [key for key in coin.config.fee_recipients_of(coin.curve.is_mayhem_mode) if key != addresses.ZERO_KEY]
    buybacks = [key for key in coin.config.buyback_fee_recipients if key != addresses.ZERO_KEY]
    if not recipients or not buybacks:
        raise UnreadableAccountsError("the platform's configuration names no fee recipients")
    return Trader(user, recipients[chance % len(recipients)], buybacks[chance % len(buybacks)])


def chance_of(blockhash: Hash) -> int:
    return int.from_bytes(bytes(blockhash)[:8], "little")


def buy_instructions(coin: CoinState, wallet: WalletState, trader: Trader, wanted: Purchase) -> list[Instruction]:
    """The trade and the instructions that it needs before and after it, without the compute budget."""
    user, curve = wallet.user, coin.curve
    arguments = TradeArguments(wanted.tokens, wanted.cost_max, flag=True)
    keys = trade_keys(coin.mint, coin.token_program, curve, trader, addresses.TOKEN_PROGRAM)
    opened = create_account(user, coin.mint, coin.token_program)
    if curve.curve_type == "classic":
        return [opened, trade_instruction(Kind.BUY, arguments, keys)]
    wrapped = _wrapped_sol(user)
    fund = transfer(TransferParams(from_pubkey=user, to_pubkey=wrapped, lamports=wanted.cost_max))
    return [
        opened,
        create_account(user, addresses.WSOL_MINT, addresses.TOKEN_PROGRAM),
        fund,
        Instruction(addresses.TOKEN_PROGRAM, _SYNC_NATIVE, [AccountMeta(wrapped, False, True)]),
        trade_instruction(Kind.BUY_V2, arguments, keys),
        *_closing(wallet),
    ]


def sell_instructions(coin: CoinState, wallet: WalletState, trader: Trader, wanted: Disposal) -> list[Instruction]:
    """As buy_instructions."""
    curve = coin.curve
    arguments = TradeArguments(wanted.tokens, wanted.proceeds_min)
    keys = trade_keys(coin.mint, coin.token_program, curve, trader, addresses.TOKEN_PROGRAM)
    if curve.curve_type == "classic":
        return [trade_instruction(Kind.SELL, arguments, keys, is_cashback_coin=curve.is_cashback_coin)]
    return [
        create_account(wallet.user, addresses.WSOL_MINT, addresses.TOKEN_PROGRAM),
        trade_instruction(Kind.SELL_V2, arguments, keys),
        *_closing(wallet),
    ]


def buy_transaction(coin: CoinState, wallet: WalletState, wanted: Purchase, recent: Recent) -> bytes:
    trader = choose_trader(coin, wallet.user, chance_of(recent.blockhash))
    units = LEGACY_BUY_UNITS if coin.curve.curve_type == "classic" else V2_BUY_UNITS
    units += COMPLETION_UNITS if wanted.completes else 0
    return unsigned(wallet.user, buy_instructions(coin, wallet, trader, wanted), units, recent)


def sell_transaction(coin: CoinState, wallet: WalletState, wanted: Disposal, recent: Recent) -> bytes:
    trader = choose_trader(coin, wallet.user, chance_of(recent.blockhash))
    units = LEGACY_SELL_UNITS if coin.curve.curve_type == "classic" else V2_SELL_UNITS
    return unsigned(wallet.user, sell_instructions(coin, wallet, trader, wanted), units, recent)


def unsigned(user: Pubkey, instructions: Sequence[Instruction], units: int, recent: Recent) -> bytes:
    """A v0 transaction with an empty signature, in which the user pays."""
    budget = [set_compute_unit_limit(units), set_compute_unit_price(recent.unit_price)]
    message = MessageV0.try_compile(user, [*budget, *instructions], [], recent.blockhash)
    raw = bytes(VersionedTransaction.populate(message, [Signature.default()]))
    assert len(raw) <= TRANSACTION_BYTES_MAX, len(raw)
    return raw


def create_account(user: Pubkey, mint: Pubkey, token_program: Pubkey) -> Instruction:
    """Create the user's associated token account; does nothing where it exists."""
    account = pdas.associated_token(user, token_program, mint)
    metas = [
        AccountMeta(user, True, True),
        AccountMeta(account, False, True),
        *(AccountMeta(key, False, False) for key in (user, mint, addresses.SYSTEM_PROGRAM, token_program)),
    ]
    return Instruction(addresses.ASSOCIATED_TOKEN_PROGRAM, _CREATE_IDEMPOTENT, metas)


def _closing(wallet: WalletState) -> list[Instruction]:
    if wallet.has_wrapped_sol:
        return []
    user = wallet.user
    metas = [
        AccountMeta(_wrapped_sol(user), False, True),
        AccountMeta(user, False, True),
        AccountMeta(user, True, False),
    ]
    return [Instruction(addresses.TOKEN_PROGRAM, _CLOSE_ACCOUNT, metas)]


def _wrapped_sol(user: Pubkey) -> Pubkey:
    return pdas.associated_token(user, addresses.TOKEN_PROGRAM, addresses.WSOL_MINT)
