"""Payments of a trade between the user, the curve, the creator's vault, the fee recipient and the buyback recipient.

Implements: lamports for SOL coins and token transfers for token quotes, in the order of the chain's samples; accounts
that the program creates or funds with the user's lamports; v3's buckets, where the fees of creator and protocol stay
on the curve until they are swept, while the buyback share is paid at once.
Changes the VM only. Not here: the amounts (trading.py).
"""

from dataclasses import dataclass, replace

from solders.instruction import Instruction
from solders.pubkey import Pubkey

from actors.launch_programs.accounts import Keys
from actors.launch_programs.curve_account import BondingCurve
from devnode.launchpad import calls
from devnode.launchpad.faults import Fault
from devnode.launchpad.stage import Stage


@dataclass(frozen=True, slots=True)
class Bill:
    """The payments of one trade, in quote units. to_curve is for buys, to_user for sales."""

    keys: Keys
    curve: BondingCurve
    quote_decimals: int
    to_curve: int
    to_user: int
    creator: int
    buyback: int
    protocol: int
    keeps_fees: bool
    may_create_accounts: bool

    @property
    def in_sol(self) -> bool:
        return self.curve.curve_type == "classic"

    def with_buckets(self, curve: BondingCurve) -> BondingCurve:
        if not self.keeps_fees:
            return curve
        return replace(
            curve,
            creator_fee_bucket=curve.creator_fee_bucket + self.creator,
            protocol_fee_bucket=curve.protocol_fee_bucket + self.protocol,
        )

    def receivers(self) -> tuple[tuple[str, int], ...]:
        """(Name of the receiver, amount), in the order of payment. Fees that are kept go to the curve."""
        if self.keeps_fees:
            return (("bonding_curve", self.to_curve + self.creator + self.protocol), ("buyback", self.buyback))
        return (
            ("creator_vault", self.creator),
            ("bonding_curve", self.to_curve),
            ("buyback", self.buyback),
            ("fee_recipient", self.protocol),
        )


def pay_buy(stage: Stage, bill: Bill) -> None:
    payments = [(name, amount) for name, amount in bill.receivers() if amount]
    if bill.in_sol:
        user = bill.keys["user"]
        transfers = [calls.transfer_lamports(user, bill.keys[name], amount) for name, amount in payments]
        stage.call(*_vault_rent(stage, bill), *transfers)
        return
    made = _token_accounts(stage, bill)
    source, authority = bill.keys["user_quote"], bill.keys["user"]
    if stage.account(source) is None:
        raise Fault.number(3012, "associated_quote_user")
    stage.call(*made, *(_tokens(bill, source, authority, name, amount) for name, amount in payments))


def pay_sale(stage: Stage, bill: Bill) -> None:
    curve = bill.keys["bonding_curve"]
    payments = [("user", bill.to_user), *(pair for pair in bill.receivers() if pair[0] != "bonding_curve")]
    if bill.in_sol:
        stage.move(curve, bill.keys["user"], bill.to_user)
        stage.call(*_vault_rent(stage, bill))
        for name, amount in payments[1:]:
            stage.move(curve, bill.keys[name], amount)
        return
    made = _token_accounts(stage, bill)
    if stage.account(bill.keys["user_quote"]) is None:
        raise Fault.number(3012, "associated_quote_user")
    source = bill.keys["curve_quote"]
    stage.call(*made, *(_tokens(bill, source, curve, name, amount) for name, amount in payments if amount))


def _vault_rent(stage: Stage, bill: Bill) -> list[Instruction]:
    """A transfer from the user for the missing rent of the creator's vault, if any is missing."""
    if not bill.creator or bill.keeps_fees:
        return []
    vault, floor = bill.keys["creator_vault"], stage.rent(0)
    held = stage.lamports(vault)
    return [] if held >= floor else [calls.transfer_lamports(bill.keys["user"], vault, floor - held)]


def _token_accounts(stage: Stage, bill: Bill) -> list[Instruction]:
    """Instructions that create missing token accounts of the receivers."""
    wanted = [name for name, amount in bill.receivers() if amount and name != "bonding_curve"]
    made = []
    for name in wanted:
        account = bill.keys[_account_of(name)]
        if stage.account(account) is not None:
            continue
        if not bill.may_create_accounts:
            raise Fault.number(3012, name)
        made.append(
            calls.create_token_account(
                bill.keys["user"], account, bill.keys[name], bill.keys["quote_mint"], bill.keys["quote_program"]
            )
        )
    return made


def _tokens(bill: Bill, source: Pubkey, authority: Pubkey, name: str, amount: int) -> Instruction:
    keys = bill.keys
    target = keys[_account_of(name)]
    return calls.transfer_tokens(
        keys["quote_program"], source, keys["quote_mint"], target, authority, amount, bill.quote_decimals
    )


def _account_of(name: str) -> str:
    return "curve_quote" if name == "bonding_curve" else f"{name}_quote"
