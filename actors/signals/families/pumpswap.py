"""The AMM that coins of the bonding-curve platform move to: pools of users, and trades.

Implements: interface, "Signal kinds", for program pAMM...fXEA. The canonical pool of a coin is no launch: its making
is part of the coin's graduation, which the platform's own event tells (pump.py).
Pure.
"""

from collections.abc import Iterator

from solders.pubkey import Pubkey

from actors.launch_programs import pdas
from actors.launch_programs.addresses import PUMP_AMM
from actors.signals.observations import WSOL, Observation, Reader, What, coin_and_quote, event, instruction, u64
from actors.signals.transaction import Transaction

PROGRAM = bytes(PUMP_AMM)
_POOL, _CREATOR, _WALLET, _BASE, _QUOTE = 0, 2, 1, 3, 4
_BUY_EVENT, _SELL_EVENT = event("BuyEvent"), event("SellEvent")
# In both events 13 numbers follow discriminator and timestamp: the first is the base that moved, the last the quote
# that the user paid or got.
_BASE_OFFSET, _QUOTE_OFFSET = 16, 16 + 12 * 8


def _create_pool(transaction: Transaction, index: int) -> Iterator[Observation]:
    mine = transaction.instructions[index]
    base, quote_key = mine.account(_BASE), mine.account(_QUOTE)
    creator = mine.account(_CREATOR)
    if base is not None and creator == bytes(pdas.pool_authority(Pubkey.from_bytes(base))):
        return
    mint, quote = coin_and_quote(base, quote_key)
    yield Observation(What.CREATED, PROGRAM, mint, (mine.account(_POOL), mint, creator), quote)


def _trade(transaction: Transaction, index: int) -> Iterator[Observation]:
    mine = transaction.instructions[index]
    base, quote_key = mine.account(_BASE), mine.account(_QUOTE)
    mint, quote = coin_and_quote(base, quote_key)
    buys_base = mine.data[:8] != instruction("sell")
    lamports = None
    for found in transaction.events_inside(index):
        if found[:8] in (_BUY_EVENT, _SELL_EVENT):
            lamports = u64(found, _QUOTE_OFFSET if quote_key == WSOL else _BASE_OFFSET)
    if WSOL not in (base, quote_key):
        lamports = None
    is_buy = buys_base if mint == base else not buys_base
    accounts = (mine.account(_POOL), mint, mine.account(_WALLET))
    yield Observation(What.TRADED, PROGRAM, mint, accounts, quote, is_buy=is_buy, lamports=lamports)


READERS: dict[bytes, Reader] = {
    instruction("create_pool"): _create_pool,
    **{instruction(name): _trade for name in ("buy", "buy_exact_quote_in", "sell")},
}
