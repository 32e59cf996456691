"""Imitation of migrate and migrate_v2: a complete coin moves from its curve to the canonical pool of the AMM.

Implements: the pool account, its vaults and its liquidity token (minted, then burned); the curve's assets without the
migration fee move to the pool; the empty curve; CompletePumpAmmMigrationEvent and the AMM's CreatePoolEvent.
migrate_v2 of a migrated coin succeeds, logs it and moves nothing. The known facts do not say who pays the rent of the
pool's accounts: here the user pays it. Trades in the pool are not imitated.
"""

import math
from dataclasses import replace

from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey

from actors.launch_programs import addresses
from actors.launch_programs.accounts import SLOTS, Keys, migrate_keys
from actors.launch_programs.curve_account import encode_curve
from actors.launch_programs.events import CompletePumpAmmMigrationEvent, CreatePoolEvent
from actors.launch_programs.instructions import Kind
from actors.launch_programs.pools import POOL_BYTES, Pool, encode_pool
from devnode.launchpad import calls
from devnode.launchpad.faults import Fault
from devnode.launchpad.reading import (
    Coin,
    Passed,
    coin_of,
    global_of,
    quote_mint_of,
    require_addresses,
)
from devnode.launchpad.stage import Stage
from devnode.parsing.token_accounts import holding

LP_DECIMALS = 9
MINIMUM_LIQUIDITY = 100  # Never minted to anyone, so that a pool is never empty.
_MINT_BYTES = 82
_OWN_UNITS, _POOL_UNITS = 60_000, 60_000
_CREATE_POOL = bytes.fromhex("e992d18ecf6840bc")
_CREATE_POOL_ACCOUNTS = (
    *("pool", "amm_global_config", "pool_authority", "mint", "quote_mint", "lp_mint", "pool_authority_base"),
    *("pool_authority_quote", "user_lp", "pool_base", "pool_quote", "system_program", "token_2022_program"),
    *("base_program", "quote_program", "associated_program", "amm_event_authority", "amm"),
)


def migrate(stage: Stage, kind: Kind) -> None:
    passed = Passed.of(stage, SLOTS[kind])
    stage.spend(_OWN_UNITS)
    config = global_of(stage)
    coin = coin_of(stage, passed["mint"])
    quote_mint = coin.curve.trade_quote_mint
    if kind is Kind.MIGRATE and coin.curve.curve_type != "classic":
        raise Fault.number(6063)
    if kind is Kind.MIGRATE and coin.program != addresses.TOKEN_PROGRAM:
        raise Fault.number(3008, "token_program")  # `migrate` passes one token program for both sides of the pool.
    quote_program, quote_decimals = quote_mint_of(stage, quote_mint)
    keys = migrate_keys(coin.mint, coin.program, passed["user"], quote_mint, quote_program)
    require_addresses(passed, keys | {"withdraw_authority": config.withdraw_authority})
    if not config.enable_migrate:
        raise Fault.number(6018)
    if not coin.curve.complete:
        raise Fault.number(6006)
    if coin.curve.is_migrated:
        if kind is Kind.MIGRATE:
            raise Fault.number(6081)
        stage.log("Bonding curve already migrated")
        return
    fee = min(config.pool_migration_fee, coin.curve.real_quote_reserves) if coin.curve.curve_type == "classic" else 0
    base, quote = _held(stage, keys["curve_base"]), coin.curve.real_quote_reserves - fee
    event = _pool_event(stage, coin, keys, base, quote, quote_decimals)
    _make_pool(stage, keys, event)
    _fill_pool(stage, coin, keys, event, fee, config.withdraw_authority)
    # Four reserves of zero mark a migrated coin.
    emptied = replace(
        coin.curve, virtual_token_reserves=0, virtual_quote_reserves=0, real_token_reserves=0, real_quote_reserves=0
    )
    stage.write(keys["bonding_curve"], encode_curve(emptied, coin.curve_bytes))
    stage.emit(
        CompletePumpAmmMigrationEvent(
            user=keys["user"],
            mint=coin.mint,
            mint_amount=base,
            sol_amount=quote,
            pool_migration_fee=fee,
            bonding_curve=keys["bonding_curve"],
            timestamp=stage.timestamp,
            pool=keys["pool"],
            quote_mint=coin.curve.quote_mint,
        )
    )


def _held(stage: Stage, token_account: Pubkey) -> int:
    held = holding(stage.account(token_account))
    if held is None:
        raise Fault.number(3012, "associated_bonding_curve")
    return held.amount


def _pool_event(stage: Stage, coin: Coin, keys: Keys, base: int, quote: int, quote_decimals: int) -> CreatePoolEvent:
    seeds = [b"pool", bytes(2), bytes(keys["pool_authority"]), bytes(coin.mint), bytes(keys["quote_mint"])]
    liquidity = math.isqrt(base * quote)
    return CreatePoolEvent(
        timestamp=stage.timestamp,
        index=0,
        creator=keys["pool_authority"],
        base_mint=coin.mint,
        quote_mint=keys["quote_mint"],
        base_mint_decimals=coin.decimals,
        quote_mint_decimals=quote_decimals,
        base_amount_in=base,
        quote_amount_in=quote,
        pool_base_amount=base,
        pool_quote_amount=quote,
        minimum_liquidity=MINIMUM_LIQUIDITY,
        initial_liquidity=liquidity,
        lp_token_amount_out=max(liquidity - MINIMUM_LIQUIDITY, 0),
        pool_bump=Pubkey.find_program_address(seeds, addresses.PUMP_AMM)[1],
        pool=keys["pool"],
        lp_mint=keys["lp_mint"],
        user_base_token_account=keys["pool_authority_base"],
        user_quote_token_account=keys["pool_authority_quote"],
        coin_creator=coin.curve.creator,
        is_mayhem_mode=coin.curve.is_mayhem_mode,
        creator_fee_bps=coin.curve.creator_fee_bps,
    )


def _make_pool(stage: Stage, keys: Keys, event: CreatePoolEvent) -> None:
    """Imitate the call to the AMM, which creates the pool, its liquidity token and its vaults."""
    user, pool, lp_mint, lp_program = keys["user"], keys["pool"], keys["lp_mint"], addresses.TOKEN_2022_PROGRAM
    base_program, quote_program = keys["base_program"], keys["quote_program"]
    authority, lp_account = keys["pool_authority"], keys["user_lp"]
    data = _CREATE_POOL + bytes(2)
    data += event.base_amount_in.to_bytes(8, "little") + event.quote_amount_in.to_bytes(8, "little")
    data += bytes(event.coin_creator) + bytes((event.is_mayhem_mode,))
    children = [
        calls.create_account(user, pool, stage.rent(POOL_BYTES), POOL_BYTES, addresses.PUMP_AMM),
        calls.create_account(user, lp_mint, stage.rent(_MINT_BYTES), _MINT_BYTES, lp_program),
        calls.initialize_mint(lp_program, lp_mint, LP_DECIMALS, pool),
        calls.create_token_account(user, keys["pool_base"], pool, keys["mint"], base_program),
        calls.create_token_account(user, keys["pool_quote"], pool, keys["quote_mint"], quote_program),
        calls.create_token_account(user, lp_account, authority, lp_mint, lp_program),
        calls.mint_to(lp_program, lp_mint, lp_account, pool, event.lp_token_amount_out),
    ]
    stage.pretend(
        Instruction(
            addresses.PUMP_AMM, data, [AccountMeta(keys[name], False, False) for name in _CREATE_POOL_ACCOUNTS]
        ),
        ("Instruction: CreatePool",),
        _POOL_UNITS,
        children=children,
        event=(event, addresses.AMM_EVENT_AUTHORITY),
    )
    record = Pool(
        bump=event.pool_bump,
        index=event.index,
        creator=event.creator,
        base_mint=event.base_mint,
        quote_mint=event.quote_mint,
        lp_mint=event.lp_mint,
        base_vault=keys["pool_base"],
        quote_vault=keys["pool_quote"],
        lp_supply=event.initial_liquidity,
        coin_creator=event.coin_creator,
        is_mayhem_mode=event.is_mayhem_mode,
        creator_fee_bps=event.creator_fee_bps,
    )
    stage.write(pool, encode_pool(record))


def _fill_pool(stage: Stage, coin: Coin, keys: Keys, event: CreatePoolEvent, fee: int, fee_receiver: Pubkey) -> None:
    curve, lp_program = keys["bonding_curve"], addresses.TOKEN_2022_PROGRAM
    moves = [
        calls.burn(lp_program, keys["user_lp"], keys["lp_mint"], keys["pool_authority"], event.lp_token_amount_out),
        calls.transfer_tokens(
            *(coin.program, keys["curve_base"], coin.mint, keys["pool_base"], curve),
            event.base_amount_in,
            coin.decimals,
        ),
    ]
    if coin.curve.curve_type == "classic":
        stage.move(curve, fee_receiver, fee)
        stage.move(curve, keys["pool_quote"], event.quote_amount_in)
        moves.append(calls.sync_native(keys["quote_program"], keys["pool_quote"]))
    else:
        moves.append(
            calls.transfer_tokens(
                *(keys["quote_program"], keys["curve_quote"], keys["quote_mint"], keys["pool_quote"], curve),
                event.quote_amount_in,
                event.quote_mint_decimals,
            )
        )
    stage.call(*moves)
