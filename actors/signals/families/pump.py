"""The bonding-curve platform: launches by create and create_v2, trades of every form, completion, migration.

Implements: interface, "Signal kinds", for program 6EF8...F6P. Events come first, as they name mint, quote and amounts;
an instruction of `create` or a trade without its event gives what its accounts tell.
Pure.
"""

from collections.abc import Iterator
from functools import lru_cache

from solders.pubkey import Pubkey

from actors.launch_programs import instructions
from actors.launch_programs.addresses import PUMP
from actors.launch_programs.events import (
    CompleteEvent,
    CompletePumpAmmMigrationEvent,
    CreateEvent,
    Event,
    TradeEvent,
    decode_event,
)
from actors.launch_programs.instructions import Kind
from actors.signals.observations import SOL, WSOL, ZERO_KEY, Observation, Reader, What
from actors.signals.transaction import SELF_CPI_PREFIX, Instruction, Transaction, key_text

PROGRAM = bytes(PUMP)
_CLASSIC, _V2 = "classic", "v2"
_CREATE_V2_ACCOUNTS = 16  # One that names a quote mint has more.
# Positions of mint, curve and wallet.
_CREATE = {Kind.CREATE: (0, 2, 7), Kind.CREATE_V2: (0, 2, 5)}
_LEGACY, _V2_TRADE, _V3_TRADE, _WITHDRAW_MINT = (2, 3, 6), (1, 10, 13), (1, 5, 8), 2


# Cached, because each trade's event is decoded twice: for the instruction that emits it, and by itself.
_decoded = lru_cache(256)(decode_event)


def _curve(quote_mint: Pubkey) -> tuple[str, str]:
    """Return quote_asset and curve_type, as launch_programs/curve_account.py names them."""
    return (SOL, _CLASSIC) if bytes(quote_mint) == ZERO_KEY else (key_text(bytes(quote_mint)), _V2)


def _read_event(found: Event | None) -> Observation | None:
    match found:
        case CreateEvent():
            quote, curve = _curve(found.quote_mint)
            accounts = _accounts(found.bonding_curve, found.mint, found.user)
            return Observation(What.CREATED, PROGRAM, bytes(found.mint), accounts, quote, curve, complete=False)
        case CompleteEvent():
            quote, curve = _curve(found.quote_mint)
            accounts = _accounts(found.bonding_curve, found.mint, found.user)
            return Observation(What.GRADUATED, PROGRAM, bytes(found.mint), accounts, quote, curve, complete=True)
        case CompletePumpAmmMigrationEvent():
            quote, curve = _curve(found.quote_mint)
            accounts = _accounts(found.bonding_curve, found.mint, found.pool, found.user)
            return Observation(What.GRADUATED, PROGRAM, bytes(found.mint), accounts, quote, curve, complete=True)
        case TradeEvent():
            quote, curve = _curve(found.quote_mint)
            lamports = found.sol_amount if curve == _CLASSIC else None
            if bytes(found.quote_mint) == WSOL:
                lamports = found.quote_amount
            accounts = _accounts(found.mint, found.user)
            return Observation(
                *(What.TRADED, PROGRAM, bytes(found.mint), accounts, quote, curve),
                is_buy=found.is_buy,
                lamports=lamports,
            )
    return None


def _accounts(*keys: Pubkey) -> tuple[bytes, ...]:
    return tuple(bytes(key) for key in keys)


def _emitted(transaction: Transaction, index: int) -> Iterator[Observation]:
    found = _read_event(_decoded(transaction.instructions[index].data.removeprefix(SELF_CPI_PREFIX)))
    if found is not None:
        yield found


def _create(transaction: Transaction, index: int) -> Iterator[Observation]:
    """Read a launch without its event, as in samples of one instruction."""
    mine = transaction.instructions[index]
    kind = instructions.kind_of(mine.data)
    assert kind is not None
    if _has_event(transaction, index, CreateEvent):
        return
    accounts = _placed(mine, _CREATE[kind])
    mint, curve, user = accounts
    if mint is None:
        return
    classic = kind is Kind.CREATE or len(mine.accounts) <= _CREATE_V2_ACCOUNTS
    quote, curve_type = (SOL, _CLASSIC) if classic else (None, None)
    yield Observation(What.CREATED, PROGRAM, mint, (curve, mint, user), quote, curve_type, complete=False)


def _trade(transaction: Transaction, index: int) -> Iterator[Observation]:
    mine = transaction.instructions[index]
    kind = instructions.kind_of(mine.data)
    assert kind is not None
    if _has_event(transaction, index, TradeEvent):
        return
    legacy, v2 = kind in instructions.LEGACY_TRADES, kind in instructions.V2_TRADES
    mint, curve, user = _placed(mine, _LEGACY if legacy else _V2_TRADE if v2 else _V3_TRADE)
    quote, curve_type = (SOL, _CLASSIC) if legacy else (None, None)  # The legacy forms trade coins of SOL curves only.
    is_buy = kind not in instructions.SELLS
    yield Observation(What.TRADED, PROGRAM, mint, (curve, mint, user), quote, curve_type, is_buy=is_buy)


def _withdraw(transaction: Transaction, index: int) -> Iterator[Observation]:
    """Read the graduation of coins until early 2025: the reserves leave for a pool of Raydium's AMM v4."""
    mine = transaction.instructions[index]
    mint = mine.account(_WITHDRAW_MINT)
    if mint is not None:
        accounts = (mine.account(_WITHDRAW_MINT + 1), mint)
        yield Observation(What.GRADUATED, PROGRAM, mint, accounts, SOL, _CLASSIC, complete=True)


def _has_event(transaction: Transaction, index: int, kind: type[Event]) -> bool:
    return any(isinstance(_decoded(data), kind) for data in transaction.events_inside(index))


def _placed(mine: Instruction, places: tuple[int, int, int]) -> tuple[bytes | None, bytes | None, bytes | None]:
    first, second, third = places
    return mine.account(first), mine.account(second), mine.account(third)


READERS: dict[bytes, Reader] = {
    SELF_CPI_PREFIX: _emitted,
    **{kind.discriminator: _create for kind in _CREATE},
    **{kind.discriminator: _trade for kind in instructions.TRADES},
    Kind.WITHDRAW.discriminator: _withdraw,
}
