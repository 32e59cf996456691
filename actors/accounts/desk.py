"""Everything that is asked of an account besides calls: reading it, its key, its sessions, and the operator's actions.

Implements: api.AccountsClient from `info` on; interface, "Account endpoints" and "States and transitions".
A shell, like actor.py: decisions are in core.py, shapes in endpoints.py. Whatever changes an account is durable before
the answer; whatever is read is at least as old as the answer says and durable too.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from actors.accounts import endpoints
from actors.accounts.account import Account, Defaults, MarkKind, Profile, ProfileSet, new_account
from actors.accounts.activations import Activations
from actors.accounts.api import Answer, OwnerUnavailable
from actors.accounts.commits import GroupCommit
from actors.accounts.core import (
    adjusted_before,
    decide_adjust,
    decide_key,
    decide_limits,
    decide_status,
    figures,
)
from actors.accounts.credentials import Credentials
from actors.accounts.nonces import signed_challenge
from actors.accounts.referrals import Referral, captured
from actors.accounts.sessions import Sessions
from actors.accounts.store import AccountStore, StoreUnavailable
from actors.accounts.turns import Turns
from actors.calls import OPERATION_BYTES, Proof, SessionProof, WalletProof
from actors.clock import Clock
from actors.config import IdentityConfig, PaymentsConfig
from actors.errors import Err
from actors.events import ApiKeyRotated, EventSink
from actors.identity import keys
from actors.identity.store import IdentityStoreUnavailable
from actors.units import Pubkey, base58_text

logger = logging.getLogger(__name__)

Parameters = ParamSpec("Parameters")
Whose = TypeVar("Whose")
Request = Callable[Concatenate[Whose, Parameters], Coroutine[Any, Any, Answer]]


def refused(err: Err, detail: str = "") -> Answer:
    return Answer(refusal=err.name, detail=detail)


def answering(request: Request[Whose, Parameters]) -> Request[Whose, Parameters]:
    """A store that is away is an answer like others; what was asked may be asked again."""

    async def answer(desk: Whose, /, *arguments: Parameters.args, **named: Parameters.kwargs) -> Answer:
        try:
            return await request(desk, *arguments, **named)
        except (OwnerUnavailable, StoreUnavailable, IdentityStoreUnavailable) as error:
            logger.info("%s: %s", request.__name__, error)
            return refused(Err.SERVICE_TEMPORARILY_UNAVAILABLE)

    return answer


class Desk:
    def __init__(
        self,
        turns: Turns,
        commits: GroupCommit,
        activations: Activations,
        credentials: Credentials,
        sessions: Sessions,
        store: AccountStore,
        clock: Clock,
        sink: EventSink,
        identity_config: IdentityConfig,
        payments_config: PaymentsConfig,
        defaults: Defaults,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._turns, self._commits, self._activations = turns, commits, activations
        self._credentials, self._sessions = credentials, sessions
        self._store, self._clock, self._sink, self._random_bytes = store, clock, sink, random_bytes
        self._identity, self._payments, self._defaults = identity_config, payments_config, defaults

    # --- the account's owner --------------------------------------------------------------------------------------

    @answering
    async def info(self, proof: Proof) -> Answer:
        account = await self._reader(proof)
        return account if isinstance(account, Answer) else await self._shown(account)

    @answering
    async def ledger(self, proof: Proof, offset: int, limit: int) -> Answer:
        return await self._entries(proof, offset, limit, debits_only=False)

    @answering
    async def history(self, proof: Proof, offset: int, limit: int) -> Answer:
        return await self._entries(proof, offset, limit, debits_only=True)

    @answering
    async def issue_key(self, proof: Proof, ref_code: str | None) -> Answer:
        if not isinstance(proof, WalletProof):
            return refused(Err.AUTH_FAILED, "an API key is issued to a wallet signature only")
        account = await self._activations.load(proof.pubkey)
        referral = await self._find_referral(ref_code) if account is None else None
        # Before anything is opened: a request that may be a replay leaves nothing behind.
        refusal = await self._refused_nonce(account, proof)
        if refusal is not None:
            return refusal
        account = await self._activations.load(proof.pubkey)  # It may have been opened or dropped meanwhile.
        if account is None:
            account = self.open_account(proof.pubkey, referral)
        self.check_current(account)
        earlier = account.profile.key_hash
        text = keys.new_api_key(account.pubkey, self._random_bytes(keys.RANDOM_BYTES))
        prefix = keys.key_prefix(text)
        written = self._turns.take(account, decide_key(account, keys.key_hash(text), prefix))
        self._activations.key_changed(account, earlier)
        await asyncio.shield(written)
        if earlier is not None:
            pubkey = Pubkey(base58_text(account.pubkey))
            self._sink.emit(ApiKeyRotated(pubkey, prefix, self._clock.now()))
        return self.answer(account, endpoints.key_body(text))

    @answering
    async def open_session(self, pubkey: bytes, challenge_id: bytes, issued_at: int) -> Answer:
        self._activations.check_owned(pubkey)
        signed = signed_challenge(pubkey, challenge_id, issued_at, self._identity.challenge_seconds)
        operation = self._random_bytes(OPERATION_BYTES)
        refusal = await self._credentials.use(signed, operation, self._defaults.requests_per_second)
        if refusal is Err.NONCE_REUSED:
            return refused(Err.AUTH_FAILED, "this challenge was used before")
        if refusal is not None:
            return refused(refusal)
        token = keys.new_session_token(pubkey, self._random_bytes(keys.RANDOM_BYTES))
        await self._sessions.open(keys.token_hash(token), pubkey)
        return Answer(body={"token": token, "expires_in": self._identity.session_seconds})

    @answering
    async def close_session(self, proof: Proof) -> Answer:
        if not isinstance(proof, SessionProof):
            return refused(Err.AUTH_FAILED, "logging out needs the bearer token")
        is_ending = self._sessions.is_ending(proof.token_hash)
        pubkey = None if is_ending else await self._sessions.find(proof.token_hash)
        if pubkey is None and not is_ending:
            return refused(Err.AUTH_FAILED)
        await self._sessions.close(proof.token_hash)
        account = None
        if pubkey is not None:
            with contextlib.suppress(OwnerUnavailable):  # The session has ended, whether or not figures can be told.
                account = await self._activations.peek(pubkey)
        body: dict[str, object] = {"status": "ok"}
        return Answer(body=body) if account is None else self.answer(account, body)

    @answering
    async def identify(self, proof: Proof) -> Answer:
        account = await self._reader(proof)
        if isinstance(account, Account):
            return self.answer(account, endpoints.identity_body(account.pubkey, account.purse.balance))
        if account.refusal == Err.ACCOUNT_NOT_FOUND.name and isinstance(proof, WalletProof):
            refusal = await self._refused_nonce(None, proof)
            return refusal or Answer(body=endpoints.identity_body(proof.pubkey, None))
        return account

    # --- the operator ---------------------------------------------------------------------------------------------

    @answering
    async def describe(self, pubkey: bytes) -> Answer:
        """As info, without a proof."""
        account = await (self._activations.load(pubkey) if self._commits.open else self._activations.peek(pubkey))
        return refused(Err.ACCOUNT_NOT_FOUND) if account is None else await self._shown(account)

    @answering
    async def adjust(self, pubkey: bytes, amount: int, reason: str, operation: str) -> Answer:
        mistake = endpoints.adjustment_error(amount, reason, operation)
        if mistake is not None:
            return refused(Err.INVALID_REQUEST, mistake)
        mark_operation, epoch = operation.encode(), self._commits.epoch
        mark = await self._store.find_mark(pubkey, (MarkKind.ADJUST,), mark_operation)
        account = await self._activations.load(pubkey)
        if account is None:
            if amount < 0:
                return refused(Err.ACCOUNT_NOT_FOUND)
            account = self.open_account(pubkey, None)
        if self._commits.epoch != epoch:
            raise OwnerUnavailable("the ledger did not commit")  # What was read may have been overtaken.
        # Asked twice at once: the other one may have been decided, and not written, since the store was asked.
        earlier = mark.amount if mark is not None else adjusted_before(account, mark_operation)
        if earlier is not None:
            return await self._adjusted(account, earlier, self._commits.pending(pubkey), already=True)
        self.check_current(account)
        moment = self._turns.moment()
        self._turns.take_due(account, moment)
        event = decide_adjust(account, amount, reason, mark_operation, moment)
        if event is None:
            return refused(Err.INSUFFICIENT_CREDITS, "nothing is available that could be removed")
        return await self._adjusted(account, event.entry.amount, self._turns.take(account, event), already=False)

    @answering
    async def set_status(self, pubkey: bytes, status: str, reason: str) -> Answer:
        mistake = endpoints.status_error(status)
        if mistake is not None:
            return refused(Err.INVALID_REQUEST, mistake)
        logger.warning("account %s: status %s (%s)", base58_text(pubkey), status, reason[:200])
        return await self._change(pubkey, lambda account: decide_status(account, status))

    @answering
    async def set_limits(self, pubkey: bytes, requests_per_second: int | None, concurrency: int | None) -> Answer:
        mistake = endpoints.limits_error(requests_per_second, concurrency)
        if mistake is not None:
            return refused(Err.INVALID_REQUEST, mistake)
        return await self._change(pubkey, lambda account: decide_limits(account, requests_per_second, concurrency))

    # --- what they share ------------------------------------------------------------------------------------------

    async def _reader(self, proof: Proof) -> Account | Answer:
        """Whose account may be shown to this proof. While the ledger does not commit, what it has can still be read."""
        was_open = self._commits.open
        account = await self._find(proof)
        if not isinstance(account, Err):
            refusal = await self._refused_nonce(account, proof)
            if refusal is not None:
                return refusal
            if was_open and not self._turns.is_current(account):
                account = await self._find(proof)  # An account that was dropped may show what was never written.
        if isinstance(account, Err):
            return refused(Err.ACCOUNT_NOT_FOUND if account is Err.PAYMENT_REQUIRED else account)
        account.used_at = self._turns.steady()
        return account

    async def _find(self, proof: Proof) -> Account | Err:
        return await (self._credentials.find(proof) if self._commits.open else self._credentials.peek(proof))

    async def _refused_nonce(self, account: Account | None, proof: Proof) -> Answer | None:
        """Take the nonce of this proof, where it has one. The refusal when it cannot be taken."""
        operation = self._random_bytes(OPERATION_BYTES)
        rate_limit = self._defaults.requests_per_second if account is None else account.rate_limit
        try:
            refusal = await self._credentials.take_nonce(proof, operation, rate_limit)
        except IdentityStoreUnavailable as error:
            logger.info("a nonce was not taken: %s", error)
            refusal = Err.SERVICE_TEMPORARILY_UNAVAILABLE
        if refusal is None:
            return None
        return refused(refusal) if account is None else self.refusal(account, refusal)

    async def _shown(self, account: Account) -> Answer:
        """What is shown was decided before now; it is shown when all that was decided before now is durable."""
        moment = self._turns.moment()
        if self._turns.is_current(account):
            self._turns.take_due(account, moment)
        answer = self.answer(account, endpoints.account_body(account, self._payments))
        await self.until_written(account)
        return answer

    async def _entries(self, proof: Proof, offset: int, limit: int, debits_only: bool) -> Answer:
        account = await self._reader(proof)
        if isinstance(account, Answer):
            return account
        mistake = endpoints.page_error(offset, limit)
        if mistake is not None:
            return self.refusal(account, Err.INVALID_REQUEST, mistake)
        await self.until_written(account)
        entries = await self._store.entries(account.pubkey, offset, limit, debits_only) if limit else []
        shape = endpoints.history_body if debits_only else endpoints.ledger_body
        return self.answer(account, shape(entries))

    async def _find_referral(self, ref_code: str | None) -> Referral | None:
        """Codes that nobody made are ignored silently."""
        code = endpoints.usable_ref_code(ref_code)
        return None if code is None else await self._store.find_referral(code)

    def open_account(self, pubkey: bytes, referral: Referral | None) -> Account:
        """A new account in memory, recorded; not durable yet. The caller changes it further and waits for that.

        The one that is in memory, where somebody else has opened it since the caller looked.
        """
        present = self._activations.accounts.get(pubkey)
        if present is not None:
            return present
        if not self._commits.open:
            raise OwnerUnavailable("the ledger is not committing")
        now = self._clock.now()
        ref_code, ref_bonus_bps = captured(referral, now)
        profile = Profile(created_at=now, ref_code=ref_code, ref_bonus_bps=ref_bonus_bps)
        account = new_account(pubkey, profile, self._defaults)
        self._activations.insert(account)
        self._turns.take(account, ProfileSet(profile))
        return account

    async def _change(self, pubkey: bytes, decide: Callable[[Account], ProfileSet]) -> Answer:
        account = await self._activations.load(pubkey)
        if account is None:
            return refused(Err.ACCOUNT_NOT_FOUND)
        self.check_current(account)
        await asyncio.shield(self._turns.take(account, decide(account)))
        return self.answer(account, endpoints.profile_body(account))

    async def _adjusted(
        self, account: Account, amount: int, written: "asyncio.Future[None] | None", already: bool
    ) -> Answer:
        answer = self.answer(account, endpoints.adjustment_body(account, amount, already))
        if written is not None:
            await asyncio.shield(written)
        return answer

    def check_current(self, account: Account) -> None:
        if not self._turns.is_current(account):
            raise OwnerUnavailable("the ledger did not commit")

    async def until_written(self, account: Account) -> None:
        pending = self._commits.pending(account.pubkey)
        if pending is not None:
            await asyncio.shield(pending)

    def answer(self, account: Account, body: dict[str, object]) -> Answer:
        return self._told(account, None, "", body)

    def refusal(self, account: Account, err: Err, detail: str = "") -> Answer:
        """To a caller whose account is known: refusals carry its figures too."""
        return self._told(account, err.name, detail, None)

    def _told(self, account: Account, refusal: str | None, detail: str, body: dict[str, object] | None) -> Answer:
        told = figures(account, self._turns.moment())
        return Answer(
            refusal, detail, body, told.credits_remaining, told.rate_limit, told.rate_remaining, told.rate_reset
        )
