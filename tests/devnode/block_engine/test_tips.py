import pytest
from hypothesis import given
from hypothesis import strategies as st

from devnode.block_engine.tips import WINDOW_SLOTS, TipWindow, percentile, tip_lamports
from devnode.encoding.addresses import TIP_ACCOUNTS
from devnode.records.records import Block, TransactionMeta, TransactionRecord

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
