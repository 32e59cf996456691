"""The labelled market: what it says of its transactions is what the chain has."""

from collections import Counter

import pytest

from actors.launch_programs import addresses
from actors.launch_programs.cpmm import CPMM
from actors.launch_programs.events import CompleteEvent, CompletePumpAmmMigrationEvent, CreateEvent, TradeEvent
from actors.launch_programs.pool_events import PoolBuyEvent, PoolSellEvent
from devnode.market.market import LabelledTransaction, Market, MarketError
from tests.devnode.pad import Pad, events

ACTIONS = 400


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pad, list[LabelledTransaction]]:
    """One market of a few hundred actions, a slot for every ten."""
    pad = Pad(tmp_path_factory.mktemp("market"))
    market = Market(pad.local.chain, pad.local.faucet, 7)
    found = []
    for _ in range(ACTIONS // 10):
        found += market.perform(10)
        pad.local.beat()
    return pad, found


def test_every_kind_of_transaction_occurs(played: tuple[Pad, list[LabelledTransaction]]) -> None:
    """A set without one of them could not show that a classifier knows it."""
    _, found = played
    actions = Counter(one.action for one in found)
    assert set(actions) == {
        *("creation", "curve_trade", "failure", "migration", "second_migration", "pool_trade", "other_pool"),
        *("other_swap", "payment"),
    }
    kinds = Counter((event.kind, event.program, event.stage) for one in found for event in one.expected)
    pump, amm, cpmm = str(addresses.PUMP), str(addresses.PUMP_AMM), str(CPMM)
    assert set(kinds) == {
        *(("newPair", pump, None), ("newPair", cpmm, None), ("swap", pump, None), ("swap", amm, None)),
        *(("swap", cpmm, None), ("graduation", pump, "complete"), ("graduation", pump, "migrated")),
    }
    routed = {event.program for one in found if one.routed for event in one.expected}
    assert routed == {pump, amm, cpmm}
    large = [event for one in found for event in one.expected if (event.lamports or 0) >= 10**10]
    assert {event.is_buy for event in large} == {True, False}
    assert {event.quote_asset for one in found for event in one.expected} > {"SOL"}


def test_labels_agree_with_the_programs_own_events(played: tuple[Pad, list[LabelledTransaction]]) -> None:
    """Amounts come from balances, so the events are a second opinion; what means nothing has no event."""
    pad, found = played
    for one in found:
        meta = landed(pad, one.signature)
        assert (meta.err is not None) == one.failed
        told = [] if one.failed else events(meta)
        expected = Counter((event.kind, event.stage) for event in one.expected if event.program != str(CPMM))
        seen = Counter(
            {CreateEvent: ("newPair", None), CompleteEvent: ("graduation", "complete")}.get(type(event))
            or {CompletePumpAmmMigrationEvent: ("graduation", "migrated")}.get(type(event))
            or ("swap", None)
            for event in told
            if isinstance(
                event,
                CreateEvent | CompleteEvent | CompletePumpAmmMigrationEvent | TradeEvent | PoolBuyEvent | PoolSellEvent,
            )
        )
        assert seen == expected, one
        for event in told:
            (swap,) = [label for label in one.expected if label.kind == "swap"] or (None,)
            if isinstance(event, TradeEvent):
                assert swap is not None and (swap.lamports, swap.is_buy) == (event.sol_amount, event.is_buy)
                assert swap.wallet == str(event.user)
            elif isinstance(event, PoolBuyEvent):
                assert swap is not None and (swap.lamports, swap.is_buy) == (event.user_quote_amount_in, True)
            elif isinstance(event, PoolSellEvent):
                assert swap is not None and (swap.lamports, swap.is_buy) == (event.user_quote_amount_out, False)


def landed(pad: Pad, signature: str) -> object:
    record = pad.local.archive.transaction(signature)
    assert record is not None, signature
    return record.meta


def test_a_seed_decides_and_is_used_once(pad: Pad) -> None:
    """The same actions on a chain of the same state; a second market of the seed is refused; another goes on."""
    chain, faucet = pad.local.chain, pad.local.faucet
    first = Market(chain, faucet, 3).perform(20)
    with pytest.raises(MarketError, match="seed 3 has been used"):
        Market(chain, faucet, 3)
    other = Market(chain, faucet, 4).perform(20)
    assert [one.action for one in first] != [one.action for one in other]


def test_two_chains_of_one_state_play_the_same_market(tmp_path_factory: pytest.TempPathFactory) -> None:
    """So that a failure found in one run is found again."""
    played = []
    for name in ("one", "two"):
        pad = Pad(tmp_path_factory.mktemp(name))
        played.append(
            [(one.action, one.routed, one.expected) for one in Market(pad.local.chain, pad.local.faucet, 9).perform(40)]
        )
    assert played[0] == played[1]
