"""Carries out the commands to an account: everything except the messages of the hot link.

Implements: interface, "Account endpoints" and "Session endpoints"; decisions, account status, ledger type `adjustment`
and money rules 5, 9 and 11. A shell: it waits, stores and shapes replies; core.py and referrals.py decide,
deposit_commands.py has the commands on deposits and operation_commands.py those on operations. A reply that says
something is done arrives when it is durable.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

from actors.accounts import api
from actors.accounts.account import Account, MarkKind, ProfileSet
from actors.accounts.activations import Activations, WrongOwner
from actors.accounts.api_keys import ApiKeys
from actors.accounts.bills import ReadBill
from actors.accounts.commits import GroupCommit
from actors.accounts.core import adjusted_before, decide_adjust, decide_limits, decide_status
from actors.accounts.credentials import Credentials
from actors.accounts.deposit_commands import DepositCommands
from actors.accounts.directory import ListAccounts, mistake_in_listing
from actors.accounts.endpoints import mistake_in, usable_ref_code
from actors.accounts.fact_commands import FactCommands, TellFacts
from actors.accounts.held_shards import HeldShards
from actors.accounts.hourly_commands import ChangeHourlyLimit, HourlyCommands, ReadHourlyLimit
from actors.accounts.key_commands import KeyCommands
from actors.accounts.key_requests import ChangeKey, CreateKey, DeleteKey, ListKeys, RotateKey
from actors.accounts.long_reads import NOT_READ, LongReads
from actors.accounts.nonces import signed_challenge
from actors.accounts.operation_commands import OperationCommands
from actors.accounts.operations import ChargeOperations, HoldOperations
from actors.accounts.price_list_commands import CountPriceLists, PriceListCommands, SetPriceList
from actors.accounts.reading_commands import ReadingCommands, account_state
from actors.accounts.receipt_commands import ReceiptCommands
from actors.accounts.receipts import (
    AcceptLedgerKey,
    ReadChain,
    ReadLedgerKeys,
    ReadReceipts,
    RotateLedgerKey,
    ShowLedgerKeys,
)
from actors.accounts.referrals import Referral, referral_error
from actors.accounts.sealing import Sealing
from actors.accounts.settling import Settling
from actors.accounts.store import AccountStore
from actors.accounts.stored import StoreUnavailable
from actors.calls import (
    OPERATION_BYTES,
    Proof,
    SessionProof,
    WalletProof,
)
from actors.errors import Err, Refusal
from actors.identity.credentials import RANDOM_BYTES, key_hash, key_prefix, new_api_key, new_session_token, token_hash
from actors.identity.store import IdentityStoreUnavailable
from actors.units import VirtualShard, base58_text

logger = logging.getLogger(__name__)

LISTS_MAX = 1  # Concurrent lists of accounts: each may read all accounts, and customers' listings wait for it.
LIST_SECONDS_MAX = 4.0  # A list of a million accounts takes one or two seconds.
_TOO_MANY_LISTS = "another list of accounts is being made; ask again in some seconds"
_LATE_LIST = (
    f"the list of accounts could not be read within {LIST_SECONDS_MAX:.0f} seconds; ask again, for a public key or a "
    "longer beginning of one"
)

Reply = api.OwnerReply[Any]


class Commands:
    """Carries out commands.

    challenge_seconds: how long a sign-in challenge of the gateway is valid. sealing: makes statements; None: no
    statements are made."""

    def __init__(
        self,
        activations: Activations,
        commits: GroupCommit,
        credentials: Credentials,
        store: AccountStore,
        settling: Settling,
        random_bytes: Callable[[int], bytes],
        *,
        challenge_seconds: int,
        credits_per_usdc: int,
        held: HeldShards,
        sealing: Sealing | None = None,
    ) -> None:
        self._held = held
        self._under_way: Counter[VirtualShard] = Counter()
        self._activations, self._commits, self._credentials = activations, commits, credentials
        self._store, self._random_bytes = store, random_bytes
        self._challenge_seconds = challenge_seconds
        self._long_reads = LongReads(activations.until_written)
        self._reading = ReadingCommands(activations, commits, credentials, store, self._long_reads, random_bytes)
        self._receipts = ReceiptCommands(store, self._long_reads, sealing)
        self._named_keys = KeyCommands(activations, random_bytes)
        self._api_keys = ApiKeys(activations, store)
        self._hourly_limits, self._facts = HourlyCommands(activations), FactCommands(activations)
        self._price_lists = PriceListCommands(activations, store.directory)
        self._operations = OperationCommands(activations, commits, settling)
        self._deposits = DepositCommands(activations, commits, store, credits_per_usdc)

    async def ask(self, command: api.Command[api.Value]) -> api.OwnerReply[api.Value]:
        """Carry one command out. An unavailable store is a refusal: the client may send the command again."""
        mistake = mistake_in(command)
        if mistake is not None:
            return api.refused(Err.INVALID_REQUEST, mistake)
        shard = api.shard_of_command(command)
        if shard is None:
            return await self._answered(command)
        if not self._held.admits(shard):
            return api.OwnerReply(refusal=Err.SERVICE_TEMPORARILY_UNAVAILABLE.name, moved=True)
        self._under_way[shard] += 1
        try:
            return await self._answered(command)
        finally:
            self._under_way[shard] -= 1
            if not self._under_way[shard]:
                del self._under_way[shard]

    def is_busy(self, shards: Collection[VirtualShard]) -> bool:
        """Return whether a command for one of these shards is running."""
        return any(shard in self._under_way for shard in shards)

    async def _answered(self, command: api.Command[Any]) -> Reply:
        try:
            return await self._carry_out(command)
        except WrongOwner as error:
            return api.OwnerReply(refusal=Err.SERVICE_TEMPORARILY_UNAVAILABLE.name, elsewhere=error.pubkey)
        except (api.OwnerUnavailable, StoreUnavailable, IdentityStoreUnavailable) as error:
            logger.info("%s: %s", type(command).__name__, error)
            return api.refused(Err.SERVICE_TEMPORARILY_UNAVAILABLE)

    async def ask_many(self, commands: Sequence[api.Command[api.Value]]) -> list[api.OwnerReply[api.Value]]:
        """As `ask`, for several commands; those of one account run in the order given."""
        return list(await asyncio.gather(*map(self.ask, commands)))

    async def _carry_out(self, command: api.Command[Any]) -> Reply:
        match command:
            case api.ReadAccount() | api.ReadLedger() | api.ReadUsage() | api.Identify() | api.ReadStanding():
                return await self._reading.answer(command)
            case ListKeys() | CreateKey() | ChangeKey() | RotateKey() | DeleteKey():
                return await self._named_keys.answer(command)
            case ReadHourlyLimit() | ChangeHourlyLimit():
                return await self._hourly_limits.answer(command)
            case SetPriceList() | CountPriceLists():
                return await self._price_lists.answer(command)
            case TellFacts():
                return await self._facts.tell(command)
            case ReadReceipts() | ReadChain() | ReadBill():
                return await self._receipts.answer(command)
            case ReadLedgerKeys() | ShowLedgerKeys() | RotateLedgerKey() | AcceptLedgerKey():
                return await self._receipts.answer(command)
            case api.IssueKey(proof, ref_code):
                return await self._issue_key(proof, ref_code)
            case api.OpenSession():
                return await self._open_session(command)
            case api.CloseSession(proof):
                return await self._close_session(proof)
            case api.Describe(pubkey):
                return await self._describe(pubkey)
            case api.AdjustCredits():
                return await self._adjust(command)
            case HoldOperations():
                return await self._operations.hold(command)
            case ChargeOperations():
                return await self._operations.charge(command)
            case api.SetStatus(pubkey, status, reason):
                logger.warning("account %s: status %s (%s)", base58_text(pubkey), status, reason[:200])
                return await self._change(pubkey, lambda account: decide_status(account, status))
            case api.ImportKey():
                account = await self._api_keys.import_key(command)
                if isinstance(account, api.OwnerReply):
                    return account
                return self._reading.reply(account, account_state(account))
            case api.SetLimits(pubkey, per_second, concurrency):
                return await self._change(pubkey, lambda account: decide_limits(account, per_second, concurrency))
            case api.CreditDeposit() | api.AssignDeposit():
                return await self._deposits.credit(command)
            case api.TakeBackDeposit():
                return await self._deposits.take_back(command)
            case api.CreateReferral():
                return await self._create_referral(command)
            case api.ExpireReferral(code):
                expired = await self._store.expire_referral(code, self._now())
                none = api.refused(Err.INVALID_REQUEST, "there is no code of this name")
                return none if expired is None else api.OwnerReply(api.ReferralState(expired, None))
            case ListAccounts():
                return await self._list(command)
            case api.ListReferrals():
                return api.OwnerReply(tuple(api.ReferralState(*row) for row in await self._store.referrals()))
        raise AssertionError(f"no such command: {type(command).__name__}")

    # --- the account's customer -------------------------------------------------------------------------------------

    async def _issue_key(self, proof: Proof, ref_code: str | None) -> Reply:
        if not isinstance(proof, WalletProof):
            return api.refused(Err.AUTH_FAILED, "an API key is issued to a wallet signature only")
        account = await self._activations.load(proof.pubkey)
        referral = await self._find_referral(ref_code) if account is None else None
        # Checked before anything is opened, so that a replayed request leaves no trace.
        refusal = await self._reading.refused_nonce(account, proof)
        if refusal is not None:
            return refusal
        # The account may have been opened or evicted during the await.
        account = await self._activations.load(proof.pubkey)
        if account is None:
            account = self._activations.open_account(proof.pubkey, referral)
        self._activations.check_current(account)
        text = new_api_key(account.pubkey, self._random_bytes(RANDOM_BYTES))
        await self._api_keys.replace(account, key_hash(text), key_prefix(text))
        return self._reading.reply(account, text)

    async def _find_referral(self, ref_code: str | None) -> Referral | None:
        """Return the referral; unknown codes are ignored."""
        code = usable_ref_code(ref_code)
        return None if code is None else await self._store.find_referral(code)

    async def _open_session(self, command: api.OpenSession) -> Reply:
        pubkey = command.pubkey
        self._activations.check_owned(pubkey)
        signed = signed_challenge(pubkey, command.challenge_id, command.issued_at, self._challenge_seconds)
        operation = self._random_bytes(OPERATION_BYTES)
        refusal = await self._credentials.use(signed, operation, self._activations.defaults.requests_per_second)
        if refusal is Err.NONCE_REUSED:
            return api.refused(Err.AUTH_FAILED, "this challenge was used before")
        if refusal is not None:
            return api.refused(refusal)
        token = new_session_token(pubkey, self._random_bytes(RANDOM_BYTES))
        await self._credentials.sessions.open(token_hash(token), pubkey)
        return api.OwnerReply(token)

    async def _close_session(self, proof: Proof) -> Reply:
        if not isinstance(proof, SessionProof):
            return api.refused(Err.AUTH_FAILED, "logging out needs the bearer token")
        sessions = self._credentials.sessions
        is_ending = sessions.is_ending(proof.token_hash)
        pubkey = None if is_ending else await sessions.find(proof.token_hash)
        if pubkey is None and not is_ending:
            return api.refused(Err.AUTH_FAILED)
        await sessions.close(proof.token_hash)
        account = None
        if pubkey is not None:
            # The session has ended, whether or not there are figures to tell.
            with contextlib.suppress(api.OwnerUnavailable):
                account = await self._activations.peek(pubkey)
        return api.OwnerReply(True) if account is None else self._reading.reply(account, True)

    # --- the operator -----------------------------------------------------------------------------------------------

    async def _describe(self, pubkey: bytes) -> Reply:
        account = await (self._activations.load(pubkey) if self._commits.open else self._activations.peek(pubkey))
        return api.refused(Err.ACCOUNT_NOT_FOUND) if account is None else await self._reading.shown(account)

    async def _adjust(self, command: api.AdjustCredits) -> Reply:
        pubkey, amount = command.pubkey, command.amount
        operation, generation = command.operation.encode(), self._commits.generation
        mark = await self._store.find_mark(pubkey, (MarkKind.ADJUST,), operation)
        account, opened = await self._activations.load(pubkey), False
        if account is None:
            if amount < 0:
                return api.refused(Err.ACCOUNT_NOT_FOUND)
            account, opened = self._activations.open_account(pubkey), True
        if self._commits.generation != generation:
            # A write may have completed since the store was read.
            raise api.OwnerUnavailable("the ledger did not commit")
        # Of two simultaneous requests the other may be decided but not written since the store was asked.
        earlier = mark.amount if mark is not None else adjusted_before(account, operation)
        if earlier is not None:
            reply = self._reading.reply(account, api.Adjustment(pubkey, earlier, account.purse.balance, True))
            await self._activations.until_written(pubkey)
            return reply
        self._activations.check_current(account)
        moment = self._activations.moment()
        self._activations.end_due(account, moment)
        event = decide_adjust(account, amount, command.reason, operation, moment)
        if event is None:
            return api.refused(Err.INSUFFICIENT_CREDITS, "nothing is available that could be removed")
        written = self._activations.record(account, event)
        adjusted = api.Adjustment(pubkey, event.entry.amount, account.purse.balance, False, opened)
        reply = self._reading.reply(account, adjusted)
        await asyncio.shield(written)
        return reply

    async def _change(self, pubkey: bytes, decide: Callable[[Account], ProfileSet]) -> Reply:
        account = await self._activations.account_for(pubkey)
        if isinstance(account, api.OwnerReply):
            return account
        await asyncio.shield(self._activations.record(account, decide(account)))
        return self._reading.reply(account, account_state(account))

    async def _create_referral(self, command: api.CreateReferral) -> Reply:
        now = self._now()
        referral = Referral(command.code, command.bonus_bps, now, command.expires_at, command.note)
        mistake = referral_error(referral, now)
        if mistake is None and not await self._store.add_referral(referral):
            mistake = "there is a code of this name already; codes never change"
        return api.refused(Err.INVALID_REQUEST, mistake) if mistake else api.OwnerReply(api.ReferralState(referral, 0))

    async def _list(self, command: ListAccounts) -> Reply:
        mistake = mistake_in_listing(command)
        if mistake is not None:
            return api.refused(Err.INVALID_REQUEST, mistake)
        listed = await self._long_reads.read(
            "lists of accounts", LISTS_MAX, b"", lambda: self._store.directory.list(command), LIST_SECONDS_MAX
        )
        if isinstance(listed, Refusal):
            if listed is NOT_READ:
                return api.refused(listed.err, _LATE_LIST)
            return api.refused(listed.err, _TOO_MANY_LISTS if listed.err is Err.CONCURRENCY_LIMITED else listed.detail)
        return api.OwnerReply(tuple(listed))

    # --- shared -----------------------------------------------------------------------------------------------------

    def _now(self) -> int:
        return self._activations.moment().wall_ms // 1000
