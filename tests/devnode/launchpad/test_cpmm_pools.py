"""Pools of Raydium's constant-product program, by real transactions on a chain in this process."""

import math

import pytest
from solders.instruction import Instruction
from solders.pubkey import Pubkey

from actors.launch_programs import addresses, pdas
from actors.launch_programs.accounts import Keys
from actors.launch_programs.cpmm import (
    CPMM,
    CpmmKind,
    CpmmSwapEvent,
    cpmm_initialize,
    cpmm_output,
    cpmm_pool_keys,
    cpmm_swap,
    decode_cpmm_pool,
)
from actors.launch_programs.events import log_line
from actors.launch_programs.instructions import Kind
from devnode.launchpad import calls
from tests.devnode.pad import SOL, Pad

TOKENS = 10**13


class CpmmPad:
    """A coin that its user holds, and WSOL for a pool of both."""

    def __init__(self, pad: Pad, create: Kind = Kind.CREATE_V2) -> None:
        self.pad, self.mint = pad, pad.launch(create)
        bought = pad.land(pad.base_account(self.mint), pad.trade(self.mint, Kind.BUY, 4 * TOKENS, 100 * SOL))
        assert bought.err is None, bought
        user = pad.user.pubkey()
        self.wsol = pdas.associated_token(user, addresses.TOKEN_PROGRAM, addresses.WSOL_MINT)
        wrapped = pad.land(
            calls.create_token_account(
                user, self.wsol, user, addresses.WSOL_MINT, addresses.TOKEN_PROGRAM, idempotent=True
            ),
            calls.transfer_lamports(user, self.wsol, 50 * SOL),
            calls.sync_native(addresses.TOKEN_PROGRAM, self.wsol),
        )
        assert wrapped.err is None

    @property
    def keys(self) -> Keys:
        program = self.pad.program_of(self.mint)
        return cpmm_pool_keys(self.mint, program, addresses.WSOL_MINT, addresses.TOKEN_PROGRAM)

    def creation(self, tokens: int = 2 * TOKENS, lamports: int = 10 * SOL) -> Instruction:
        amounts = {self.mint: tokens, addresses.WSOL_MINT: lamports}
        keys = self.keys
        return cpmm_initialize(keys, self.pad.user.pubkey(), amounts[keys["mint_0"]], amounts[keys["mint_1"]])

    def swap(self, kind: CpmmKind, mint: Pubkey, first: int, second: int) -> Instruction:
        return cpmm_swap(self.keys, kind, self.pad.user.pubkey(), mint, first, second)

    def vaults(self) -> tuple[int, int]:
        """The pool's balances of the coin and of WSOL."""
        keys = self.keys
        coin, wsol = ("vault_0", "vault_1") if keys["mint_0"] == self.mint else ("vault_1", "vault_0")
        return self.pad.tokens(keys[coin]), self.pad.tokens(keys[wsol])


@pytest.mark.parametrize("create", [Kind.CREATE, Kind.CREATE_V2])
def test_a_pool_is_created_with_its_deposits(pad: Pad, create: Kind) -> None:
    """Both vaults, the liquidity tokens of its creator, the account that others read."""
    made = CpmmPad(pad, create)
    meta = pad.land(made.creation())
    assert meta.err is None, meta
    assert made.vaults() == (2 * TOKENS, 10 * SOL)
    account = pad.local.chain.vm.account(made.keys["pool"])
    assert account is not None and account.owner == CPMM
    pool = decode_cpmm_pool(account.data)
    assert pool is not None and {pool.mint_0, pool.mint_1} == {made.mint, addresses.WSOL_MINT}
    liquidity = math.isqrt(2 * TOKENS * 10 * SOL)
    lp = pdas.associated_token(pad.user.pubkey(), addresses.TOKEN_PROGRAM, made.keys["lp_mint"])
    assert (pool.lp_supply, pad.tokens(lp)) == (liquidity, liquidity - 100)
    assert f"Program {CPMM} invoke [1]" in meta.logs
    again = pad.record(made.creation())
    assert again.meta.err is not None, "a pool of the same mints exists"


def test_swaps_move_both_sides_by_the_formula(pad: Pad) -> None:
    """Exact input and exact output, in both directions; the event is a log line, with the reserves before."""
    made = CpmmPad(pad)
    assert pad.land(made.creation()).err is None
    wsol = addresses.WSOL_MINT
    for kind, mint, first, second in (
        (CpmmKind.SWAP_BASE_INPUT, wsol, SOL, 1),
        (CpmmKind.SWAP_BASE_INPUT, made.mint, TOKENS // 10, 1),
        (CpmmKind.SWAP_BASE_OUTPUT, wsol, 5 * SOL, TOKENS // 20),
        (CpmmKind.SWAP_BASE_OUTPUT, made.mint, TOKENS, SOL // 4),
    ):
        coin, lamports = made.vaults()
        meta = pad.land(made.swap(kind, mint, first, second))
        assert meta.err is None, (kind, mint, meta)
        after = made.vaults()
        inside, outside = (lamports, coin) if mint == wsol else (coin, lamports)
        gained = after[1] - lamports if mint == wsol else after[0] - coin
        given = coin - after[0] if mint == wsol else lamports - after[1]
        if kind is CpmmKind.SWAP_BASE_INPUT:
            assert (gained, given) == (first, cpmm_output(first, inside, outside, 2_500)[0])
        else:
            assert given == second and cpmm_output(gained, inside, outside, 2_500)[0] >= second
        other = made.mint if mint == wsol else wsol
        fee = -(-gained * 2_500 // 1_000_000)
        event = CpmmSwapEvent(
            *(made.keys["pool"], inside, outside, gained, given, 0, 0),
            *(kind is CpmmKind.SWAP_BASE_INPUT, mint, other),
        )
        lines = [line for line in meta.logs if line.startswith("Program data: ")]
        assert len(lines) == 1
        assert lines[0][: len(log_line(event)) - 16] == log_line(event)[:-16], fee  # The fee is last.


def test_invalid_swaps_are_refused(pad: Pad) -> None:
    """Slippage, nothing, more than the pool has, accounts of nobody."""
    made = CpmmPad(pad)
    assert pad.land(made.creation()).err is None
    wsol = addresses.WSOL_MINT
    assert pad.error(made.swap(CpmmKind.SWAP_BASE_INPUT, wsol, SOL, 2**62)) == 6005
    assert pad.error(made.swap(CpmmKind.SWAP_BASE_INPUT, wsol, 0, 0)) == 6006
    assert pad.error(made.swap(CpmmKind.SWAP_BASE_OUTPUT, wsol, 1, TOKENS // 20)) == 6005
    assert pad.error(made.swap(CpmmKind.SWAP_BASE_OUTPUT, wsol, 2**62, 2**62)) == 6006
    swap = made.swap(CpmmKind.SWAP_BASE_INPUT, wsol, SOL, 1)
    accounts = list(swap.accounts)
    accounts[6], accounts[7] = accounts[7], accounts[6]
    assert pad.error(Instruction(CPMM, swap.data, accounts)) == 2006
    assert pad.error(Instruction(CPMM, b"unknown!", accounts)) == 101
