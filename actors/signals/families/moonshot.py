"""Moonshot: launches, trades on its curves, the move to a pool.

Implements: interface, "Signal kinds", for program Moon...TrG. It records trades as log text only, so a trade's size is
the change of the curve's lamports, known where the transaction has one trade of that curve.
Pure.
"""

from collections.abc import Iterator

from actors.signals.observations import SOL, Observation, Reader, What, instruction
from actors.signals.transaction import Transaction, known_key

PROGRAM = known_key("MoonCVVNZFSYkqNXP6bxHLPL6QQJiMagDL3qcqUQTrG")
_BUY, _SELL = instruction("buy"), instruction("sell")
_WALLET, _CURVE, _MINT = 0, 2, 6


def _launch(transaction: Transaction, index: int) -> Iterator[Observation]:
    mine = transaction.instructions[index]
    mint = mine.account(3)
    yield Observation(
        What.CREATED, PROGRAM, mint, (mine.account(_CURVE), mint, mine.account(_WALLET)), SOL, complete=False
    )


def _trade(transaction: Transaction, index: int) -> Iterator[Observation]:
    mine = transaction.instructions[index]
    curve, mint = mine.account(_CURVE), mine.account(_MINT)
    alike = [one for one in transaction.instructions if one.program == PROGRAM and one.account(_CURVE) == curve]
    lamports = None
    if curve is not None and len(alike) == 1 and curve in transaction.lamports:
        before, after = transaction.lamports[curve]
        lamports = abs(after - before)
    accounts = (curve, mint, mine.account(_WALLET))
    is_buy = mine.data[:8] == _BUY
    yield Observation(What.TRADED, PROGRAM, mint, accounts, SOL, is_buy=is_buy, lamports=lamports)


def _migration(transaction: Transaction, index: int) -> Iterator[Observation]:
    mine = transaction.instructions[index]
    mint = mine.account(5)
    yield Observation(What.GRADUATED, PROGRAM, mint, (mine.account(_CURVE), mint), SOL, complete=True)


READERS: dict[bytes, Reader] = {
    instruction("token_mint"): _launch,
    _BUY: _trade,
    _SELL: _trade,
    instruction("migrate_funds"): _migration,
}
