"""Raydium LaunchLab: launches, trades on its curves, the move to a pool.

Implements: interface, "Signal kinds", for program LanM...uj3. A curve is full when a trade's event has pool status 1;
the mints are in the accounts of the instruction, as its events name none.
Pure.
"""

from collections.abc import Iterator

from actors.signals.observations import WSOL, Observation, Reader, What, coin_and_quote, event, instruction, u64
from actors.signals.pools import creation
from actors.signals.transaction import Transaction, key_text, known_key

PROGRAM = known_key("LanMV9sAd7wArD4vJFi2qDdfnVhFxYSUg6eADduJ3uj")
_TRADE_EVENT = event("TradeEvent")
_POOL, _WALLET, _BASE, _QUOTE = 4, 0, 9, 10
_AMOUNTS_OFFSET = 8 + 32 + 7 * 8  # Of amount_in; amount_out follows.
# Direction and pool status follow the numbers, of which newer events have one more.
_STATUS_OFFSET, _NEWER_STATUS_OFFSET = 8 + 32 + 12 * 8 + 1, 8 + 32 + 13 * 8 + 1
_MIGRATING = 1
_BUYS = frozenset({instruction("buy_exact_in"), instruction("buy_exact_out")})
_SELLS = frozenset({instruction("sell_exact_in"), instruction("sell_exact_out")})


def _launch(transaction: Transaction, index: int) -> Iterator[Observation]:
    for found in creation(pool=5, first=6, second=7, wallet=1)(transaction, index):
        yield Observation(
            *(found.what, PROGRAM, found.mint, found.accounts, found.quote_asset),
            complete=False,
        )


def _trade(transaction: Transaction, index: int) -> Iterator[Observation]:
    mine = transaction.instructions[index]
    is_buy = mine.data[:8] in _BUYS
    base, quote = mine.account(_BASE), mine.account(_QUOTE)
    lamports, status = None, None
    for found in transaction.events_inside(index):
        if found[:8] == _TRADE_EVENT:
            lamports = u64(found, _AMOUNTS_OFFSET if is_buy else _AMOUNTS_OFFSET + 8) if quote == WSOL else None
            offset = _NEWER_STATUS_OFFSET if len(found) > _NEWER_STATUS_OFFSET else _STATUS_OFFSET
            status = found[offset] if len(found) > offset else None
    accounts = (mine.account(_POOL), base, mine.account(_WALLET))
    quote_asset = None if quote is None else key_text(quote)
    yield Observation(What.TRADED, PROGRAM, base, accounts, quote_asset, is_buy=is_buy, lamports=lamports)
    if status == _MIGRATING:
        yield Observation(What.GRADUATED, PROGRAM, base, accounts, quote_asset, complete=True)


def _migration(launch_pool: int, new_pool: int) -> Reader:
    def read(transaction: Transaction, index: int) -> Iterator[Observation]:
        mine = transaction.instructions[index]
        mint, quote = coin_and_quote(mine.account(1), mine.account(2))
        accounts = (mine.account(launch_pool), mint, mine.account(new_pool))
        yield Observation(What.GRADUATED, PROGRAM, mint, accounts, quote, complete=True)

    return read


READERS: dict[bytes, Reader] = {
    **{instruction(name): _launch for name in ("initialize", "initialize_v2", "initialize_with_token_2022")},
    **dict.fromkeys(_BUYS | _SELLS, _trade),
    instruction("migrate_to_amm"): _migration(launch_pool=23, new_pool=13),
    instruction("migrate_to_cpswap"): _migration(launch_pool=17, new_pool=5),
}
