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
    """Return the Ray actor name of the owner with this index. With "": the prefix of all these names."""
    return f"account-shard-{index}"


Value = TypeVar("Value")


class OwnerReply(Growing, Generic[Value], frozen=True):
    """An owner's reply to a command. value: None only when the command was refused. refusal: name of an Err, else None.
    detail: one sentence for the client. figures: of the account, for the headers of a response."""

    value: Value | None = None
    refusal: str | None = None
    detail: str = ""
    figures: Figures | None = None
    elsewhere: bytes = b""  # Set when another owner has the account of the key: the caller should ask that owner.
    moved: bool = False  # True: nothing was done, because this owner does not have the shard.
    kept_from_ms: int = 0  # For a listing of the ledger: entries before this time were detached; 0: none were.


def refused(err: Err, detail: str = "") -> OwnerReply[Any]:
    return OwnerReply(refusal=err.name, detail=detail)


# --- values of replies --------------------------------------------------------------------------------------------


class AccountState(Growing, frozen=True):
    """The account as its customer and operators see it. in_day, hour_credits: credits spent in the last 24 whole hours
    and in this hour, where known."""

    pubkey: bytes
    balance: int
    status: str
    total_consumed: int
    created_at: int  # Unix seconds.
    requests_per_second: int
    concurrency: int
    last_deposit: Deposit | None
    batches: tuple[Batch, ...]  # Ordered by expiry; BATCHES_TOLD_MAX at most.
    in_day: int | None = None
    hour_credits: int | None = None
    price_list: str = ""  # Name of its price list; empty: the public prices.


class Identity(Growing, frozen=True):
    """Whom a proof speaks for. balance None: this wallet has no account yet. key: number of the named key that was
    presented; 0: none. may_read: whether the account's pages may be shown. price_list: of the account."""

    pubkey: bytes
    balance: int | None
    key: int = 0
    may_read: bool = True
    price_list: str = ""


class AccountStanding(Growing, frozen=True):
    """Whether an account may keep its streams open.

    balance: including held credits; available: without them. key: number of the named key that asks; both figures are
    then at most what its budgets leave. is_stopped: the hourly limit stopped the account."""

    pubkey: bytes
    balance: int
    is_active: bool
    available: int = 0
    key: int = 0
    is_stopped: bool = False


class Adjustment(msgspec.Struct, frozen=True):
    """Result of an adjustment. amount: credits actually moved; a removal may move fewer than asked. opened: the account
    was opened by this command."""

    pubkey: bytes
    amount: int
    balance: int
    already_applied: bool
    opened: bool = False


class DepositReceipt(msgspec.Struct, frozen=True):
    """Outcome of crediting one transfer. pubkey: the account that was credited. credits: its worth, bonus included.
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
    """Outcome for a transaction that a customer reported. new_balance, credits_added: of the customer. credited_to:
    other accounts that the transaction credited."""

    credits_added: int
    new_balance: int
    already_processed: bool
    credited_to: tuple[bytes, ...] = ()


class ReferralState(msgspec.Struct, frozen=True):
    """State of a referral code. accounts: how many accounts linked it; None: not counted."""

    referral: Referral
    accounts: int | None


# --- commands -----------------------------------------------------------------------------------------------------


class Command(msgspec.Struct, Generic[Value], frozen=True):
    """A request to one owner. Value: the type of the reply's value."""


class ByProof(Command[Value], Generic[Value], frozen=True):
    """A command for the account that a credential speaks for. The nonce of a wallet's proof is taken."""

    proof: Proof


class OfAccount(Command[Value], Generic[Value], frozen=True):
    """A command about a named account. The caller has checked that the command is allowed."""

    pubkey: bytes


class ReadAccount(Growing, ByProof[AccountState], frozen=True):  # GET /account/info.
    with_runway: bool = False


class ReadLedger(Growing, ByProof[tuple[LedgerLine, ...]], frozen=True):
    """GET /account/ledger, newest first; with debits_only GET /account/history."""

    offset: int
    limit: int
    debits_only: bool = False
    filter: LedgerFilter | None = None  # None: the request came from release 0.1.0, which has no filter.


class ReadUsage(ByProof[tuple[UsageLine, ...]], frozen=True):
    """GET /account/usage: the hours from first_hour to before end_hour, counted from 1970. Rows are in no order."""

    first_hour: int
    end_hour: int
    by: tuple[str, ...]


class Identify(ByProof[Identity], frozen=True):
    """Name the account of a credential, for requests that are not calls."""


class ReadStanding(Growing, ByProof[AccountStanding], frozen=True):
    """Check a credential, and return the standing of its account. Refused with AUTH_FAILED or PAYMENT_REQUIRED. uses:
    True: as for a request, take the wallet's nonce or prolong the session. False: change nothing, so that an open
    socket, checked every second, prolongs no session; the proof is then not a wallet's. open_under: number of the named
    key that a stream was opened under; its client address was checked then, and is not checked again."""

    uses: bool = False
    open_under: int = 0


class IssueKey(ByProof[str], frozen=True):
    """POST /account/api-key: replaces the account's key and opens the account where there is none. Value: the key.
    Refuses any proof but a wallet's."""

    ref_code: str | None = None


class CloseSession(ByProof[bool], frozen=True):
    """POST /auth/logout. Refuses any proof but a session's. Value: True."""


class OpenSession(OfAccount[str], frozen=True):
    """POST /auth/verify, after the door has verified the signature of a live challenge. Value: the bearer token. Takes
    the challenge like a nonce: AUTH_FAILED when it was used before. issued_at: Unix seconds."""

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
    """Operator: set the account's API key to a legacy key, of which only the hash and the first characters are
    given."""

    key_hash: bytes
    key_prefix: str


class SetLimits(OfAccount[AccountState], frozen=True):
    """Operator: set the limits of this account. None: the default from now on; UNSET: unchanged."""

    requests_per_second: int | msgspec.UnsetType | None
    concurrency: int | msgspec.UnsetType | None


class PaidTransfer(msgspec.Struct, frozen=True):
    """A token transfer to the deposit account."""

    signature: bytes  # Signature of the transaction, 64 bytes.
    index: int  # Index of the transfer in its transaction (numbered in deposits/usdc/transfers.py).
    base_units: int  # Amount in base units of USDC.
    slot: int


class CreditDeposit(OfAccount[DepositReceipt], frozen=True):
    """Turn a transfer into credits, with the bonus of a linked referral code; opens the account when there is none. A
    transfer, named by (signature, index), is credited once for ever, among all accounts; durable when the reply
    arrives. INVALID_REQUEST: the transfer is worth less than one credit."""

    transfer: PaidTransfer


class AssignDeposit(OfAccount[DepositReceipt], frozen=True):
    """Operator: as CreditDeposit, for a transfer that names no wallet; an `adjustment`, without a bonus."""

    transfer: PaidTransfer
    reason: str


class TakeBackDeposit(OfAccount[int], frozen=True):
    """Take the credits of a payment that can never become final (an `adjustment`), at most what is available. Value:
    the credits taken back. The rest is recorded as uncollected. Idempotent; a deposit that was taken back is never
    credited again by itself. ACCOUNT_NOT_FOUND: this account was never credited with it."""

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
    """Operator: stop new accounts from linking this code; accounts that have linked it keep their bonus."""

    code: str


class ListReferrals(Command[tuple[ReferralState, ...]], frozen=True):
    """Operator: all codes."""


def shard_of_command(command: Command[Any]) -> VirtualShard | None:
    """Return the virtual shard whose owner carries this command out.

    None: any owner can, because referral codes belong to no account."""
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
        """As `ask`, for several commands, with one message to each owner. Commands of one account keep their order.
        Raises nothing: commands to an owner that does not answer are refused with SERVICE_TEMPORARILY_UNAVAILABLE."""
        ...


class AccountsClient(OwnersClient, Protocol):
    """Routes each request to the owner of its account. Tests implement it in-process, the product over Ray."""

    async def hold(self, request: HoldRequest) -> HoldReply:
        """Admit one call or batch. Raises OwnerUnavailable when the owner cannot be reached in time."""
        ...

    async def settle(self, request: SettleRequest) -> SettleReply:
        """Post or release; for a post, returns when it is durable. Raises OwnerUnavailable when that stays unknown."""
        ...

    async def charge(self, request: ChargeRequest) -> ChargeReply:
        """Hold and settle at once, for an answer that already exists. Raises OwnerUnavailable: then void the
        operation."""
        ...

    async def stream_time(self, request: StreamTime) -> StreamTimeReply:
        """Take or leave the unpaid time of streams. Raises OwnerUnavailable; the owner may have done it."""
        ...

    def void(self, request: SettleRequest) -> None:
        """Void this operation in the background, retrying until it succeeds: it must cost nothing, because its answer
        could not leave. `charged` is ignored. A hold is released; a posted operation is refunded once."""
        ...

    def may_leave(self, charge: SettleRequest) -> bool:
        """Return whether the owner still counts on this replica to deliver the answer of this operation.

        Ask just before the answer leaves. False: call `confirm`, and send the answer only if that returns True."""
        ...

    async def confirm(self, charge: SettleRequest) -> bool:
        """Ask the owner whether this posted operation stays charged. False: it does not, or the owner cannot say; the
        answer must not leave, and the operation must be voided. After True the answer must leave at once."""
        ...

    def delivered(self, pubkey: bytes, operation: bytes) -> None:
        """Report, in the background and several together, that the answer of this posted operation has left.

        If a replica dies before its report, delivery is in doubt, and the owner refunds the charge (money rule 2)."""
        ...


class OwnerUnavailable(AskAgain):
    """The account's owner did not answer in time. Nothing may be served without it (money rule 9)."""


# Sent only by replicas of this release, which start after the owners of 0.1.0 were replaced.
CHARGE = MessageKind(8, ChargeRequest, ChargeReply)
HOLD = MessageKind(1, HoldRequest, HoldReply)
SETTLE = MessageKind(2, SettleRequest, SettleReply)
VOID = MessageKind(3, SettleRequest, SettleReply)
DELIVERED = MessageKind(4, DeliveredNotice, Noted, is_notice=True)
UNDELIVERED = MessageKind(5, UndeliveredNotice, Noted)
STREAM_TIME = MessageKind(7, StreamTime, StreamTimeReply)
LINK_KINDS = (HOLD, SETTLE, VOID, DELIVERED, UNDELIVERED, STREAM_TIME, CHARGE)
