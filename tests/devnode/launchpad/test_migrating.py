import math

import pytest
from solders.instruction import Instruction
from solders.pubkey import Pubkey

from actors.launch_programs import addresses, pdas
from actors.launch_programs.accounts import instruction, migrate_keys
from actors.launch_programs.events import CompletePumpAmmMigrationEvent, CreatePoolEvent
from actors.launch_programs.instructions import Kind
from actors.launch_programs.pools import decode_pool
from devnode.encoding.addresses import USDC_MINT
from tests.devnode.pad import SOL, Pad, events

FEE = 15_000_001


def migration(pad: Pad, mint: Pubkey, kind: Kind, **other: Pubkey) -> Instruction:
    quote = pad.curve(mint).trade_quote_mint
    keys = migrate_keys(mint, pad.program_of(mint), pad.user.pubkey(), quote, addresses.TOKEN_PROGRAM)
    return instruction(kind, kind.discriminator, keys | other)


def completed(pad: Pad, create: Kind = Kind.CREATE_V2, quote: Pubkey | None = None) -> Pubkey:
    mint = pad.coin(create, quote)
    if quote is not None:
        pad.change_curve(mint, virtual_token_reserves=2 * 10**12, real_token_reserves=10**12)
    kind = Kind.BUY if quote is None else Kind.BUY_V2
    meta = pad.land(pad.trade(mint, kind, pad.curve(mint).real_token_reserves, 2**63))
    assert meta.err is None and pad.curve(mint).complete, meta.err
    return mint


@pytest.mark.parametrize(
    ("create", "kind"), [(Kind.CREATE, Kind.MIGRATE), (Kind.CREATE, Kind.MIGRATE_V2), (Kind.CREATE_V2, Kind.MIGRATE_V2)]
)
def test_a_complete_coin_moves_into_its_pool(pad: Pad, create: Kind, kind: Kind) -> None:
    """The pool gets all tokens and lamports of the curve without the migration fee; no amount is created or lost."""
    mint = completed(pad, create)
    before = pad.curve(mint)
    authority = pad.lamports(addresses.WITHDRAW_AUTHORITY)
    meta = pad.land(migration(pad, mint, kind))
    assert meta.err is None
    pool_event, done = events(meta)
    assert isinstance(pool_event, CreatePoolEvent) and isinstance(done, CompletePumpAmmMigrationEvent)
    pool = pdas.canonical_pool(mint, addresses.WSOL_MINT)
    quote = before.real_quote_reserves - FEE
    assert (done.pool, done.mint_amount, done.sol_amount) == (pool, 206_900 * 10**9, quote)
    assert done.pool_migration_fee == FEE and done.quote_mint == addresses.ZERO_KEY
    assert pool_event.creator == pdas.pool_authority(mint)
    account = pad.local.chain.vm.account(pool)
    assert account is not None and account.owner == addresses.PUMP_AMM
    record = decode_pool(account.data)
    assert record is not None and (record.base_mint, record.quote_mint) == (mint, addresses.WSOL_MINT)
    assert pad.tokens(record.base_vault) == 206_900 * 10**9 and pad.tokens(record.quote_vault) == quote
    assert record.lp_supply == math.isqrt(206_900 * 10**9 * quote)
    assert pad.lamports(addresses.WITHDRAW_AUTHORITY) == authority + FEE
    curve = pad.curve(mint)
    assert curve.is_migrated and curve.complete and curve.creator == before.creator
    assert pad.lamports(pdas.bonding_curve(mint)) == pad.local.chain.vm.rent_exempt_lamports(166)


def test_a_second_migration_has_no_effect(pad: Pad) -> None:
    """A second migrate_v2 succeeds with a log line and without an event."""
    mint = completed(pad, Kind.CREATE)
    assert pad.land(migration(pad, mint, Kind.MIGRATE_V2)).err is None
    again = pad.land(migration(pad, mint, Kind.MIGRATE_V2))
    assert again.err is None and events(again) == []
    assert any("already migrated" in line for line in again.logs)
    assert pad.error(migration(pad, mint, Kind.MIGRATE)) == 6081
    assert pad.error(pad.trade(mint, Kind.BUY, 1, SOL)) == 6005


def test_a_token_quote_moves_as_tokens(pad: Pad) -> None:
    mint = completed(pad, Kind.CREATE_V2, USDC_MINT)
    raised = pad.curve(mint).real_quote_reserves
    meta = pad.land(migration(pad, mint, Kind.MIGRATE_V2))
    assert meta.err is None
    pool = pdas.canonical_pool(mint, USDC_MINT)
    assert pad.tokens(pdas.associated_token(pool, addresses.TOKEN_PROGRAM, USDC_MINT)) == raised
    assert pad.error(migration(pad, mint, Kind.MIGRATE)) == 6063


def test_invalid_migrations_are_refused(pad: Pad) -> None:
    """Refused: an incomplete curve, and accounts of another coin."""
    mint = pad.launch()
    assert pad.error(migration(pad, mint, Kind.MIGRATE_V2)) == 6006
    assert pad.error(migration(pad, mint, Kind.MIGRATE)) == 3008
    assert pad.error(migration(pad, mint, Kind.MIGRATE_V2, pool=pad.user.pubkey())) == 2006
    assert pad.error(migration(pad, mint, Kind.MIGRATE_V2, withdraw_authority=pad.user.pubkey())) == 6000
