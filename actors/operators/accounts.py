"""/operator/accounts: all accounts in a list, one account, and an operator's changes of it.

Implements: decisions, "The operators' page"; decisions, "account status". A shell: the account's owner applies the
rules, asked with the same commands as by `ledger-gateway accounts`.
"""

import logging

from actors.accounts.api import AccountState, AdjustCredits, Command, Describe, SetLimits, SetStatus
from actors.accounts.directory import LISTED_MAX, ListAccounts, ListedAccount, Order, place_of
from actors.accounts.hourly_commands import ReadHourlyLimit
from actors.accounts.key_requests import ListKeys
from actors.accounts.price_list import PUBLIC_WORD
from actors.errors import Err, Refusal
from actors.operators import bodies
from actors.operators.asking import asked, change_of, pubkey_of
from actors.operators.ports import OperatorParts
from actors.pages import Page, PageAnswer, PageRequest, json_answer
from actors.units import base58_text

logger = logging.getLogger(__name__)

PATH = "/operator/accounts"
_BAD_LIMIT = Refusal(Err.INVALID_REQUEST, f"limit must be 1 to {LISTED_MAX}")
_BAD_CURSOR = Refusal(Err.INVALID_REQUEST, "cursor must be the next_cursor of a page")
_OTHER_CHANGE = Refusal(
    Err.IDEMPOTENCY_KEY_REUSED, "this account was changed under this key before, by another number of credits"
)


class AccountPages:
    def __init__(self, parts: OperatorParts) -> None:
        self._accounts, self._account_body = parts.accounts, parts.account_body

    def pages(self) -> list[Page]:
        one = f"{PATH}/{{pubkey}}"
        return [
            Page("GET", PATH, self._list, for_operators=True),
            Page("GET", one, self._show, for_operators=True),
            Page("POST", f"{one}/adjust", self._adjust, for_operators=True),
            Page("POST", f"{one}/suspend", self._suspend, for_operators=True),
            Page("POST", f"{one}/resume", self._resume, for_operators=True),
            Page("POST", f"{one}/limits", self._limit, for_operators=True),
        ]

    async def _list(self, request: PageRequest) -> PageAnswer | Refusal:
        chosen = bodies.chosen(request.query, find="", order=Order.NEWEST.value, status="", cursor="", limit="50")
        if isinstance(chosen, Refusal):
            return chosen
        limit, after = bodies.number_in(chosen["limit"], 1, LISTED_MAX), place_of(chosen["cursor"])
        if limit is None:
            return _BAD_LIMIT
        if chosen["cursor"] and after is None:
            return _BAD_CURSOR
        command = ListAccounts(chosen["order"], chosen["find"], chosen["status"], after, limit)
        found = await asked(self._accounts, command)
        if isinstance(found, Refusal):
            return found
        following = found[-1].place(Order(chosen["order"])).text if len(found) == limit else None
        return json_answer({"ok": True, "accounts": list(map(listed_body, found)), "next_cursor": following})

    async def _show(self, request: PageRequest) -> PageAnswer | Refusal:
        pubkey = pubkey_of(request)
        if isinstance(pubkey, Refusal):
            return pubkey
        state = await asked(self._accounts, Describe(pubkey))
        if isinstance(state, Refusal):
            return state
        keys = await asked(self._accounts, ListKeys(pubkey))
        hourly = await asked(self._accounts, ReadHourlyLimit(pubkey))
        body = self._account_body(state) | {
            # None: it could not be read now; the other fields could.
            "named_keys": None if isinstance(keys, Refusal) else len(keys),
            "hourly_limit": None if isinstance(hourly, Refusal) else hourly.credits,
            "spent_this_hour": None if isinstance(hourly, Refusal) else hourly.spent,
        }
        return json_answer({"ok": True, "account": body})

    async def _adjust(self, request: PageRequest) -> PageAnswer | Refusal:
        change = change_of(request, bodies.Adjust)
        operation = bodies.operation_of(request.headers.get("idempotency-key"))
        if isinstance(change, Refusal):
            return change
        if isinstance(operation, Refusal):
            return operation
        pubkey, wanted = change
        done = await asked(self._accounts, AdjustCredits(pubkey, wanted.credits, wanted.reason, operation))
        if isinstance(done, Refusal):
            return done
        if done.already_applied and not _may_be_of(done.amount, wanted.credits):
            return _OTHER_CHANGE
        told = {name: getattr(done, name) for name in ("amount", "balance", "already_applied", "opened")}
        logger.warning("operator: account %s: %+d credits (%s)", base58_text(pubkey), done.amount, wanted.reason)
        return json_answer({"ok": True, "pubkey": base58_text(pubkey), "asked": wanted.credits, **told})

    async def _suspend(self, request: PageRequest) -> PageAnswer | Refusal:
        return await self._set_status(request, "suspended")

    async def _resume(self, request: PageRequest) -> PageAnswer | Refusal:
        return await self._set_status(request, "active")

    async def _set_status(self, request: PageRequest, status: str) -> PageAnswer | Refusal:
        change = change_of(request, bodies.Because)
        if isinstance(change, Refusal):
            return change
        pubkey, wanted = change
        if not wanted.reason.isprintable():
            return Refusal(Err.INVALID_REQUEST, "the reason must be printable characters")
        return await self._changed(
            SetStatus(pubkey, status, wanted.reason), f"status {status} ({wanted.reason})", pubkey
        )

    async def _limit(self, request: PageRequest) -> PageAnswer | Refusal:
        change = change_of(request, bodies.Limits)
        if isinstance(change, Refusal):
            return change
        pubkey, wanted = change
        command = SetLimits(pubkey, wanted.requests_per_second, wanted.concurrency)
        return await self._changed(command, "other limits", pubkey)

    async def _changed(self, command: Command[AccountState], what: str, pubkey: bytes) -> PageAnswer | Refusal:
        state = await asked(self._accounts, command)
        if isinstance(state, Refusal):
            return state
        logger.warning("operator: account %s: %s", base58_text(pubkey), what)
        return json_answer({"ok": True, "account": self._account_body(state)})


def _may_be_of(moved: int, asked: int) -> bool:
    """Return whether a request for this many credits can have moved these. Fewer are moved if fewer were available."""
    return moved == asked if asked > 0 else asked <= moved < 0


def listed_body(account: ListedAccount) -> dict[str, object]:
    """Return one row of the list, for the page and for `accounts list --json`."""
    return {
        "pubkey": base58_text(account.pubkey),
        "balance": account.balance,
        "status": account.status,
        "total_consumed_credits": account.total_consumed,
        "created_at": account.created_at,
        "price_list": account.price_list or PUBLIC_WORD,
    }
