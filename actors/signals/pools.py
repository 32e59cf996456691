"""Readers that several program families share: a pool's creation, and a swap by the token transfers inside it.

Implements: interface, "Signal kinds" (newPair, largeSwap), for programs whose own record of a swap is log text only, or
has no mints.
Pure.
"""

from collections.abc import Iterator, Sequence

from actors.signals.observations import KNOWN_QUOTES, WSOL, Observation, Reader, What, coin_and_quote
from actors.signals.transaction import Transaction, key_text


def creation(pool: int, first: int, second: int, wallet: int | None = None) -> Reader:
    """Return the reader of an instruction that makes a pool. The numbers are positions among its accounts."""

    def read(transaction: Transaction, index: int) -> Iterator[Observation]:
        mine = transaction.instructions[index]
        mint, quote = coin_and_quote(mine.account(first), mine.account(second))
        creator = mine.account(wallet) if wallet is not None else None
        yield Observation(What.CREATED, mine.program, mint, (mine.account(pool), mint, creator), quote)

    return read


def swap(pool: int, wallet: int, wallet_tokens: Sequence[int]) -> Reader:
    """Return the reader of a swap. wallet_tokens: positions of the trader's token accounts."""

    def read(transaction: Transaction, index: int) -> Iterator[Observation]:
        yield by_transfers(transaction, index, pool, wallet, wallet_tokens)

    return read


def by_transfers(
    transaction: Transaction, index: int, pool: int, wallet: int, wallet_tokens: Sequence[int]
) -> Observation:
    """Read a swap by the token transfers from and to the trader's accounts inside it."""
    mine = transaction.instructions[index]
    own = {account for place in wallet_tokens if (account := mine.account(place)) is not None}
    paid: dict[bytes, int] = {}
    got: dict[bytes, int] = {}
    for transfer in transaction.transfers_inside(index):
        if transfer.mint is not None and (transfer.source in own) != (transfer.destination in own):
            side = paid if transfer.source in own else got
            side[transfer.mint] = side.get(transfer.mint, 0) + transfer.amount
    accounts = (mine.account(pool), mine.account(wallet))
    if len(paid) != 1 or len(got) != 1 or paid.keys() == got.keys():
        return Observation(What.TRADED, mine.program, None, accounts)
    (paid_mint,), (got_mint,) = paid, got
    is_buy = _pays_with_quote(paid_mint, got_mint)
    mint, quote = (got_mint, paid_mint) if is_buy is not False else (paid_mint, got_mint)
    return Observation(
        What.TRADED,
        mine.program,
        None if is_buy is None else mint,
        (accounts[0], mint, accounts[1]),
        None if is_buy is None else key_text(quote),
        is_buy=is_buy,
        lamports=paid.get(WSOL, got.get(WSOL)),
    )


def _pays_with_quote(paid: bytes, got: bytes) -> bool | None:
    """True: a buy of the coin. None: neither side is a known quote. Between two known quotes SOL is the quote."""
    if paid in KNOWN_QUOTES and got in KNOWN_QUOTES:
        return paid == WSOL if WSOL in (paid, got) else None
    return paid in KNOWN_QUOTES if paid in KNOWN_QUOTES or got in KNOWN_QUOTES else None
