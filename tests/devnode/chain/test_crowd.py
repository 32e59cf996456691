"""The crowd competes for blocks and pays for them."""

from pathlib import Path
from statistics import mean

import pytest
from solders.compute_budget import set_compute_unit_price
from solders.pubkey import Pubkey

from devnode.chain.crowd import CrowdError, CrowdSettings, with_changes
from devnode.chain.submissions import Waiting
from devnode.execution.execution import with_lamports
from tests.devnode.leaders import LedNode
from tests.devnode.local_node import give


def blocks(led: LedNode, slots: int) -> list[list[int]]:
    """The prices that were paid in each of the next blocks."""
    found = []
    for _ in range(slots):
        slot = led.slot
        led.beat()
        stored = led.archive.block_transactions(slot)
        prices = [(one.meta.fee_lamports - 5_000) * 10**6 // 1_000_000 for one in stored]
        found.append(
            [price for price, one in zip(prices, stored, strict=True) if str(led.faucet.pubkey) not in one.keys]
        )
    return found


def test_blocks_are_as_full_as_the_load(led: LedNode) -> None:
    """Over many slots the crowd fills its share, in no block more than the limit, and more in some than in others."""
    led.node.crowd.settings = CrowdSettings(load=0.5, seed=3)
    counts = [len(prices) for prices in blocks(led, 150)]
    assert 0.4 < mean(counts) / 60 < 0.6 and max(counts) <= 60 and max(counts) > 1.3 * mean(counts)


def test_the_crowd_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    def made(folder: str, seed: int) -> list[list[int]]:
        led = LedNode(tmp_path / folder)
        led.node.crowd.settings = CrowdSettings(load=0.2, seed=seed)
        return blocks(led, 5)

    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir(), (tmp_path / "c").mkdir()
    assert made("a", 1) == made("b", 1) != made("c", 2)


def test_a_higher_fee_lands_sooner_in_the_crowd(led: LedNode) -> None:
    """With more demand than blocks can take, a price above the crowd's lands in the slot, a price below it does not."""
    led.node.crowd.settings = CrowdSettings(load=2.0, median_price=10_000)
    led.beat(3)
    payers = [led.wallet() for _ in range(2)]
    high, low = (
        led.signed(payer, set_compute_unit_price(price), give(payer, Pubkey.new_unique(), 2_000_000))
        for payer, price in zip(payers, (10**7, 10), strict=True)
    )
    assert led.take(high) == led.take(low) == Waiting()
    led.beat()
    assert led.has_landed(high)
    led.beat(20)
    assert not led.has_landed(low)
    led.node.crowd.settings = CrowdSettings()
    for _ in range(200):
        if led.has_landed(low):
            break
        led.beat()
    assert led.has_landed(low), "when the crowd has gone, what waits lands"


def test_the_prices_that_are_reported_are_those_that_were_paid(led: LedNode) -> None:
    """getRecentPrioritizationFees names the lowest price of each block; for a crowded account, the lowest there."""
    crowded = str(Pubkey.new_unique())
    led.node.crowd.settings = CrowdSettings(load=1.5)
    led.beat(4)  # Now all wallets of the crowd are funded; the faucet's transactions have prices too.
    led.node.crowd.settings = CrowdSettings(load=0.3, accounts=(crowded,), account_share=0.3, spread=0.5)
    first = led.slot
    paid = blocks(led, 8)[1:]
    told = {one["slot"]: one["prioritizationFee"] for one in led.call("getRecentPrioritizationFees")}
    assert [told[first + 1 + number] for number in range(len(paid))] == [min(prices) for prices in paid]
    there = {one["slot"]: one["prioritizationFee"] for one in led.call("getRecentPrioritizationFees", [crowded])}
    assert all(there[slot] >= told[slot] for slot in told) and any(there[slot] > told[slot] for slot in told)


def test_an_account_can_be_crowded_while_blocks_are_not(led: LedNode) -> None:
    crowded = Pubkey.new_unique()
    led.node.crowd.settings = CrowdSettings(load=0.9, accounts=(str(crowded),), account_share=1.0)
    led.beat(6)
    assert led.call("getSlot", {"commitment": "processed"}) == led.slot
    locked = [
        sum(str(crowded) in one.keys for one in led.archive.block_transactions(slot))
        for slot in range(led.slot - 5, led.slot)
    ]
    assert max(locked) <= 11, "12 M units, and each transaction asks for 1 M and counts its signature and locks too"


def test_a_faucet_without_funds_ends_the_crowd_and_not_the_chain(led: LedNode) -> None:
    faucet = led.faucet.pubkey
    drain = led.chain.vm.account(faucet)
    assert drain is not None
    led.chain.place(faucet, with_lamports(drain, 10**9))
    led.node.crowd.settings = CrowdSettings(load=0.5)
    slot = led.slot
    led.beat(3)
    landed = [one for each in range(slot, slot + 3) for one in led.archive.block_transactions(each)]
    assert led.slot == slot + 3 and all(str(faucet) in one.keys and one.meta.err is not None for one in landed)


def test_settings_are_changed_one_by_one_and_checked() -> None:
    settings = with_changes(CrowdSettings(), {"load": 0.9, "units": 500_000})
    assert (settings.load, settings.units) == (0.9, 500_000)
    assert with_changes(settings, {"load": None, "seed": 4}) == CrowdSettings(units=500_000, seed=4)
    for wrong in ({"load": -1}, {"units": "many"}, {"accounts": ["x"]}, {"size": 3}):
        with pytest.raises(CrowdError):
            with_changes(settings, wrong)
