"""What others may ask of the owner of an account, and the client they hold.

Implements: design, "One billed call"; interface, "Account endpoints". No rules live here.
Hold, settle, void, delivered and the time of streams travel over the hot link (hotlink/). All else is a command, which
the client passes to the owner by an ordinary actor call. To add one: its class here, its case in commands.py.
"""

from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from actors.accounts.account import Deposit
from actors.accounts.credits import Batch
from actors.accounts.listings import LedgerFilter, LedgerLine
from actors.accounts.referrals import Referral
from actors.accounts.usage import UsageLine
from actors.calls import (
    ChargeReply,
    ChargeRequest,
    DeliveredNotice,
    Figures,
    HoldReply,
    HoldRequest,
    Noted,
    Proof,
    SettleReply,
    SettleRequest,
    StreamTime,
    StreamTimeReply,
    UndeliveredNotice,
    shard_of_proof,
)
from actors.errors import Err
from actors.growing import Growing
from actors.hotlink.frames import AskAgain, MessageKind
from actors.units import VirtualShard, shard_of

OWNERS_MAX = 256  # The index of an owner is one byte in the table of all shards.


def owner_name(index: int | str) -> str:
    """Return the name of the Ray actor with this index among the owners; of "", what all names begin with."""
    return f"account-shard-{index}"


Value = TypeVar("Value")


class OwnerReply(Growing, Generic[Value], frozen=True):
    """value: None only when it was refused. refusal: name of an Err, else None. detail: one sentence for the client.
    figures: of the account, for the headers of a response."""

    value: Value | None = None
    refusal: str | None = None
    detail: str = ""
    figures: Figures | None = None
    elsewhere: bytes = b""  # The account of the key, when another owner has it: ask that one.
    moved: bool = False  # Nothing was done: this owner does not have the shard, or not any more.
    kept_from_ms: int = 0  # Of a listing of the ledger: entries before it were detached; 0: none were.


def refused(err: Err, detail: str = "") -> OwnerReply[Any]:
    return OwnerReply(refusal=err.name, detail=detail)


# --- values of replies --------------------------------------------------------------------------------------------


class AccountState(Growing, frozen=True):
    """As customer and operator see it. in_day, hour_credits: spent in 24 whole hours and in this one, where known."""

    pubkey: bytes
    balance: int
    status: str
    total_consumed: int
    created_at: int  # Unix seconds.
    requests_per_second: int
    concurrency: int
    last_deposit: Deposit | None
    batches: tuple[Batch, ...]  # The earliest expiry first, BATCHES_TOLD_MAX at most.
    in_day: int | None = None
    hour_credits: int | None = None
    price_list: str = ""  # By which it pays; empty: the public prices.


class Identity(Growing, frozen=True):
    """Whom a proof speaks for. balance None: this wallet has no account yet. key: number of the named key that was
    presented; 0: none was. may_read: whether pages of the account may be shown to it. price_list: of the account."""

    pubkey: bytes
    balance: int | None
    key: int = 0
    may_read: bool = True
    price_list: str = ""


class AccountStanding(Growing, frozen=True):
    """Whether an account may go on with what it has open. balance: with all that is held; available: without. key:
    number of the named key that asks; both are then at most what its budgets leave. is_stopped: by the hourly limit."""

    pubkey: bytes
    balance: int
    is_active: bool
    available: int = 0
    key: int = 0
    is_stopped: bool = False


class Adjustment(msgspec.Struct, frozen=True):
    """amount: credits that were really moved; a removal may move fewer. opened: there was no account before."""

    pubkey: bytes
    amount: int
    balance: int
    already_applied: bool
    opened: bool = False


class DepositReceipt(msgspec.Struct, frozen=True):
    """The outcome for one transfer. pubkey: the account that has its credits. credits: its worth, bonus included.
    new_balance: 0 when another account than the one asked about has the credits.
    """

    pubkey: bytes
    credits: int
    new_balance: int
    already_processed: bool
    taken_back: bool = False

    @property
    def credits_added(self) -> int:
        """Credits that this command added."""
        return 0 if self.already_processed else self.credits


class DepositConfirmation(msgspec.Struct, frozen=True):
    """What a transaction that a customer reported has brought. new_balance: of the customer, as are credits_added.
    credited_to: other accounts that the transaction has credited.
    """

    credits_added: int
    new_balance: int
    already_processed: bool
    credited_to: tuple[bytes, ...] = ()


class ReferralState(msgspec.Struct, frozen=True):
    """accounts: how many have this code; None: not counted."""

    referral: Referral
    accounts: int | None


# --- commands -----------------------------------------------------------------------------------------------------


class Command(msgspec.Struct, Generic[Value], frozen=True):
    """Asked of one owner. Value: the type of the reply's value."""


class ByProof(Command[Value], Generic[Value], frozen=True):
    """Asked for the account that a credential speaks for. A wallet's proof has its nonce taken."""

    proof: Proof


class OfAccount(Command[Value], Generic[Value], frozen=True):
    """Asked about a named account; the caller has made sure that it may."""

    pubkey: bytes


class ReadAccount(Growing, ByProof[AccountState], frozen=True):  # GET /account/info.
    with_runway: bool = False


class ReadLedger(Growing, ByProof[tuple[LedgerLine, ...]], frozen=True):
    """GET /account/ledger, newest first; with debits_only GET /account/history."""

    offset: int
    limit: int
    debits_only: bool = False
    filter: LedgerFilter | None = None  # None: an asker of release 0.1.0, which knows no details.


class ReadUsage(ByProof[tuple[UsageLine, ...]], frozen=True):
    """GET /account/usage: the hours from first_hour to before end_hour, counted from 1970. Rows are in no order."""

    first_hour: int
    end_hour: int
    by: tuple[str, ...]


class Identify(ByProof[Identity], frozen=True):
    """Name the account of a credential, for requests that are not calls."""


class ReadStanding(Growing, ByProof[AccountStanding], frozen=True):
    """Ask whether a credential is good, and how its account stands. Refused with AUTH_FAILED or PAYMENT_REQUIRED.

    uses: as a request does: a wallet's nonce is taken, a session's life slides. Else nothing changes, so an open socket
    that is checked every second prolongs no session; the proof is then no wallet's. open_under: number of the named key
    that a stream was opened under; the place that it comes from was judged then, and is not judged again.
    """

    uses: bool = False
    open_under: int = 0


class IssueKey(ByProof[str], frozen=True):
    """POST /account/api-key: replaces the account's key and opens the account where there is none. Value: the key.

    Refuses any proof but a wallet's.
    """

    ref_code: str | None = None


class CloseSession(ByProof[bool], frozen=True):
    """POST /auth/logout. Refuses any proof but a session's. Value: True."""


class OpenSession(OfAccount[str], frozen=True):
    """POST /auth/verify, after the door has verified the signature of a live challenge. Value: the bearer token.

    Takes the challenge like a nonce: AUTH_FAILED when it was used before. issued_at: Unix seconds.
    """

    challenge_id: bytes
    issued_at: int


class Describe(OfAccount[AccountState], frozen=True):
    """Operator: as ReadAccount, without a proof."""


class AdjustCredits(OfAccount[Adjustment], frozen=True):
    """Operator: grant (amount above 0) or remove credits, at most what is available. Idempotent by operation."""

    amount: int
    reason: str
    operation: str


class SetStatus(OfAccount[AccountState], frozen=True):
    """Operator: `active` or `suspended`."""

    status: str
    reason: str


class ImportKey(OfAccount[AccountState], frozen=True):
    """Operator: the account's key is from now on a legacy one, of which only hash and first characters are told."""

    key_hash: bytes
    key_prefix: str


class SetLimits(OfAccount[AccountState], frozen=True):
    """Operator: limits of this account alone. None: the default from now on; UNSET: stays as it is."""

    requests_per_second: int | msgspec.UnsetType | None
    concurrency: int | msgspec.UnsetType | None


class PaidTransfer(msgspec.Struct, frozen=True):
    """A token transfer to the deposit account."""

    signature: bytes  # 64 bytes, of the transaction.
    index: int  # Which transfer of its transaction (deposits/usdc/transfers.py numbers them).
    base_units: int  # Of USDC.
    slot: int


class CreditDeposit(OfAccount[DepositReceipt], frozen=True):
    """Turn a transfer into credits, with the bonus of a linked referral code; opens the account when there is none.

    Once for ever by (signature, index), among all accounts; durable when the reply arrives. INVALID_REQUEST: the
    transfer is worth less than one credit.
    """

    transfer: PaidTransfer


class AssignDeposit(OfAccount[DepositReceipt], frozen=True):
    """Operator: as CreditDeposit, for a transfer that names no wallet; an `adjustment`, without a bonus."""

    transfer: PaidTransfer
    reason: str


class TakeBackDeposit(OfAccount[int], frozen=True):
    """Take the credits of a payment that can never become final (an `adjustment`), at most what is available.
    Value: the credits taken back.

    The rest is recorded as uncollected. Idempotent; a deposit that was taken back is never credited again by itself.
    ACCOUNT_NOT_FOUND: this account was never credited with it.
    """

    signature: bytes
    index: int
    reason: str


class CreateReferral(Command[ReferralState], frozen=True):
    """Operator: make a referral code, which never changes. expires_at: Unix seconds, or None."""

    code: str
    bonus_bps: int
    expires_at: int | None
    note: str


class ExpireReferral(Command[ReferralState], frozen=True):
    """Operator: no new account can link this code; accounts that have it keep their bonus."""

    code: str


class ListReferrals(Command[tuple[ReferralState, ...]], frozen=True):
    """Operator: all codes."""


def shard_of_command(command: Command[Any]) -> VirtualShard | None:
    """Return the virtual shard whose owner carries this command out. None: any owner does, since referral codes are no
    account's."""
    if isinstance(command, ByProof):
        return shard_of_proof(command.proof)
    return shard_of(command.pubkey) if isinstance(command, OfAccount) else None


# --- the client ---------------------------------------------------------------------------------------------------


class OwnersClient(Protocol):
    """Routes each command to the owner that carries it out."""

    async def ask(self, command: Command[Value]) -> OwnerReply[Value]:
        """Have the owner carry one command out. Raises OwnerUnavailable; the command may have been carried out."""
        ...

    async def ask_many(self, commands: Sequence[Command[Value]]) -> list[OwnerReply[Value]]:
        """As `ask` for each, in one message to each owner; those of one account in the order given. Raises nothing:
        commands to an owner that does not answer are refused with SERVICE_TEMPORARILY_UNAVAILABLE."""
        ...


class AccountsClient(OwnersClient, Protocol):
    """Routes each request to the owner of its account. The same in-process (tests) and over Ray."""

    async def hold(self, request: HoldRequest) -> HoldReply:
        """Admit one call or batch. Raises OwnerUnavailable when the owner cannot be reached in time."""
        ...

    async def settle(self, request: SettleRequest) -> SettleReply:
        """Post or release; for a post, returns when it is durable. Raises OwnerUnavailable when that stays unknown."""
        ...

    async def charge(self, request: ChargeRequest) -> ChargeReply:
        """Hold and settle at once, for an answer that is there already. Raises OwnerUnavailable: void it then."""
        ...

    async def stream_time(self, request: StreamTime) -> StreamTimeReply:
        """Take or leave the unpaid time of streams. Raises OwnerUnavailable; the owner may have done it."""
        ...

    def void(self, request: SettleRequest) -> None:
        """In the background, until it succeeds: this operation must end costing nothing (charged is ignored), as its
        answer could not leave. Not posted: released. Already posted: a refund entry, once."""
        ...

    def may_leave(self, charge: SettleRequest) -> bool:
        """Whether the owner still counts on this replica to deliver the answer of this operation. Asked in the moment
        before the answer leaves. False: ask `confirm`, and let the answer leave only if that says yes."""
        ...

    async def confirm(self, charge: SettleRequest) -> bool:
        """Ask the owner whether this posted operation stays charged. False: it does not, or nobody can say; the answer
        must not leave, and the operation must be voided. The answer leaves at once after a yes."""
        ...

    def delivered(self, pubkey: bytes, operation: bytes) -> None:
        """The answer of this posted operation has left. Told in the background, several at once. A replica that dies
        before it said so leaves doubt, and the owner refunds the charge (money rule 2)."""
        ...


class OwnerUnavailable(AskAgain):
    """The account's owner did not answer in time: nothing may be served on trust (money rule 9)."""


CHARGE = MessageKind(8, ChargeRequest, ChargeReply)  # Replicas that send it have replaced the owners of 0.1.0 before.
HOLD = MessageKind(1, HoldRequest, HoldReply)
SETTLE = MessageKind(2, SettleRequest, SettleReply)
VOID = MessageKind(3, SettleRequest, SettleReply)
DELIVERED = MessageKind(4, DeliveredNotice, Noted, is_notice=True)
UNDELIVERED = MessageKind(5, UndeliveredNotice, Noted)
STREAM_TIME = MessageKind(7, StreamTime, StreamTimeReply)
LINK_KINDS = (HOLD, SETTLE, VOID, DELIVERED, UNDELIVERED, STREAM_TIME, CHARGE)
