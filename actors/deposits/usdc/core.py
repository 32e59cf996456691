"""The outcome of each transfer of one transaction: credited, listed for the operator, or ignored.

Implements: interface, "Minimum deposit" and attribution to the transfer authority; threat 23; money
rule 4.
Pure. The balance of the deposit account decides: when it grew by less than the transfers say, all of them are listed
and none earns credits; when it grew by more, the rest is listed.

Choices where the interface is silent. The minimum applies to the sum of what one authority sends in one transaction. An
authority that did not sign is a program's own address or a multisig. No client can sign in with it, so its transfers
are listed. Transfers that the deposit wallet itself sends are listed too.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum, unique
from typing import Any

from actors.accounts.api import DepositConfirmation
from actors.deposits.usdc.transfers import DepositAccount, Executed, Transfer, Unreadable, failure_of, read
from actors.errors import Refusal

AMOUNT_MAX = 10**17  # Base units: more USDC than exists, and within the range of the ledger's numbers.
REMAINDER_INDEX = 2**32 - 1  # Index of a finding that is not about a transfer; no transfer has it.


@unique
class FindingStatus(IntEnum):
    """The outcome that a finding records. The numbers are stored in the database."""

    CREDITED = 0
    LISTED = 1  # The operator may assign it.
    ASSIGNED = 2
    IGNORED = 3  # It brought nothing to the deposit account.


@unique
class Reason(StrEnum):
    NONE = ""
    BELOW_MINIMUM = "below_minimum"
    BELOW_ONE_CREDIT = "below_one_credit"
    NO_WALLET = "no_wallet"
    OWN_WALLET = "own_wallet"
    NO_TRANSFER = "no_transfer"  # The balance grew without a transfer.
    BALANCE_DIFFERS = "balance_differs"
    TAKEN_BACK = "taken_back"  # Credited before it was final, taken back, and final after all.
    GONE = "gone"  # The node removed the transaction before it was read.
    UNREADABLE = "unreadable"
    FAILED = "failed"
    NOTHING_CAME = "nothing_came"


WORDS: dict[str, str] = {
    Reason.BELOW_MINIMUM: "the amount is below the minimum deposit",
    Reason.BELOW_ONE_CREDIT: "the amount is worth less than one credit",
    Reason.NO_WALLET: "the transfer's authority is no wallet that could sign in (a program's address or a multisig)",
    Reason.OWN_WALLET: "the deposit wallet itself sent it",
    Reason.NO_TRANSFER: "the balance grew without a transfer, so the sender is not known",
    Reason.BALANCE_DIFFERS: "the deposit account's balance grew by less than the transfers say",
    Reason.TAKEN_BACK: "it was credited before it was final, taken back, and became final after all",
    Reason.GONE: "the node no longer has this transaction",
    Reason.UNREADABLE: "the node's answer about this transaction cannot be read",
    Reason.FAILED: "the transaction failed on chain",
    Reason.NOTHING_CAME: "the transaction brings nothing to the deposit account",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one transfer, or of one transaction without transfers (index REMAINDER_INDEX)."""

    signature: bytes
    index: int
    slot: int
    block_time: int | None
    status: FindingStatus
    reason: Reason
    amount: int  # Base units.
    source: str = ""
    authority: str = ""
    pubkey: bytes | None = None  # The credited account.
    credits: int = 0  # Including the bonus.
    note: str = ""  # The operator's reason.


@dataclass(frozen=True, slots=True)
class Judgment:
    creditable: tuple[Transfer, ...]
    findings: tuple[Finding, ...]  # Everything else in the transaction.


def judge(transaction: Mapping[str, Any], signature: bytes, account: DepositAccount, minimum: int) -> Judgment:
    """Judge one finalized transaction, a getTransaction result. Never raises: an unreadable one is listed."""
    slot = transaction.get("slot")
    place = slot if isinstance(slot, int) and slot >= 0 else 0
    try:
        if failure_of(transaction) is not None:
            return _only(signature, place, transaction.get("blockTime"), FindingStatus.IGNORED, Reason.FAILED)
        executed = read(transaction, account)
    except Unreadable:
        return _only(signature, place, None, FindingStatus.LISTED, Reason.UNREADABLE)
    return _judge(executed, signature, account, minimum)


def gone(signature: bytes, slot: int) -> Judgment:
    """Return the judgment on a transaction that the node listed earlier and no longer has."""
    return _only(signature, slot, None, FindingStatus.LISTED, Reason.GONE)


def failed(signature: bytes, slot: int, block_time: int | None) -> Judgment:
    """Return the judgment on a transaction that failed according to the node's list."""
    return _only(signature, slot, block_time, FindingStatus.IGNORED, Reason.FAILED)


def finding_of(
    transfer: Transfer,
    signature: bytes,
    executed_slot: int,
    block_time: int | None,
    status: FindingStatus,
    reason: Reason,
) -> Finding:
    return Finding(
        signature,
        transfer.index,
        executed_slot,
        block_time,
        status,
        reason,
        transfer.amount,
        transfer.source,
        transfer.authority,
    )


def _only(
    signature: bytes, slot: int, block_time: int | None, status: FindingStatus, reason: Reason, amount: int = 0
) -> Judgment:
    return Judgment((), (Finding(signature, REMAINDER_INDEX, slot, block_time, status, reason, amount),))


def _judge(executed: Executed, signature: bytes, account: DepositAccount, minimum: int) -> Judgment:
    slot, block_time = executed.slot, executed.block_time
    incoming = [each for each in executed.transfers if each.source != account.address and each.amount > 0]
    brought = sum(each.amount for each in incoming)
    delta = executed.delta
    if max(brought, delta or 0) > AMOUNT_MAX:
        return _only(signature, slot, block_time, FindingStatus.LISTED, Reason.UNREADABLE)
    if not incoming and (delta is None or delta <= 0):
        return _only(signature, slot, block_time, FindingStatus.IGNORED, Reason.NOTHING_CAME)
    if delta is None or delta < brought:
        differing = (
            finding_of(each, signature, slot, block_time, FindingStatus.LISTED, Reason.BALANCE_DIFFERS)
            for each in incoming
        )
        return Judgment((), tuple(differing))
    by_authority: Counter[str] = Counter()
    for each in incoming:
        by_authority[each.authority] += each.amount
    creditable: list[Transfer] = []
    findings: list[Finding] = []
    for each in incoming:
        reason = _lack(each, by_authority[each.authority], account, minimum)
        if reason is Reason.NONE:
            creditable.append(each)
        else:
            findings.append(finding_of(each, signature, slot, block_time, FindingStatus.LISTED, reason))
    if delta > brought:
        rest = _only(signature, slot, block_time, FindingStatus.LISTED, Reason.NO_TRANSFER, delta - brought)
        findings.extend(rest.findings)
    return Judgment(tuple(creditable), tuple(findings))


def _lack(transfer: Transfer, sent: int, account: DepositAccount, minimum: int) -> Reason:
    if not transfer.is_wallet:
        return Reason.NO_WALLET
    if transfer.authority == account.wallet:
        return Reason.OWN_WALLET
    return Reason.BELOW_MINIMUM if sent < minimum else Reason.NONE


@dataclass(frozen=True, slots=True)
class Part:
    """The credits of one account from one transaction."""

    pubkey: bytes
    added: int
    balance: int | None  # None: nothing was added by this call, so the caller's earlier balance still holds.


Outcome = tuple[Part, ...] | Refusal


def confirmation(pubkey: bytes, balance: int | None, parts: Sequence[Part], looked: bool) -> DepositConfirmation:
    """Build the reply to a customer who reported a transaction: its credits and balance, and the names of others.

    pubkey, balance: of the customer, before the look-up. looked: this call looked the transaction up, rather than one
    that came at the same time.
    """
    mine = [part for part in parts if part.pubkey == pubkey]
    told = [part.balance for part in mine if part.balance is not None]
    return DepositConfirmation(
        credits_added=sum(part.added for part in mine),
        new_balance=told[-1] if told else balance or 0,
        already_processed=not (looked and any(part.added for part in parts)),
        credited_to=tuple(part.pubkey for part in parts if part.pubkey != pubkey),
    )
