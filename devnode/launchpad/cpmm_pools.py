"""Imitation of Raydium's constant-product program: the creation of a pool, and swaps in it.

Implements: the accounts that a new pool has, its deposits and liquidity tokens; swaps with exact input or output; the
swap event, which this program writes as a log line only. The trade fee stays in the pool: devnode's configuration of
the program has no fees for protocol, fund and pool creation.
Not imitated: deposits, withdrawals, mints with transfer fees (as on the chain, the fee would change the amounts).
"""

import math

from solders.pubkey import Pubkey

from actors.launch_programs import pdas
from actors.launch_programs.accounts import Keys
from actors.launch_programs.addresses import TOKEN_PROGRAM
from actors.launch_programs.borsh import decode
from actors.launch_programs.cpmm import (
    AMM_CONFIG,
    AUTHORITY,
    AUTHORITY_BUMP,
    CPMM,
    CPMM_POOL_BYTES,
    CPMM_SLOTS,
    LOCKED_LIQUIDITY,
    CpmmConfig,
    CpmmKind,
    CpmmPool,
    CpmmSwapEvent,
    cpmm_input,
    cpmm_output,
    cpmm_pool_keys,
    decode_cpmm_config,
    decode_cpmm_pool,
    encode_cpmm_pool,
)
from actors.launch_programs.events import log_line
from devnode.launchpad import calls
from devnode.launchpad.faults import CPMM_NAMES, Fault
from devnode.launchpad.reading import Passed, quote_mint_of, require_addresses
from devnode.launchpad.stage import Stage
from devnode.parsing.token_accounts import holding

LP_DECIMALS = 9
OBSERVATION_BYTES = 4_075
_TOKEN_ACCOUNT_BYTES, _MINT_BYTES = 165, 82
_CREATE_UNITS, _SWAP_UNITS = 80_000, 35_000


def create_pool(stage: Stage) -> None:
    values = decode((("amount_0", "u64"), ("amount_1", "u64"), ("open_time", "u64")), stage.data, 8)
    if values is None or len(stage.data) < 32:
        raise Fault.number(102)
    passed = Passed.of(stage, CPMM_SLOTS[CpmmKind.INITIALIZE])
    stage.spend(_CREATE_UNITS)
    mint_0, mint_1 = passed["mint_0"], passed["mint_1"]
    (program_0, decimals_0), (program_1, decimals_1) = quote_mint_of(stage, mint_0), quote_mint_of(stage, mint_1)
    keys = cpmm_pool_keys(mint_0, program_0, mint_1, program_1) | {"creator": passed["creator"]}
    keys["creator_lp"] = pdas.associated_token(keys["creator"], TOKEN_PROGRAM, keys["lp_mint"])
    require_addresses(passed, keys)  # The mints must be sorted too.
    _config(stage)
    amount_0, amount_1 = values["amount_0"], values["amount_1"]
    liquidity = math.isqrt(amount_0 * amount_1)
    if liquidity <= LOCKED_LIQUIDITY:
        raise Fault.number(6006, table=CPMM_NAMES)
    _make_accounts(stage, keys)
    stage.call(
        calls.transfer_tokens(
            *(program_0, passed["creator_0"], mint_0, keys["vault_0"], keys["creator"]), amount_0, decimals_0
        ),
        calls.transfer_tokens(
            *(program_1, passed["creator_1"], mint_1, keys["vault_1"], keys["creator"]), amount_1, decimals_1
        ),
        calls.mint_to(TOKEN_PROGRAM, keys["lp_mint"], keys["creator_lp"], AUTHORITY, liquidity - LOCKED_LIQUIDITY),
    )
    record = CpmmPool(
        amm_config=AMM_CONFIG,
        pool_creator=keys["creator"],
        vault_0=keys["vault_0"],
        vault_1=keys["vault_1"],
        lp_mint=keys["lp_mint"],
        mint_0=mint_0,
        mint_1=mint_1,
        program_0=program_0,
        program_1=program_1,
        observation=keys["observation"],
        auth_bump=AUTHORITY_BUMP,
        status=0,
        lp_decimals=LP_DECIMALS,
        decimals_0=decimals_0,
        decimals_1=decimals_1,
        lp_supply=liquidity,
        open_time=max(values["open_time"], stage.timestamp),
    )
    stage.write(keys["pool"], encode_cpmm_pool(record))


def _make_accounts(stage: Stage, keys: Keys) -> None:
    creator, rent = keys["creator"], stage.rent
    stage.call(
        calls.create_account(creator, keys["pool"], rent(CPMM_POOL_BYTES), CPMM_POOL_BYTES, CPMM),
        calls.create_account(creator, keys["observation"], rent(OBSERVATION_BYTES), OBSERVATION_BYTES, CPMM),
        calls.create_account(creator, keys["lp_mint"], rent(_MINT_BYTES), _MINT_BYTES, TOKEN_PROGRAM),
        calls.initialize_mint(TOKEN_PROGRAM, keys["lp_mint"], LP_DECIMALS, AUTHORITY),
    )
    for side in ("0", "1"):
        vault, mint, program = (keys[f"{name}_{side}"] for name in ("vault", "mint", "program"))
        stage.call(
            calls.create_account(creator, vault, rent(_TOKEN_ACCOUNT_BYTES), _TOKEN_ACCOUNT_BYTES, program),
            calls.initialize_account(program, vault, mint, AUTHORITY),
        )
    stage.call(calls.create_token_account(creator, keys["creator_lp"], creator, keys["lp_mint"], TOKEN_PROGRAM))


def _config(stage: Stage) -> CpmmConfig:
    account = stage.account(AMM_CONFIG)
    config = None if account is None or account.owner != CPMM else decode_cpmm_config(account.data)
    if config is None:
        raise Fault.number(3012, "amm_config")
    return config


def swap(stage: Stage, kind: CpmmKind) -> None:
    values = decode((("first", "u64"), ("second", "u64")), stage.data, 8)
    if values is None or len(stage.data) < 24:
        raise Fault.number(102)
    passed = Passed.of(stage, CPMM_SLOTS[kind])
    stage.spend(_SWAP_UNITS)
    account = stage.account(passed["pool"])
    pool = None if account is None or account.owner != CPMM else decode_cpmm_pool(account.data)
    if pool is None:
        raise Fault.number(3012, "pool_state")
    if pool.open_time > stage.timestamp:
        raise Fault.number(6000, table=CPMM_NAMES)
    _require_sides(passed, pool)
    fee_rate = _config(stage).trade_fee_rate
    reserves = (_held(stage, passed["input_vault"]), _held(stage, passed["output_vault"]))
    is_exact_input = kind is CpmmKind.SWAP_BASE_INPUT
    amount_in, amount_out, fee = _priced(values, reserves, fee_rate, is_exact_input)
    _, decimals_in = quote_mint_of(stage, passed["input_mint"])
    _, decimals_out = quote_mint_of(stage, passed["output_mint"])
    stage.call(
        calls.transfer_tokens(
            *(passed["input_program"], passed["input_account"], passed["input_mint"], passed["input_vault"]),
            *(passed["payer"], amount_in, decimals_in),
        ),
        calls.transfer_tokens(
            *(passed["output_program"], passed["output_vault"], passed["output_mint"], passed["output_account"]),
            *(AUTHORITY, amount_out, decimals_out),
        ),
    )
    event = CpmmSwapEvent(
        pool=passed["pool"],
        input_vault_before=reserves[0],
        output_vault_before=reserves[1],
        input_amount=amount_in,
        output_amount=amount_out,
        input_transfer_fee=0,
        output_transfer_fee=0,
        base_input=is_exact_input,
        input_mint=passed["input_mint"],
        output_mint=passed["output_mint"],
        trade_fee=fee,
    )
    stage.logs.append(log_line(event))


def _priced(
    values: dict[str, int], reserves: tuple[int, int], fee_rate: int, is_exact_input: bool
) -> tuple[int, int, int]:
    """Amount in, amount out, and the trade fee."""
    if is_exact_input:
        amount_in, least = values["first"], values["second"]
        amount_out, fee = cpmm_output(amount_in, *reserves, fee_rate)
        if amount_out == 0:
            raise Fault.number(6006, table=CPMM_NAMES)
        if amount_out < least:
            raise Fault.number(6005, table=CPMM_NAMES)
        return amount_in, amount_out, fee
    most, amount_out = values["first"], values["second"]
    cost = cpmm_input(amount_out, *reserves, fee_rate)
    if cost is None:
        raise Fault.number(6006, table=CPMM_NAMES)
    if cost[0] > most:
        raise Fault.number(6005, table=CPMM_NAMES)
    return cost[0], amount_out, cost[1]


def _require_sides(passed: Passed, pool: CpmmPool) -> None:
    """Refuse accounts that are not those of the pool, in either direction."""
    zero = {"mint": pool.mint_0, "vault": pool.vault_0, "program": pool.program_0}
    one = {"mint": pool.mint_1, "vault": pool.vault_1, "program": pool.program_1}
    sides = (zero, one) if passed["input_vault"] == pool.vault_0 else (one, zero)
    expected = {"authority": AUTHORITY, "amm_config": pool.amm_config, "observation": pool.observation}
    for name, side in zip(("input", "output"), sides, strict=True):
        expected |= {f"{name}_{what}": key for what, key in side.items()}
    require_addresses(passed, expected)


def _held(stage: Stage, token_account: Pubkey) -> int:
    held = holding(stage.account(token_account))
    if held is None:
        raise Fault.number(3012, "vault")
    return held.amount
