from dataclasses import replace

from solders.pubkey import Pubkey

from actors.launch_programs.addresses import USDC_MINT
from actors.launch_programs.curve_account import BondingCurve
from devnode.launchpad.payments import Bill

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


def test_each_receiver_is_paid_once_in_the_order_of_the_chain() -> None:
    """The order in samples of the chain is creator, curve, buyback, protocol."""
    paid = BILL.receivers()
    assert [name for name, _ in paid] == ["creator_vault", "bonding_curve", "buyback", "fee_recipient"]
    assert sum(amount for _, amount in paid) == 1_000 + 30 + 47 + 48
    assert BILL.in_sol and not replace(BILL, curve=replace(CURVE, quote_mint=USDC_MINT)).in_sol


def test_v3_keeps_fees_in_the_buckets_of_the_curve() -> None:
    """v3 pays out only the buyback share."""
    kept = replace(BILL, keeps_fees=True)
    assert dict(kept.receivers()) == {"bonding_curve": 1_078, "buyback": 47}
    after = kept.with_buckets(CURVE)
    assert (after.creator_fee_bucket, after.protocol_fee_bucket) == (35, 54)
    assert BILL.with_buckets(CURVE) == CURVE
