import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from devnode.block_engine.auction import (
    WINDOW_SLOTS,
    Failed,
    Rehearsed,
    TipWindow,
    land,
    percentile,
    refusal,
    rehearse,
    tip_lamports,
)
from devnode.block_engine.bundles import BundleRefusal
from devnode.encoding.addresses import TIP_ACCOUNTS
from devnode.records.records import Block, TransactionMeta, TransactionRecord

from .conftest import Engine, bundle

TIP = str(TIP_ACCOUNTS[3])


def meta(before: tuple[int, ...], after: tuple[int, ...], err: object = None) -> TransactionMeta:
    return TransactionMeta(
        err=err,
        fee_lamports=5_000,
        compute_units=0,
        pre_lamports=before,
        post_lamports=after,
        pre_tokens=(),
        post_tokens=(),
        inner=(),
        logs=(),
        loaded_writable=(),
        loaded_readonly=(),
    )


def block(slot: int, *tips: int) -> Block:
    records = tuple(
        TransactionRecord(
            slot=slot,
            position=position,
            signature=str(position),
            raw=b"",
            keys=("payer", TIP),
            meta=meta((10**9, 5), (10**9 - tip, 5 + tip)),
            compute_unit_price=0,
            write_locked=(),
        )
        for position, tip in enumerate(tips)
    )
    return Block(slot, slot - 1, slot, "", "", 0, records)


def test_a_tip_is_the_gain_of_all_tip_accounts() -> None:
    """The instruction does not matter; a failed transaction has no tip."""
    keys = ("payer", TIP, str(TIP_ACCOUNTS[0]), "other")
    assert tip_lamports(keys, meta((100, 5, 5, 5), (0, 15, 25, 75))) == 30
    assert tip_lamports(keys, meta((100, 5, 5, 5), (0, 15, 25, 75), err="AccountInUse")) == 0
    assert tip_lamports(keys, meta((100, 5, 5, 5), (110, 0, 0, 5))) == 0
    assert tip_lamports(("payer", "other"), meta((5, 5), (0, 10))) == 0


def test_without_tips_the_floor_is_zero() -> None:
    window = TipWindow()
    window.observe(block(1))
    assert set(window.floor().values()) == {0}


def test_the_floor_is_in_sol() -> None:
    """The fields have the engine's names; transactions without a tip do not count."""
    window = TipWindow()
    window.observe(block(1, *range(1_000, 101_000 + 1, 1_000), 0))
    assert window.floor() == pytest.approx(
        {
            "landed_tips_25th_percentile": 26_000e-9,
            "landed_tips_50th_percentile": 51_000e-9,
            "landed_tips_75th_percentile": 76_000e-9,
            "landed_tips_95th_percentile": 96_000e-9,
            "landed_tips_99th_percentile": 100_000e-9,
            "ema_landed_tips_50th_percentile": 51_000e-9,
        }
    )


def test_old_tips_leave_the_window_and_the_average_follows() -> None:
    window = TipWindow()
    window.observe(block(1, 1_000))
    window.observe(block(2 + WINDOW_SLOTS, 2_000))
    floor = window.floor()
    assert floor["landed_tips_50th_percentile"] == pytest.approx(2_000e-9)
    assert floor["ema_landed_tips_50th_percentile"] == pytest.approx(1_100e-9)


@given(st.lists(st.integers(0, 10**12), min_size=1), st.integers(0, 100))
def test_a_percentile_lies_within_and_grows_with_its_rank(values: list[int], rank: int) -> None:
    ascending = sorted(values)
    found = percentile(ascending, rank)
    assert ascending[0] <= found <= ascending[-1]
    assert percentile(ascending, 0) == ascending[0] and percentile(ascending, 100) == ascending[-1]
    assert rank == 100 or found <= percentile(ascending, rank + 1) * (1 + 1e-12)


def test_a_bundle_lands_in_order_in_one_slot(engine: Engine) -> None:
    """Each transaction sees the changes of the one before: the second spends lamports that the first transferred."""
    chain = engine.local.chain
    payer, middle, last = engine.local.wallet(), Keypair(), Pubkey.new_unique()
    first, second = engine.pay(payer, 9_000_000, middle.pubkey()), engine.pay(middle, 2_000_000, last)
    result = land(chain, bundle(first, second, engine.tip(payer)))
    assert isinstance(result, tuple)
    assert [record.position for record in result] == [0, 1, 2]
    assert {record.slot for record in result} == {chain.levels.building.slot}
    account = chain.vm.account(last)
    assert account is not None and account.lamports == 2_000_000


def test_one_failure_keeps_the_whole_bundle_from_landing(engine: Engine) -> None:
    """There is no fee, no record and no changed account, also for the transactions that would succeed."""
    chain = engine.local.chain
    payer, to = engine.local.wallet(), Pubkey.new_unique()
    count = chain.transaction_count
    result = land(chain, bundle(engine.pay(payer, 5_000_000, to), engine.tip(payer), engine.pay(payer, 10**12)))
    assert isinstance(result, Failed) and "custom program error: 0x1" in result.reason
    account = chain.vm.account(payer.pubkey())
    assert account is not None and account.lamports == 10**9
    assert chain.vm.account(to) is None
    assert chain.transaction_count == count and list(chain.open_transactions()) == []


def test_a_tip_below_the_minimum_wins_no_auction(engine: Engine) -> None:
    payer, chain = engine.local.wallet(), engine.local.chain
    assert rehearse(chain, bundle(engine.tip(payer, 1_000))) == Rehearsed(1_000)
    assert rehearse(chain, bundle(engine.tip(payer, 600), engine.tip(payer, 400, account=1))) == Rehearsed(1_000)
    assert isinstance(land(chain, bundle(engine.tip(payer, 999))), Failed)


def test_a_bundle_with_an_absent_payer_fails(engine: Engine) -> None:
    """The runtime refuses such a transaction before any program runs."""
    payer = engine.local.wallet()
    result = land(engine.local.chain, bundle(engine.tip(payer), engine.pay(Keypair())))
    assert isinstance(result, Failed) and "no record of a prior credit" in result.reason


def test_expired_and_landed_transactions_are_refused(engine: Engine) -> None:
    payer, chain = engine.local.wallet(), engine.local.chain
    one, two = bundle(engine.tip(payer)), bundle(engine.tip(payer, 20_000))
    assert refusal(chain, one) is None
    assert isinstance(land(chain, one), tuple)
    assert refusal(chain, one) == BundleRefusal("bundle contains an already processed transaction")
    assert isinstance(land(chain, one), Failed)
    chain.expire_blockhashes()
    engine.local.beat()
    chain.expire_blockhashes()
    assert refusal(chain, two) == BundleRefusal("bundle contains an expired blockhash")
    assert isinstance(land(chain, two), Failed)
