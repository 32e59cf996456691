"""Trades in the canonical pool of a migrated coin, by real transactions on a chain in this process."""

import pytest
from solders.instruction import Instruction
from solders.pubkey import Pubkey

from actors.launch_programs import addresses, pdas
from actors.launch_programs.accounts import Keys
from actors.launch_programs.instructions import Kind
from actors.launch_programs.pool_events import PoolBuyEvent, PoolSellEvent
from actors.launch_programs.pool_trades import PoolArguments, PoolKind, pool_trade_instruction, pool_trade_keys
from actors.launch_programs.pools import Pool, decode_pool
from devnode.launchpad import calls
from tests.devnode.pad import SOL, Pad, events

from .test_migrating import completed, migration


class PoolPad:
    """A migrated coin, and its user's trades in the pool."""

    def __init__(self, pad: Pad, create: Kind = Kind.CREATE_V2) -> None:
        self.pad, self.mint = pad, completed(pad, create)
        assert pad.land(migration(pad, self.mint, Kind.MIGRATE_V2)).err is None
        self.address = pdas.canonical_pool(self.mint, addresses.WSOL_MINT)

    @property
    def pool(self) -> Pool:
        account = self.pad.local.chain.vm.account(self.address)
        pool = None if account is None else decode_pool(account.data)
        assert pool is not None
        return pool

    @property
    def keys(self) -> Keys:
        recipients = addresses.NORMAL_FEE_RECIPIENTS[2], addresses.BUYBACK_FEE_RECIPIENTS[3]
        return pool_trade_keys(
            self.pool, self.address, self.pad.program_of(self.mint), self.pad.user.pubkey(), *recipients
        )

    def trade(self, kind: PoolKind, amount: int, limit: int, /, **other: Pubkey) -> Instruction:
        return pool_trade_instruction(kind, PoolArguments(amount, limit), self.keys | other)

    def wrapped(self, lamports: int) -> list[Instruction]:
        """Instructions that fund the user's WSOL account."""
        user, account = self.pad.user.pubkey(), self.keys["user_quote"]
        return [
            calls.create_token_account(
                user, account, user, addresses.WSOL_MINT, addresses.TOKEN_PROGRAM, idempotent=True
            ),
            calls.transfer_lamports(user, account, lamports),
            calls.sync_native(addresses.TOKEN_PROGRAM, account),
        ]

    def held(self) -> dict[str, int]:
        """The tokens of every account of a trade."""
        names = (
            *("user_base", "user_quote", "pool_base", "pool_quote"),
            *("fee_recipient_quote", "buyback_quote", "creator_vault_quote"),
        )
        return {name: self.pad.tokens(self.keys[name]) for name in names}


@pytest.fixture
def made(pad: Pad) -> PoolPad:
    pool = PoolPad(pad)
    assert pad.land(*pool.wrapped(20 * SOL)).err is None
    return pool


@pytest.mark.parametrize("kind", [PoolKind.BUY, PoolKind.BUY_EXACT_QUOTE_IN])
def test_a_buy_moves_both_sides_and_every_fee(made: PoolPad, kind: PoolKind) -> None:
    """Nothing is made or lost; the event says what moved; the reserves in it are those before the trade."""
    before = made.held()
    amount, limit = (10**12, 5 * SOL) if kind is PoolKind.BUY else (2 * SOL, 1)
    meta = made.pad.land(made.trade(kind, amount, limit))
    assert meta.err is None, meta
    after = made.held()
    (event,) = events(meta)
    assert isinstance(event, PoolBuyEvent)
    change = {name: after[name] - before[name] for name in after}
    assert change["user_base"] == -change["pool_base"] == event.base_amount_out
    assert -change["user_quote"] == event.user_quote_amount_in
    assert change["pool_quote"] == event.quote_amount_in_with_lp_fee
    assert change["buyback_quote"] == event.buyback_fee == event.protocol_fee // 2
    assert change["fee_recipient_quote"] == event.protocol_fee - event.buyback_fee
    assert change["creator_vault_quote"] == event.coin_creator_fee > 0
    assert sum(value for name, value in change.items() if "quote" in name) == 0
    assert (event.pool_base_token_reserves, event.pool_quote_token_reserves) == (
        before["pool_base"],
        before["pool_quote"],
    )
    assert (event.pool, event.user, event.coin_creator) == (
        made.address,
        made.pad.user.pubkey(),
        made.pool.coin_creator,
    )
    if kind is PoolKind.BUY:
        assert event.base_amount_out == amount
    else:
        assert amount - 3 <= event.user_quote_amount_in <= amount


def test_a_sale_gives_its_proceeds_after_all_fees(made: PoolPad) -> None:
    """And whoever sells what was just bought gets less than was paid."""
    assert made.pad.land(made.trade(PoolKind.BUY, 10**12, 5 * SOL)).err is None
    before = made.held()
    meta = made.pad.land(made.trade(PoolKind.SELL, 10**12, 1))
    assert meta.err is None, meta
    after = made.held()
    (event,) = events(meta)
    assert isinstance(event, PoolSellEvent)
    assert after["user_quote"] - before["user_quote"] == event.user_quote_amount_out
    assert before["pool_quote"] - after["pool_quote"] == event.quote_amount_out - event.lp_fee
    fees = event.lp_fee + event.protocol_fee + event.coin_creator_fee
    assert event.user_quote_amount_out == event.quote_amount_out - fees > 0
    quotes = [name for name in after if "quote" in name]
    assert sum(after[name] for name in quotes) == sum(before[name] for name in quotes)


def test_trades_that_the_program_would_refuse_change_nothing(made: PoolPad) -> None:
    """Slippage on both sides, zero, more than the pool has, foreign fee recipients, accounts of another pool, before
    the migration."""
    pad, stranger = made.pad, made.pad.user.pubkey()
    for kind, amount, limit, code in (
        (PoolKind.BUY, 10**12, 1, 6004),
        (PoolKind.BUY, 0, SOL, 6001),
        (PoolKind.BUY, 2**62, SOL, 6016),
        (PoolKind.BUY_EXACT_QUOTE_IN, SOL, 2**62, 6040),
        (PoolKind.BUY_EXACT_QUOTE_IN, 0, 1, 6002),
        (PoolKind.SELL, 10**9, 2**62, 6004),
    ):
        assert pad.error(made.trade(kind, amount, limit)) == code, (kind, amount, limit)
    wrong = pdas.associated_token(stranger, addresses.TOKEN_PROGRAM, addresses.WSOL_MINT)
    other = {"fee_recipient": stranger, "fee_recipient_quote": wrong}
    assert pad.error(made.trade(PoolKind.BUY, 10**12, SOL, **other)) == 6013
    assert pad.error(made.trade(PoolKind.BUY, 10**12, SOL, pool_quote=made.keys["user_quote"])) == 2006
    assert pad.error(made.trade(PoolKind.BUY, 10**12, SOL, pool=stranger)) == 3012
    cut = made.trade(PoolKind.BUY, 10**12, SOL)
    cut = Instruction(cut.program_id, cut.data, cut.accounts[:-3])
    assert pad.error(cut) == 3005


def test_a_classic_coin_trades_in_its_pool_too(pad: Pad) -> None:
    """The base is a token of the older program."""
    made = PoolPad(pad, Kind.CREATE)
    meta = pad.land(*made.wrapped(3 * SOL), made.trade(PoolKind.BUY_EXACT_QUOTE_IN, 2 * SOL, 1))
    assert meta.err is None and len(events(meta)) == 1
