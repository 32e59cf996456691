"""Brings accounts of another node to this chain when they are first touched.

Implements: an account that is here, or that was closed here, is never fetched: what was written here wins. A fetched
account counts as if it had always been here, at every commitment level, and causes no event; the journal keeps it. A
token account brings its mint along, a program of the upgradeable loader its code. Accounts that the other node does not
have are absent, and are not asked for again by this process. Two calls that need an account wait for one fetch.
Bounded: accounts and bytes taken over, misses remembered, fetches under way, time of a fetch.
Runs in the chain's loop. Not here: the other node's answers (upstream.py), what a call touches (touched.py).
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from solders.account import Account
from solders.pubkey import Pubkey

from actors.clock import Clock
from devnode.chain.chain import Chain
from devnode.cloning.touched import Touched
from devnode.cloning.upstream import ACCOUNTS_PER_CALL, Fetched, TooMuch, Unusable, Upstream, UpstreamError
from devnode.encoding.addresses import (
    ADDRESS_LOOKUP_TABLE_PROGRAM,
    BUILT_IN,
    NATIVE_LOADER,
    SYSVAR_OWNER,
    UPGRADEABLE_LOADER,
)
from devnode.encoding.wire import Decoded
from devnode.execution.execution import load_keys
from devnode.execution.vm import NotLoadable
from devnode.parsing.token_accounts import holding

logger = logging.getLogger("devnode")
FETCH_SECONDS_MAX = 15.0  # For all missing accounts of one call.
CLONED_ACCOUNTS_MAX = 100_000
CLONED_BYTES_MAX = 1024 * 1024 * 1024
MISSES_MAX = 100_000  # The oldest are forgotten first.
PENDING_MAX = 2_000  # Accounts being fetched at a time.
LATER_MAX = 1_000  # Transactions from doors without answers that wait for their accounts.
_AWAY_SECONDS = 1.0  # After a failure the other node is not asked for this long.
_REFUSED_SECONDS, _REFUSED_MAX = 60.0, 1_000  # Unusable accounts are not fetched again for this long.
_ROUNDS_MAX = 4  # Static keys, then the addresses of lookup tables; a table cannot be in a table.
_PROGRAM_STATE, _PROGRAM_DATA_STATE = (2).to_bytes(4, "little"), (3).to_bytes(4, "little")
_TABLE_EXTENDED = slice(12, 20)
_TABLE_START = 20
_TABLE_META_BYTES = 56


class CloneError(Exception):
    """Accounts that a call needs cannot be fetched; the text says which and why."""


class Cloner:
    """known: addresses that were fetched, or closed here, in earlier runs, with the bytes that were taken over."""

    def __init__(self, chain: Chain, upstream: Upstream, clock: Clock, known: dict[Pubkey, int] | None = None) -> None:
        self._chain, self._upstream, self._clock = chain, upstream, clock
        self._known = set(known or ())
        self._cloned_accounts = len(self._known)
        self._cloned_bytes = sum((known or {}).values())
        self._misses: OrderedDict[Pubkey, None] = OrderedDict()
        self._refused: OrderedDict[Pubkey, tuple[float, str]] = OrderedDict()
        self._pending: dict[Pubkey, asyncio.Task[None]] = {}
        self._later: set[asyncio.Task[None]] = set()
        self._away: tuple[float, str] = (0.0, "")
        chain.closed_here = set()

    @property
    def origin(self) -> str:
        return self._upstream.origin

    async def close(self) -> None:
        for task in (*self._later, *self._pending.values()):
            task.cancel()
        await self._upstream.close()

    def lacks(self, pubkeys: Iterable[Pubkey]) -> list[Pubkey]:
        """Those that are not here, and about which the other node has not been asked."""
        return [pubkey for pubkey in pubkeys if self._is_unasked(pubkey)]

    def _is_unasked(self, pubkey: Pubkey) -> bool:
        if self._chain.vm.account(pubkey) is not None or pubkey in self._misses:
            return False
        closed = self._chain.closed_here
        return pubkey not in self._known and pubkey not in BUILT_IN and not (closed and pubkey in closed)

    async def bring(self, touched: Touched) -> None:
        """Return when every account is here, or known to be absent. Raises CloneError."""
        for _ in range(_ROUNDS_MAX):
            missing = self.lacks(self._needed(touched))
            if not missing:
                return
            await self._fetched(missing)

    def bring_before(self, decoded: Decoded, then: Callable[[], object]) -> None:
        """Call `then` when the transaction's accounts are here, which may be now. Never, if they cannot be fetched:
        a transaction that is sent without an answer is lost in that case."""
        touched = Touched(transactions=[decoded])
        if not self.lacks(self._needed(touched)):
            then()
        elif len(self._later) >= LATER_MAX:
            logger.warning("a transaction is dropped: %d wait for accounts of %s", LATER_MAX, self.origin)
        else:
            task = asyncio.create_task(self._bring_before(touched, then))
            self._later.add(task)
            task.add_done_callback(self._later.discard)

    async def _bring_before(self, touched: Touched, then: Callable[[], object]) -> None:
        try:
            await self.bring(touched)
        except CloneError as error:
            logger.warning("transaction %s is dropped: %s", touched.transactions[0].signature, error)
        else:
            then()

    def _needed(self, touched: Touched) -> set[Pubkey]:
        """Return the touched accounts, as far as their lookup tables are here."""
        needed = set(touched.pubkeys)
        for decoded in touched.transactions:
            tables = getattr(decoded.message, "address_table_lookups", ())
            needed.update(decoded.keys, (lookup.account_key for lookup in tables))
            needed.update(load_keys(decoded, self._chain.vm.account).all)
        return needed

    # Fetching.

    async def _fetched(self, missing: list[Pubkey]) -> None:
        now = self._clock.monotonic()
        for pubkey in missing:
            until, reason = self._refused.get(pubkey, (0.0, ""))
            if now < until:
                raise CloneError(reason)
        until, reason = self._away
        if now < until:
            raise CloneError(self._text(missing, reason))
        new = [pubkey for pubkey in missing if pubkey not in self._pending]
        if len(self._pending) + len(new) > PENDING_MAX:
            raise CloneError(self._text(new, "too many accounts are being fetched"))
        waited = {self._pending[pubkey] for pubkey in missing if pubkey in self._pending}
        for start in range(0, len(new), ACCOUNTS_PER_CALL):
            part = new[start : start + ACCOUNTS_PER_CALL]
            task = asyncio.create_task(self._fetch(part))
            self._pending.update(dict.fromkeys(part, task))
            task.add_done_callback(partial(self._ended, part))
            waited.add(task)
        # A client that goes away must not end the fetch that others wait for.
        results = await asyncio.gather(*map(asyncio.shield, waited), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def _ended(self, pubkeys: Sequence[Pubkey], task: "asyncio.Task[None]") -> None:
        for pubkey in pubkeys:
            self._pending.pop(pubkey, None)
        if not task.cancelled():
            task.exception()  # Marks the exception as retrieved: all waiting callers may have left.

    async def _fetch(self, pubkeys: list[Pubkey]) -> None:
        """Ask for these accounts and for those that they need, and take over what came. Raises CloneError."""
        found: dict[Pubkey, Fetched] = {}
        try:
            async with asyncio.timeout(FETCH_SECONDS_MAX):
                wanted = pubkeys
                while wanted:  # Twice at most: neither a mint nor the code of a program needs another account.
                    found |= dict(zip(wanted, await self._asked(wanted), strict=True))
                    companions = {needed for one in wanted if (needed := _companion(found[one])) is not None}
                    wanted = [needed for needed in self.lacks(companions) if needed not in found]
        except TimeoutError:
            raise self._failed(pubkeys, f"no answer within {FETCH_SECONDS_MAX:.0f} seconds") from None
        except UpstreamError as error:
            raise self._failed(pubkeys, str(error)) from None
        self._take_over(found)

    async def _asked(self, pubkeys: list[Pubkey]) -> list[Fetched]:
        """The accounts, in halves where the answer is too large."""
        try:
            return await self._upstream.accounts(pubkeys)
        except TooMuch:
            if len(pubkeys) == 1:
                raise
            half = len(pubkeys) // 2
            return [*await self._asked(pubkeys[:half]), *await self._asked(pubkeys[half:])]

    def _failed(self, pubkeys: Sequence[Pubkey], reason: str) -> CloneError:
        logger.warning("accounts of %s cannot be fetched: %s", self.origin, reason)
        self._away = (self._clock.monotonic() + _AWAY_SECONDS, reason)
        return CloneError(self._text(pubkeys, reason))

    def _text(self, pubkeys: Sequence[Pubkey], reason: str) -> str:
        more = f" and {len(pubkeys) - 1} more" if len(pubkeys) > 1 else ""
        return f"cannot fetch account {pubkeys[0]}{more} from {self.origin}: {reason}"

    # Taking over. Nothing is awaited from here on: what was written here meanwhile is seen, and wins.

    def _take_over(self, found: dict[Pubkey, Fetched]) -> None:
        """Raises CloneError for the first unusable account, after all others are taken over."""
        unusable: list[str] = []
        # Programs last: the VM reads their code, which may be in another account, when they are set.
        for pubkey, account in sorted(found.items(), key=lambda entry: getattr(entry[1], "executable", False)):
            if not self._is_unasked(pubkey):
                continue
            # Programs and sysvars of the node's own do not travel: this chain has its own.
            if account is None or (isinstance(account, Account) and account.owner in (NATIVE_LOADER, SYSVAR_OWNER)):
                self._miss(pubkey)
                continue
            reason = account.reason if isinstance(account, Unusable) else self._adopted(pubkey, account, found)
            if reason is not None:
                text = f"account {pubkey} of {self.origin} cannot be used: {reason}"
                self._refuse(pubkey, text)
                unusable.append(text)
        if unusable:
            raise CloneError(unusable[0])

    def _adopted(self, pubkey: Pubkey, account: Account, found: dict[Pubkey, Fetched]) -> str | None:
        """Take one account over; the reason if that is not possible."""
        size = len(account.data)
        if self._cloned_accounts >= CLONED_ACCOUNTS_MAX:
            return f"{CLONED_ACCOUNTS_MAX} accounts have been taken over, which is the most"
        if self._cloned_bytes + size > CLONED_BYTES_MAX:
            return f"with it, more than {CLONED_BYTES_MAX} bytes would have been taken over"
        if account.executable and account.owner == UPGRADEABLE_LOADER:
            fault = self._fault_of_program(pubkey, account, found)
            if fault is not None:
                return fault
        try:
            self._chain.adopt(pubkey, _of_this_chain(account, self._chain.levels.building.slot))
        except NotLoadable as error:
            return f"it is no program that can be loaded ({error})"
        self._known.add(pubkey)
        self._cloned_accounts += 1
        self._cloned_bytes += size
        return None

    def _fault_of_program(self, pubkey: Pubkey, account: Account, found: dict[Pubkey, Fetched]) -> str | None:
        """Whether the code's address is the one that the loader derives, and has code: another one would be the answer
        for another program."""
        code = _companion(account)
        if code is None or code != Pubkey.find_program_address([bytes(pubkey)], UPGRADEABLE_LOADER)[0]:
            return "its program data account is not the one of this program"
        held = self._chain.vm.account(code)
        if held is None or held.owner != UPGRADEABLE_LOADER or held.data[:4] != _PROGRAM_DATA_STATE:
            return "its program data account is missing or has no code"
        return None

    def _miss(self, pubkey: Pubkey) -> None:
        self._misses[pubkey] = None
        if len(self._misses) > MISSES_MAX:
            self._misses.popitem(last=False)

    def _refuse(self, pubkey: Pubkey, text: str) -> None:
        self._refused[pubkey] = (self._clock.monotonic() + _REFUSED_SECONDS, text)
        self._refused.move_to_end(pubkey)
        if len(self._refused) > _REFUSED_MAX:
            self._refused.popitem(last=False)


def _companion(account: Fetched) -> Pubkey | None:
    """The account without which this one is of no use: the code of a program, the mint of a token account."""
    if not isinstance(account, Account):
        return None
    if account.owner == UPGRADEABLE_LOADER and account.executable:
        data = account.data[:36]
        return Pubkey.from_bytes(data[4:]) if len(data) == 36 and data[:4] == _PROGRAM_STATE else None
    held = holding(account)
    return None if held is None else held.mint


def _of_this_chain(account: Account, slot: int) -> Account:
    """The account as this chain can use it: a lookup table that was extended in a slot that this chain has not reached
    counts as extended long ago, because its last addresses could not be used before that slot."""
    data = account.data if account.owner == ADDRESS_LOOKUP_TABLE_PROGRAM else b""
    if len(data) < _TABLE_META_BYTES or int.from_bytes(data[_TABLE_EXTENDED], "little") < slot:
        return account
    changed = bytearray(data)
    changed[_TABLE_EXTENDED] = bytes(8)
    changed[_TABLE_START] = 0
    return Account(account.lamports, bytes(changed), account.owner, account.executable, account.rent_epoch)
