from dataclasses import replace

from solders.pubkey import Pubkey

from actors.devnode.launchpad.payments import Bill
from actors.launch_programs.addresses import USDC_MINT
from actors.launch_programs.curve_account import BondingCurve

CURVE = BondingCurve(1, 1, 1, 1, 1, creator_fee_bucket=5, protocol_fee_bucket=6)
BILL = Bill(
    keys={"user": Pubkey.default()},
    curve=CURVE,
    quote_decimals=9,
    to_curve=1_000,
    to_user=0,
    creator=30,
    buyback=47,
    protocol=48,
    keeps_fees=False,
    may_create_accounts=True,
)


def test_everybody_is_paid_once_and_in_the_chains_order() -> None:
    """Creator, curve, buyback, protocol: what the samples of the chain show."""
    paid = BILL.receivers()
    assert [name for name, _ in paid] == ["creator_vault", "bonding_curve", "buyback", "fee_recipient"]
    assert sum(amount for _, amount in paid) == 1_000 + 30 + 47 + 48
    assert BILL.in_sol and not replace(BILL, curve=replace(CURVE, quote_mint=USDC_MINT)).in_sol


def test_fees_that_are_kept_stay_on_the_curve_and_in_its_buckets() -> None:
    """The third family pays out the buyback share alone."""
    kept = replace(BILL, keeps_fees=True)
    assert dict(kept.receivers()) == {"bonding_curve": 1_078, "buyback": 47}
    after = kept.with_buckets(CURVE)
    assert (after.creator_fee_bucket, after.protocol_fee_bucket) == (35, 54)
    assert BILL.with_buckets(CURVE) == CURVE
