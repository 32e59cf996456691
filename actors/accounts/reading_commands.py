"""Carries out the commands by which customers read their account, and gateways identify a credential.

Implements: interface, "Account endpoints"; decisions, "Named keys" (what a named key may read, and which figures it is
told). A shell: it waits, stores and shapes replies. Accounts can be read while the ledger does not commit.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from actors.accounts import api
from actors.accounts.account import ACTIVE, Account, Moment
from actors.accounts.activations import Activations
from actors.accounts.admission import figures, presented
from actors.accounts.child_adoption import ChildRefused
from actors.accounts.commits import GroupCommit
from actors.accounts.credentials import Credentials
from actors.accounts.credits import BATCHES_TOLD_MAX
from actors.accounts.hourly_limit import HOUR_MS
from actors.accounts.key_requests import NOT_FOR_KEY
from actors.accounts.ledger import Entry
from actors.accounts.listings import NO_FILTER, line_of
from actors.accounts.long_reads import LongReads
from actors.accounts.months.cuts import kept_for
from actors.accounts.named_keys import DAY_MS, NO_PATH, Path, budget_of, may_read, number_of
from actors.accounts.store import AccountStore
from actors.accounts.usage import READS_MAX, ROWS_MAX
from actors.calls import OPERATION_BYTES, KeyProof, Proof, ProvenProof, SessionProof, WalletProof
from actors.errors import Err, Refusal
from actors.identity.store import IdentityStoreUnavailable

logger = logging.getLogger(__name__)

Reply = api.OwnerReply[Any]
Reading = api.ReadAccount | api.ReadLedger | api.ReadUsage | api.Identify | api.ReadStanding

LISTINGS_MAX = 8  # Concurrent listings of one account's ledger; its owner makes one at a time for all its accounts.
_TOO_MANY_ROWS = Refusal(
    Err.INVALID_REQUEST, f"this would be more than {ROWS_MAX} rows: ask for a shorter range, or by fewer columns"
)


class Reader(NamedTuple):
    """The account to show. path: of the named key that asks."""

    account: Account
    path: Path


class ReadingCommands:
    def __init__(
        self,
        activations: Activations,
        commits: GroupCommit,
        credentials: Credentials,
        store: AccountStore,
        long_reads: LongReads,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._activations, self._commits, self._credentials = activations, commits, credentials
        self._store, self._long_reads, self._random_bytes = store, long_reads, random_bytes

    async def answer(self, command: Reading) -> Reply:
        match command:
            case api.ReadAccount(proof):
                read = await self.reader(proof)
                with_runway = command.with_runway
                return read if isinstance(read, api.OwnerReply) else await self.shown(*read, with_runway=with_runway)
            case api.ReadLedger():
                return await self._read_ledger(command)
            case api.ReadUsage():
                return await self._read_usage(command)
            case api.Identify(proof):
                return await self._identify(proof)
            case api.ReadStanding():
                return await self._read_standing(command)

    async def _read_ledger(self, command: api.ReadLedger) -> Reply:
        read = await self.reader(command.proof)
        if isinstance(read, api.OwnerReply):
            return read
        account = read.account
        listed = await self._long_reads.read(
            "listings of the ledger", LISTINGS_MAX, account.pubkey, lambda: self._listed(account.pubkey, command)
        )
        if isinstance(listed, Refusal):
            return self._refuse(read, listed)
        entries, kept_from_ms = listed
        detailed = command.filter is not None
        reply = self.reply(account, tuple(line_of(entry, detailed) for entry in entries), read.path)
        return msgspec.structs.replace(reply, kept_from_ms=kept_from_ms)

    async def _listed(self, pubkey: bytes, command: api.ReadLedger) -> tuple[list[Entry], int] | Refusal:
        """Return a page, and since when entries are kept."""
        wanted = command.filter or NO_FILTER
        entries = await self._store.entries(pubkey, command.offset, command.limit, command.debits_only, wanted)
        kept = await kept_for(self._store.cuts, pubkey, wanted, not entries)
        return kept if isinstance(kept, Refusal) else (entries, kept)

    async def _read_usage(self, command: api.ReadUsage) -> Reply:
        read = await self.reader(command.proof)
        if isinstance(read, api.OwnerReply):
            return read
        asked = (read.account.pubkey, command.first_hour, command.end_hour, command.by)
        lines = await self._long_reads.read(
            "sums of the usage", READS_MAX, read.account.pubkey, lambda: self._store.usage.read(*asked)
        )
        if not isinstance(lines, Refusal) and len(lines) > ROWS_MAX:
            lines = _TOO_MANY_ROWS
        if isinstance(lines, Refusal):
            return self._refuse(read, lines)
        return self.reply(read.account, tuple(lines), read.path)

    async def _identify(self, proof: Proof) -> Reply:
        read = await self.reader(proof, shows_account=False)
        if isinstance(read, Reader):
            account, path = read
            found = api.Identity(
                account.pubkey, account.purse.balance, number_of(path), may_read(path), account.price_list
            )
            return self.reply(account, found, path)
        if read.refusal == Err.ACCOUNT_NOT_FOUND.name and isinstance(proof, WalletProof):
            refusal = await self.refused_nonce(None, proof)
            return refusal or api.OwnerReply(api.Identity(proof.pubkey, None))
        return read

    async def _read_standing(self, command: api.ReadStanding) -> Reply:
        proof = command.proof
        if isinstance(proof, SessionProof) and not command.uses:
            pubkey = await self._credentials.sessions.owner_of(proof.token_hash)
            if pubkey is None:
                return api.refused(Err.AUTH_FAILED)
            proof = ProvenProof(pubkey)
        read = await self.reader(proof, shows_account=False, is_open=command.open_under > 0)
        if isinstance(read, Reader):
            account, path = read
            is_active, purse = account.profile.status == ACTIVE, account.purse
            balance, available = int(purse.balance), int(purse.available)
            if path:
                left = budget_of(path, self._activations.moment().wall_ms // DAY_MS)
                balance, available = min(balance, left), min(available, left)
            second = self._activations.moment().wall_ms // 1000
            is_stopped = account.hourly.left(account.total_consumed, int(purse.held), second) < 1
            standing = api.AccountStanding(
                account.pubkey, balance, is_active, available, number_of(path), is_stopped=is_stopped
            )
            return self.reply(account, standing, path)
        return api.refused(Err.PAYMENT_REQUIRED) if read.refusal == Err.ACCOUNT_NOT_FOUND.name else read

    # --- for other commands too ---------------------------------------------------------------------------------------

    async def reader(self, proof: Proof, *, shows_account: bool = True, is_open: bool = False) -> Reader | Reply:
        """Return the account that may be shown to this proof. Works while the ledger does not commit.

        shows_account False: the reply reveals no more of the account than any call does. is_open: an open stream asks.
        """
        was_open = self._commits.open
        account = await self._credentials.find(proof, keep=was_open)
        if not isinstance(account, Err | ChildRefused):
            refusal = await self.refused_nonce(account, proof)
            if refusal is not None:
                return refusal
            if was_open and not self._activations.is_current(account):
                # The account was dropped from memory because it may contain entries that were never written.
                account = await self._credentials.find(proof, keep=self._commits.open)
        if isinstance(account, ChildRefused):
            return self._refuse(Reader(account.account, account.path), account.refusal)
        if isinstance(account, Err):
            return api.refused(Err.ACCOUNT_NOT_FOUND if account is Err.PAYMENT_REQUIRED else account)
        moment = self._activations.moment()
        account.used_at = moment.steady
        path = _still_presented(account, proof, moment) if is_open else presented(account, proof, moment)
        if path is None:
            return api.refused(Err.AUTH_FAILED)
        if path and shows_account and not may_read(path):
            return self._refuse(Reader(account, path), NOT_FOR_KEY)
        return Reader(account, path)

    async def refused_nonce(self, account: Account | None, proof: Proof) -> Reply | None:
        """Take the nonce of this proof, if it has one. Returns a refusal when it cannot be taken."""
        operation = self._random_bytes(OPERATION_BYTES)
        rate_limit = self._activations.defaults.requests_per_second if account is None else account.rate_limit
        try:
            refusal = await self._credentials.take_nonce(proof, operation, rate_limit)
        except IdentityStoreUnavailable as error:
            logger.info("a nonce was not taken: %s", error)
            refusal = Err.SERVICE_TEMPORARILY_UNAVAILABLE
        if refusal is None:
            return None
        told = None if account is None else figures(account, self._activations.moment())
        return api.OwnerReply(refusal=refusal.name, figures=told)

    async def shown(self, account: Account, path: Path = NO_PATH, *, with_runway: bool = False) -> Reply:
        """Reads reflect every decision made so far, and wait until those decisions are durable."""
        if self._activations.is_current(account):
            self._activations.end_due(account, self._activations.moment())
        reply = self.reply(account, account_state(account, self._activations.moment() if with_runway else None), path)
        await self._activations.until_written(account.pubkey)
        return reply

    def reply(self, account: Account, value: api.Value, path: Path = NO_PATH) -> api.OwnerReply[api.Value]:
        """Make a reply with the present figures: of the account, or of the named key that asks."""
        return api.OwnerReply(value, figures=figures(account, self._activations.moment(), path))

    def _refuse(self, read: Reader, refusal: Refusal) -> Reply:
        told = figures(read.account, self._activations.moment(), read.path)
        return api.OwnerReply(refusal=refusal.err.name, detail=refusal.detail, figures=told)


def _still_presented(account: Account, proof: Proof, moment: Moment) -> Path | None:
    """As `presented`, for an open stream under a named key, whose address was checked when it opened."""
    key = account.keys.by_hash.get(proof.key_hash) if isinstance(proof, KeyProof) else None
    if key is None or not isinstance(proof, KeyProof):
        return presented(account, proof, moment)
    profile, now = key.profile, moment.wall_ms // 1000
    if proof.key_hash == profile.old_hash and profile.old_until <= now:
        return None
    return presented(account, ProvenProof(account.pubkey, profile.number), moment)


def account_state(account: Account, moment: Moment | None = None) -> api.AccountState:
    """moment: now, if the caller wants the recent spending of the account; else None."""
    hourly, in_day, hour_credits = account.hourly, None, None
    if moment is not None and hourly.learnt is not None:
        in_day = hourly.learnt.in_day
        hour_credits = hourly.spent(account.total_consumed, moment.wall_ms // HOUR_MS)
    return api.AccountState(
        account.pubkey,
        account.purse.balance,
        account.profile.status,
        account.total_consumed,
        account.profile.created_at,
        account.rate_limit,
        account.concurrency_limit,
        account.last_deposit,
        # Copies: a batch changes while the reply waits for the ledger.
        tuple(map(replace, account.purse.batches[:BATCHES_TOLD_MAX])),
        in_day,
        hour_credits,
        account.price_list,
    )
