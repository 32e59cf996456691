"""The router: trades of the imitated programs as inner instructions."""

from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey

from actors.launch_programs import addresses
from actors.launch_programs.cpmm import CPMM, CpmmKind
from actors.launch_programs.events import TradeEvent
from actors.launch_programs.instructions import Kind
from actors.launch_programs.pool_events import PoolBuyEvent
from actors.launch_programs.pool_trades import PoolKind
from devnode.launchpad import calls
from devnode.launchpad.routing import ROUTER, route_instruction
from tests.devnode.pad import SOL, Pad, events

from .test_cpmm_pools import CpmmPad
from .test_pool_trading import PoolPad


def called(pad: Pad, transaction: object) -> list[tuple[Pubkey, int]]:
    """Program and depth of each inner instruction."""
    message = transaction.message  # type: ignore[attr-defined]
    meta = pad.local.land(transaction).meta  # type: ignore[arg-type]
    assert meta.err is None, meta
    keys = message.account_keys
    return [(keys[call.program_index], call.stack_height) for group in meta.inner for call in group.instructions]


def test_a_routed_buy_on_a_curve_has_the_effects_of_a_direct_one(pad: Pad) -> None:
    """The trade and its event are inner instructions, one level deeper; the amounts are those of a direct trade."""
    mint = pad.coin()
    trade = pad.trade(mint, Kind.BUY_EXACT_SOL_IN, SOL, 1)
    pad.local.beat()
    transaction = pad.transaction(route_instruction([trade]))
    found = called(pad, transaction)
    assert found[0] == (addresses.PUMP, 2)
    assert dict(found[1:])[addresses.TOKEN_2022_PROGRAM] == 3
    assert found[-1] == (addresses.PUMP, 3), "its event"
    meta = pad.land(route_instruction([pad.trade(mint, Kind.BUY_EXACT_SOL_IN, SOL, 2)]))
    (event,) = events(meta)
    assert isinstance(event, TradeEvent) and event.user == pad.user.pubkey() and event.is_buy
    assert f"Program {addresses.PUMP} invoke [2]" in meta.logs
    assert f"Program {ROUTER} invoke [1]" in meta.logs


def test_routes_reach_both_kinds_of_pools_and_real_programs(pad: Pad) -> None:
    """A pool of the platform's AMM; one route with a payment and two swaps of the other program."""
    pool = PoolPad(pad)
    assert pad.land(*pool.wrapped(5 * SOL)).err is None
    (event,) = events(pad.land(route_instruction([pool.trade(PoolKind.BUY_EXACT_QUOTE_IN, SOL, 1)])))
    assert isinstance(event, PoolBuyEvent)
    made, stranger = CpmmPad(pad), Pubkey.new_unique()
    assert pad.land(made.creation()).err is None
    legs = [
        calls.transfer_lamports(pad.user.pubkey(), stranger, SOL),
        made.swap(CpmmKind.SWAP_BASE_INPUT, addresses.WSOL_MINT, SOL, 1),
        made.swap(CpmmKind.SWAP_BASE_INPUT, made.mint, 10**11, 1),
    ]
    pad.local.beat()
    found = called(pad, pad.transaction(route_instruction(legs)))
    assert [program for program, depth in found if depth == 2] == [addresses.SYSTEM_PROGRAM, CPMM, CPMM]
    assert pad.lamports(stranger) == SOL


def test_a_leg_that_fails_undoes_the_whole_route(pad: Pad) -> None:
    """With the error of the leg; so does a leg with accounts that the transaction does not let it write, and data that
    is no route."""
    mint = pad.coin()
    good, bad = pad.trade(mint, Kind.BUY_EXACT_SOL_IN, SOL, 1), pad.trade(mint, Kind.BUY, 10**12, 1)
    assert pad.error(route_instruction([good, bad])) == 6002
    readonly = Instruction(
        good.program_id, good.data, [AccountMeta(m.pubkey, m.is_signer, False) for m in good.accounts]
    )
    assert pad.error(route_instruction([readonly])) == 2000
    route = route_instruction([good])
    assert pad.error(Instruction(ROUTER, b"not a route", route.accounts)) == 101
    assert pad.error(Instruction(ROUTER, bytes(route.data)[:-1], route.accounts)) == 102
    assert pad.error(Instruction(ROUTER, route.data, route.accounts[:5])) == 3005
