"""Launches, trades and graduations of the curve platform, made with its own encoders."""

from dataclasses import replace

import pytest
from solders.pubkey import Pubkey

from actors.launch_programs import events
from actors.launch_programs.instructions import Kind
from actors.signals.families import pump
from actors.signals.observations import SOL, WSOL, What
from actors.signals.transaction import Instruction, key_text
from tests.signals.made import emitted, key, numbered, seen

MINT, CURVE, USER = Pubkey(key(0)), Pubkey(key(2)), Pubkey(key(7))
CREATED = events.CreateEvent("a", "b", "c", MINT, CURVE, USER)
TRADED = events.TradeEvent(MINT, 4_000, 9, True, USER)


def _emit(event: events.Event) -> Instruction:
    return emitted(pump.PROGRAM, events.encode_event(event))


def test_a_launch_is_seen_once_by_its_event() -> None:
    """Reading rule: instruction and event of one launch are one launch, and the event's quote counts."""
    usdc = Pubkey(key(50))
    for kind, quote in ((Kind.CREATE, None), (Kind.CREATE_V2, None), (Kind.CREATE_V2, usdc)):
        event = replace(CREATED, quote_mint=quote) if quote else CREATED
        (found,) = seen(numbered(pump.PROGRAM, kind.discriminator), _emit(event))
        expected = (key_text(bytes(quote)), "v2") if quote else (SOL, "classic")
        assert (found.what, found.mint, found.quote_asset, found.curve_type) == (What.CREATED, bytes(MINT), *expected)
        assert found.complete is False
        assert found.accounts == (bytes(CURVE), bytes(MINT), bytes(USER))


def test_a_create_v2_without_event_does_not_guess_its_quote() -> None:
    """More accounts than 16 name a quote, but which one the curve stores only the event tells."""
    (plain,) = seen(numbered(pump.PROGRAM, Kind.CREATE_V2.discriminator, 16))
    (quoted,) = seen(numbered(pump.PROGRAM, Kind.CREATE_V2.discriminator, 19))
    assert (plain.quote_asset, plain.curve_type) == (SOL, "classic")
    assert (quoted.quote_asset, quoted.curve_type) == (None, None)


@pytest.mark.parametrize(
    ("event", "lamports"),
    [
        (TRADED, 4_000),
        (replace(TRADED, sol_amount=0, quote_mint=Pubkey(WSOL), quote_amount=55), 55),
        (replace(TRADED, sol_amount=0, quote_mint=Pubkey(key(50)), quote_amount=55), None),
    ],
)
def test_a_trade_has_a_size_in_sol_where_it_has_a_sol_side(event: events.TradeEvent, lamports: int | None) -> None:
    """Trap 11: sol_amount is 0 for a token quote."""
    (found,) = seen(numbered(pump.PROGRAM, Kind.BUY_V2.discriminator), _emit(event))
    assert (found.what, found.is_buy, found.lamports) == (What.TRADED, True, lamports)


def test_only_the_events_are_graduations() -> None:
    """Trap 8: migrate_v2 of a migrated coin succeeds and moves nothing; a change of the creator is no graduation."""
    migrate = numbered(pump.PROGRAM, Kind.MIGRATE_V2.discriminator)
    assert seen(migrate) == []
    assert seen(numbered(pump.PROGRAM, Kind.MIGRATE_BONDING_CURVE_CREATOR.discriminator)) == []
    done = events.CompletePumpAmmMigrationEvent(USER, MINT, 1, 2, 3, CURVE, 4, Pubkey(key(9)))
    (moved,) = seen(migrate, _emit(done))
    assert (moved.what, moved.mint, moved.complete) == (What.GRADUATED, bytes(MINT), True)
    full = seen(
        numbered(pump.PROGRAM, Kind.BUY.discriminator), _emit(TRADED), _emit(events.CompleteEvent(USER, MINT, CURVE))
    )
    assert [one.what for one in full] == [What.TRADED, What.GRADUATED]


def test_the_withdraw_of_2024_is_a_graduation_of_its_coin() -> None:
    (found,) = seen(numbered(pump.PROGRAM, Kind.WITHDRAW.discriminator))
    assert (found.what, found.mint) == (What.GRADUATED, key(2))
