"""What others may ask of the owner of an account, and the client they hold.

Implements: design, section 4; interface, "Account endpoints". No rules live here.
Hold and settle travel over the hot link (hotlink/); everything else is rare and uses ordinary actor calls.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from actors.calls import DeliveredNotice, HoldReply, HoldRequest, Noted, Proof, SettleReply, SettleRequest
from actors.hotlink.messages import AskAgain, MessageKind

SHARD_ACTOR_NAME = "account-shard-{index}"  # Name of the Ray actor that owns the virtual shards v with v % n == index.


class Answer(msgspec.Struct, frozen=True):
    """Of the rare requests. refusal: name of an Err, else None; detail: one sentence for the client.

    body: the JSON-ready reply, already in the interface's field names, when there is no refusal.
    figures: of the account, for the response headers, whenever the account is known.
    """

    refusal: str | None = None
    detail: str = ""
    body: dict[str, Any] | None = None
    credits_remaining: int | None = None
    rate_limit: int | None = None
    rate_remaining: int | None = None
    rate_reset: int | None = None


class DepositCredit(msgspec.Struct, frozen=True):
    """One token transfer to be turned into credits of the account of its authority."""

    signature: bytes  # 64 bytes, of the transaction.
    index: int  # Which transfer of its transaction (deposits/transfers.py numbers them).
    base_units: int  # Of USDC.
    slot: int


class AccountsClient(Protocol):
    """Routes each request to the owner of its account. The same in-process (tests) and over Ray."""

    async def hold(self, request: HoldRequest) -> HoldReply:
        """Admit one call or batch. Raises OwnerUnavailable when the owner cannot be reached in time."""
        ...

    async def settle(self, request: SettleRequest) -> SettleReply:
        """Post or release; for a post, returns when it is durable. Raises OwnerUnavailable when that stays unknown."""
        ...

    def void(self, request: SettleRequest) -> None:
        """In the background, until it succeeds: this operation must end costing nothing (charged is ignored).

        Used when an answer could not leave. Not posted: released. Already posted: a refund entry, once.
        """
        ...

    def may_leave(self, charge: SettleRequest) -> bool:
        """Whether the owner still counts on this edge to deliver the answer of this operation. Asked in the moment
        before the answer leaves. False: ask `confirm`, and let the answer leave only if that says yes."""
        ...

    async def confirm(self, charge: SettleRequest) -> bool:
        """Ask the owner whether this posted operation stays charged. False: it does not, or nobody can say; the answer
        must not leave, and the operation must be voided. The answer leaves at once after a yes."""
        ...

    def delivered(self, pubkey: bytes, operation: bytes) -> None:
        """The answer of this posted operation has left. Told to the owner in the background, several at once.

        An edge that dies before it said so leaves doubt, and the owner refunds the charge (money rule 2).
        """
        ...

    async def info(self, proof: Proof) -> Answer:
        """GET /account/info."""
        ...

    async def ledger(self, proof: Proof, offset: int, limit: int) -> Answer:
        """GET /account/ledger, newest first."""
        ...

    async def history(self, proof: Proof, offset: int, limit: int) -> Answer:
        """GET /account/history, newest first."""
        ...

    async def issue_key(self, proof: Proof, ref_code: str | None) -> Answer:
        """POST /account/api-key: creates the account when there is none; proof must be a WalletProof."""
        ...

    async def open_session(self, pubkey: bytes, challenge_id: bytes, issued_at: int) -> Answer:
        """POST /auth/verify, after the door verified the signature of a live challenge: takes it like a nonce, opens a
        session. issued_at: Unix seconds.

        Refuses with AUTH_FAILED when the challenge was used before. body: {token, expires_in}.
        """
        ...

    async def close_session(self, proof: Proof) -> Answer:
        """POST /auth/logout; proof must be a SessionProof."""
        ...

    async def adjust(self, pubkey: bytes, amount: int, reason: str, operation: str) -> Answer:
        """Operator: grant (amount above 0) or remove credits, at most what is available. Idempotent by operation."""
        ...

    async def identify(self, proof: Proof) -> Answer:
        """Who this is, for what is not a call. body: {pubkey, balance}; balance is null where there is no account,
        which only a wallet can be without. Takes the nonce."""
        ...

    async def credit_deposit(self, pubkey: bytes, credit: DepositCredit) -> Answer:
        """Turn a transfer into credits, with the bonus of a linked referral code; opens the account when there is none.

        Once for ever by (signature, index), among all accounts. Durable when it answers. body: {pubkey, credits,
        credits_added, new_balance, already_processed, taken_back}; credits is what the transfer is worth with its
        bonus, credits_added is 0 when it was processed before, and pubkey is then the account that has it; new_balance
        is 0 when that is another one. INVALID_REQUEST: worth less than one credit.
        """
        ...

    async def credit_deposits(self, wanted: Sequence[tuple[bytes, DepositCredit]]) -> list[Answer]:
        """As credit_deposit for each, in one message to each owner; those of one account in the order given. Raises
        nothing: an owner that does not answer refuses its own, with SERVICE_TEMPORARILY_UNAVAILABLE."""
        ...

    async def take_back_deposit(self, pubkey: bytes, signature: bytes, index: int, reason: str) -> Answer:
        """The payment behind credit_deposit can never become final: take its credits back (an `adjustment`), at most
        what is available; the rest is recorded as uncollected. Idempotent; a deposit that was taken back is never
        credited again by itself. body: {pubkey, taken, uncollected, new_balance, already_processed}.
        ACCOUNT_NOT_FOUND: this account was never credited with it.
        """
        ...

    async def assign_deposit(self, pubkey: bytes, credit: DepositCredit, reason: str) -> Answer:
        """Operator: as credit_deposit, for a transfer that names no wallet; an `adjustment`, without a bonus."""
        ...

    async def set_status(self, pubkey: bytes, status: str, reason: str) -> Answer:
        """Operator: `active` or `suspended`."""
        ...

    async def set_limits(self, pubkey: bytes, requests_per_second: int | None, concurrency: int | None) -> Answer:
        """Operator: per-account overrides; None goes back to the default."""
        ...


class OwnerUnavailable(AskAgain):
    """The owner of the account did not answer in time: nothing may be served on trust (money rule 9)."""


class WrongOwner(OwnerUnavailable):
    """The request was sent to an owner that does not have this account."""


HOLD = MessageKind(1, HoldRequest, HoldReply)
SETTLE = MessageKind(2, SettleRequest, SettleReply)
VOID = MessageKind(3, SettleRequest, SettleReply)
DELIVERED = MessageKind(4, DeliveredNotice, Noted)
LINK_KINDS = (HOLD, SETTLE, VOID, DELIVERED)
