"""Turns one transaction into its signals.

Implements: interface, "Signal kinds"; decisions, "watched wallets", "one signal"; threats 32 and 33.
Pure, and total: a transaction with any contents gives signals or none, and never an exception.
Not here: the programs themselves (families/).
"""

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType

from actors.addresses import COMPUTE_BUDGET_PROGRAM, SYSTEM_PROGRAM
from actors.signals.events import SignalEvent, SignalKind
from actors.signals.families import (
    meteora_dbc,
    meteora_pools,
    moonshot,
    orca,
    pump,
    pumpswap,
    raydium_amm_v4,
    raydium_launchlab,
    raydium_pools,
)
from actors.signals.observations import KNOWN_QUOTES, Observation, Readers, What
from actors.signals.transaction import Transaction, key_text, known_key, signature_text

DISCRIMINATOR_BYTES = 8
FAMILIES: Mapping[bytes, Readers] = MappingProxyType(
    {
        pump.PROGRAM: pump.READERS,
        pumpswap.PROGRAM: pumpswap.READERS,
        raydium_launchlab.PROGRAM: raydium_launchlab.READERS,
        raydium_pools.CPMM: raydium_pools.CPMM_READERS,
        raydium_pools.CLMM: raydium_pools.CLMM_READERS,
        raydium_amm_v4.PROGRAM: raydium_amm_v4.READERS,
        meteora_dbc.PROGRAM: meteora_dbc.READERS,
        meteora_pools.DAMM_V1: meteora_pools.DAMM_V1_READERS,
        meteora_pools.DAMM_V2: meteora_pools.DAMM_V2_READERS,
        meteora_pools.DLMM: meteora_pools.DLMM_READERS,
        moonshot.PROGRAM: moonshot.READERS,
        orca.PROGRAM: orca.READERS,
    }
)
PROGRAMS = tuple(key_text(program) for program in FAMILIES)
_COMPUTE_BUDGET = known_key(COMPUTE_BUDGET_PROGRAM)
_KIND = {What.CREATED: SignalKind.NEW_PAIR, What.GRADUATED: SignalKind.GRADUATION, What.TRADED: SignalKind.LARGE_SWAP}


def observe(transaction: Transaction, programs: Collection[bytes] = FAMILIES) -> Iterator[Observation]:
    """Yield the actions of these programs in a transaction, in order; none for a failed transaction."""
    if transaction.failed:
        return
    for index, one in enumerate(transaction.instructions):
        readers = FAMILIES.get(one.program)
        if readers is None or one.program not in programs:
            continue
        reader = readers.get(one.data[:DISCRIMINATOR_BYTES]) or readers.get(one.data[:1])
        if reader is not None:
            yield from reader(transaction, index)


def classify(
    transaction: Transaction,
    *,
    large_swap_lamports: int,
    watched_wallets: Collection[bytes] = (),
    programs: Collection[bytes] = FAMILIES,
) -> tuple[SignalEvent, ...]:
    """Return the signals of a transaction, each (kind, mint) once.

    large_swap_lamports: smaller trades are no signals. watched_wallets: their transactions are signals. programs: those
    that this classifier reads.
    """
    found: dict[tuple[str, str, str], SignalEvent] = {}
    for seen in observe(transaction, programs):
        if seen.what is What.TRADED and (seen.lamports or 0) < large_swap_lamports:
            continue
        event = _event(transaction, seen)
        earlier = found.get(event.identity)
        if earlier is None or (event.lamports or 0) > (earlier.lamports or 0):
            found[event.identity] = event  # Of two trades of one coin, the larger one gives the size.
    if watched_wallets and not transaction.failed:
        named = [key for key in dict.fromkeys(transaction.keys) if key in watched_wallets]
        if named:
            activity = _wallet_activity(transaction, named)
            found[activity.identity] = activity
    return tuple(found.values())


def _event(transaction: Transaction, seen: Observation) -> SignalEvent:
    return SignalEvent(
        kind=_KIND[seen.what].value,
        program=key_text(seen.program),
        signature=signature_text(transaction.signature),
        slot=transaction.slot,
        mint=None if seen.mint is None else key_text(seen.mint),
        accounts=tuple(key_text(key) for key in dict.fromkeys(seen.accounts) if key is not None),
        quote_asset=seen.quote_asset,
        curve_type=seen.curve_type,
        complete=seen.complete,
        lamports=seen.lamports if seen.what is What.TRADED else None,
        block_time=transaction.block_time,
    )


def _wallet_activity(transaction: Transaction, wallets: list[bytes]) -> SignalEvent:
    """program: the first one called that the classifiers know, else that of the first outer instruction that is not
    about the compute budget. mint: the one coin whose balance changed for these wallets; None: several, or none."""
    calls = [one.program for one in transaction.instructions if one.program in FAMILIES]
    calls += [one.program for one in transaction.instructions if one.height == 1 and one.program != _COMPUTE_BUDGET]
    changed: set[bytes] = set()
    for wallet in wallets:
        changed |= transaction.token_changes.get(wallet, frozenset())
    coins = changed - KNOWN_QUOTES or changed
    return SignalEvent(
        kind=SignalKind.WALLET_ACTIVITY.value,
        program=key_text(calls[0]) if calls else SYSTEM_PROGRAM,
        signature=signature_text(transaction.signature),
        slot=transaction.slot,
        mint=key_text(next(iter(coins))) if len(coins) == 1 else None,
        accounts=tuple(key_text(key) for key in dict.fromkeys(transaction.keys)),
        wallets=tuple(key_text(key) for key in wallets),
        block_time=transaction.block_time,
    )
