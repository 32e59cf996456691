"""One transaction to its signals: every stored sample of the chain, every reading rule, any bytes."""

import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.signals.classify import FAMILIES, classify, observe
from actors.signals.observations import What
from actors.signals.transaction import SELF_CPI_PREFIX, Instruction, Transaction, key_text
from tests.signals import samples

EXAMPLES = int(os.environ.get("SIGNALS_FUZZ", "300"))  # SIGNALS_FUZZ=100000 is the long run.
_TEN_SOL = 10_000_000_000
_COMPARED = ("kind", "program", "mint", "curve_type", "complete", "is_buy", "sol_amount")


def _wanted(row: dict[str, Any]) -> dict[str, Any]:
    row = {"kind": row["kind"].replace("swap", "trade"), **{k: v for k, v in row.items() if k != "kind"}}
    wanted = {name: row[name] for name in _COMPARED if name in row}
    if row["kind"] == "newPair":
        wanted["quote_asset"] = row.get("quote_mint", row.get("quote_asset", "SOL"))
    return wanted


@pytest.mark.parametrize("name", samples.of_signals())
def test_a_sample_of_the_chain_gives_its_documented_result(name: str) -> None:
    """Facts: real launches, trades, graduations and negatives, in all encodings."""
    sample = samples.load(name)
    found = [samples.as_expected(seen) for seen in observe(samples.transaction(sample))]
    wanted = [_wanted(row) for row in sample["expected"]["signals"]]
    if name.startswith("negative"):  # Their small trades are below any threshold, so they are no signals.
        assert classify(samples.transaction(sample), large_swap_lamports=_TEN_SOL) == ()
        found = [row for row in found if row["kind"] != "trade"]
    assert [{key: got[key] for key in want} for got, want in zip(found, wanted, strict=True)] == wanted
    for got, row in zip(found, sample["expected"]["signals"], strict=True):
        named = [row[name] for name in ("pool", "curve", "bonding_curve", "user") if name in row]
        named += [row["event"][name] for name in ("bonding_curve", "user") if name in row.get("event", {})]
        assert set(named) <= set(got["accounts"])


def test_a_swap_of_amm_v4_tells_its_sol_side() -> None:
    """Amounts come from the token transfers inside the swap, at the trader's accounts."""
    sizes = {}
    for name in (
        "jeffro_raydiumLiquidityPoolV4_swap_0",
        "jeffro_raydiumLiquidityPoolV4_swap_1",
        "raydium_ammv4_swaps_0",
    ):
        (seen,) = [one for one in observe(samples.transaction(samples.load(name))) if one.what is What.TRADED]
        sizes[name] = (seen.is_buy, seen.lamports)
    assert sizes["jeffro_raydiumLiquidityPoolV4_swap_1"] == (True, 100_000_000)
    assert sizes["raydium_ammv4_swaps_0"] == (True, 100_000_000)
    is_buy, lamports = sizes["jeffro_raydiumLiquidityPoolV4_swap_0"]
    assert is_buy is False and lamports is not None and lamports > 0


def test_a_failed_transaction_has_no_signals() -> None:
    """A failed launch has the same instructions and logs as one that worked."""
    transaction = samples.transaction(samples.load("pump_ix_create"))
    failed = samples.of_instructions(transaction.instructions, failed=True)
    wallets = set(failed.keys)
    assert classify(transaction, large_swap_lamports=1)
    assert classify(failed, large_swap_lamports=1, watched_wallets=wallets) == ()


def test_trades_below_the_threshold_are_no_signals() -> None:
    transaction = samples.transaction(samples.load("jeffro_pumpfun_buy_0"))
    (large,) = classify(transaction, large_swap_lamports=3_000_000_000)
    assert (large.kind, large.lamports) == ("largeSwap", 3_000_000_000)
    assert classify(transaction, large_swap_lamports=3_000_000_001) == ()


def test_one_transaction_names_a_kind_and_coin_once() -> None:
    """Decisions, "one signal": four buys of one coin in one transaction are one largeSwap, the largest of them."""
    transaction = samples.transaction(samples.load("jeffro_pumpfun_buy_bundle"))
    trades = [seen.lamports or 0 for seen in observe(transaction)]
    assert len(trades) > 1
    (large,) = classify(transaction, large_swap_lamports=1)
    assert large.lamports == max(trades)


def test_a_watched_wallet_that_a_transaction_names_is_one_signal() -> None:
    """Decisions, "watched wallets": only wallets that somebody watches; the coin whose balance changed is the mint."""
    sample = samples.load("jeffro_pumpfun_buy_0")
    transaction = samples.transaction(sample)
    user = sample["expected"]["signals"][0]["user"]
    wallet = next(key for key in transaction.keys if key_text(key) == user)
    assert all(one.kind != "walletActivity" for one in classify(transaction, large_swap_lamports=1))
    events = classify(transaction, large_swap_lamports=1 << 62, watched_wallets={wallet, bytes(32)})
    activity = next(one for one in events if one.kind == "walletActivity")
    assert user in activity.wallets
    assert activity.program == sample["expected"]["signals"][0]["program"]
    assert activity.mint == sample["expected"]["signals"][0]["mint"]


def test_programs_of_another_classifier_are_left_to_it() -> None:
    """Partitions by program: together they give every signal once."""
    transaction = samples.transaction(samples.load("jeffro_pumpfun_create_0"))
    parts = [classify(transaction, large_swap_lamports=1, programs={program}) for program in FAMILIES]
    whole = classify(transaction, large_swap_lamports=1)
    assert sorted(one.identity for part in parts for one in part) == sorted(one.identity for one in whole)


_keys = st.sampled_from([*FAMILIES, *(bytes([n]) * 32 for n in range(6))])
_starts = st.sampled_from([SELF_CPI_PREFIX, *(start for readers in FAMILIES.values() for start in readers)])
_data = st.one_of(
    st.binary(max_size=300),
    st.builds(lambda start, rest: start + rest, _starts, st.binary(max_size=420)),
    st.builds(lambda event, rest: SELF_CPI_PREFIX + event + rest, _starts, st.binary(max_size=420)),
)
_instructions = st.builds(
    Instruction,
    _keys,
    st.lists(st.one_of(_keys, st.none()), max_size=30).map(tuple),
    _data,
    st.integers(0, 3),
    st.integers(0, 5),
)


@settings(max_examples=EXAMPLES)
@given(
    instructions=st.lists(_instructions, max_size=8),
    mints=st.dictionaries(_keys, _keys, max_size=6),
    lamports=st.dictionaries(_keys, st.tuples(st.integers(0, 2**64), st.integers(0, 2**64)), max_size=4),
    threshold=st.integers(0, 2**64),
)
def test_any_bytes_give_signals_or_none(
    instructions: list[Instruction],
    mints: dict[bytes, bytes],
    lamports: dict[bytes, tuple[int, int]],
    threshold: int,
) -> None:
    """Threat 33: random accounts, data, lengths and depths are never an exception, and stay within the form."""
    keys = tuple(dict.fromkeys(key for one in instructions for key in one.accounts if key is not None))
    transaction = Transaction(
        samples.SIGNATURE,
        9,
        False,
        keys,
        1,
        tuple(instructions),
        mints,
        {keys[0]: frozenset(keys)} if keys else {},
        lamports,
    )
    found = classify(transaction, large_swap_lamports=threshold, watched_wallets=set(keys[:2]))
    assert len({one.identity for one in found}) == len(found)
    for one in found:
        assert one.lamports is None or one.lamports >= threshold
        assert one.kind != "newPair" or one.complete in (False, None)
