"""Meteora's dynamic bonding curve: launches, trades, full curves, the move to a pool.

Implements: interface, "Signal kinds", for program dbci...aqN. The event of a full curve names no mint, which comes from
the swap that emitted it.
Pure.
"""

from collections.abc import Iterator

from actors.signals.observations import Observation, Reader, What, coin_and_quote, event, instruction
from actors.signals.pools import by_transfers, creation
from actors.signals.transaction import Transaction, key_text, known_key

PROGRAM = known_key("dbcij3LWUppWqq96dh6gJWwBifmcGfLSB5D4DuSMaqN")
_COMPLETE = frozenset({event("EvtCurveComplete"), bytes.fromhex("3b2f6dcd0d1f2c9f")})
_POOL, _BASE, _QUOTE, _WALLET = 2, 7, 8, 9


def _launch(transaction: Transaction, index: int) -> Iterator[Observation]:
    for found in creation(pool=5, first=3, second=4, wallet=2)(transaction, index):
        yield Observation(found.what, PROGRAM, found.mint, found.accounts, found.quote_asset, complete=False)


def _trade(transaction: Transaction, index: int) -> Iterator[Observation]:
    mine = transaction.instructions[index]
    yield by_transfers(transaction, index, pool=_POOL, wallet=_WALLET, wallet_tokens=(3, 4))
    if any(found[:8] in _COMPLETE for found in transaction.events_inside(index)):
        mint, quote = mine.account(_BASE), mine.account(_QUOTE)
        accounts = (mine.account(_POOL), mint, mine.account(_WALLET))
        quote_asset = None if quote is None else key_text(quote)
        yield Observation(What.GRADUATED, PROGRAM, mint, accounts, quote_asset, complete=True)


def _migration(base: int, new_pool: int, launch_pool: int | None) -> Reader:
    def read(transaction: Transaction, index: int) -> Iterator[Observation]:
        mine = transaction.instructions[index]
        mint, quote = coin_and_quote(mine.account(base), mine.account(base + 1))
        left = None if launch_pool is None else mine.account(launch_pool)
        yield Observation(What.GRADUATED, PROGRAM, mint, (left, mint, mine.account(new_pool)), quote, complete=True)

    return read


_LAUNCHES = ("with_spl_token", "with_token2022", "with_token2022_transfer_hook")
READERS: dict[bytes, Reader] = {
    **{instruction(f"initialize_virtual_pool_{name}"): _launch for name in _LAUNCHES},
    **{instruction(name): _trade for name in ("swap", "swap2")},
    instruction("migrate_meteora_damm"): _migration(base=7, new_pool=4, launch_pool=0),
    instruction("migration_damm_v2"): _migration(base=13, new_pool=4, launch_pool=0),
}
