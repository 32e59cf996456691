"""/account/hourly-limit: the most credits that an account spends in an hour.

Implements: decisions, "Hourly limit"; README, "Hourly limit". A shell only where it asks the account's owner; the rules
are accounts/hourly_limit.py's. The door takes nothing but a wallet's signature for a change.
"""

from typing import Any, Literal

import msgspec

from actors.accounts.api import OfAccount, OwnersClient
from actors.accounts.hourly_commands import ChangeHourlyLimit, HourlyState, ReadHourlyLimit
from actors.accounts.hourly_limit import NONE_SET
from actors.errors import Err, Refusal
from actors.gateway.pages.account import iso_time
from actors.gateway.pages.callers import owners_answer
from actors.pages import Page, PageAnswer, PageRequest, json_answer

_PRIVATE = (("cache-control", "no-store"),)
_LEARNT = "learnt"
_BAD = Refusal(
    Err.INVALID_REQUEST,
    'the body must be {"credits_an_hour": a whole number from 1, or "learnt", or null for no limit}, or '
    '{"lift_seconds": 0 to 86400}, or both',
)


class _Change(msgspec.Struct, forbid_unknown_fields=True):
    credits_an_hour: int | Literal["learnt"] | msgspec.UnsetType | None = msgspec.UNSET
    lift_seconds: int | msgspec.UnsetType = msgspec.UNSET


class HourlyLimitPages:
    def __init__(self, accounts: OwnersClient) -> None:
        self._accounts = accounts

    def pages(self) -> list[Page]:
        return [
            Page("GET", "/account/hourly-limit", self._show),
            Page("PATCH", "/account/hourly-limit", self._change, only_wallet=True),
        ]

    async def _show(self, request: PageRequest) -> PageAnswer | Refusal:
        return await self._told(ReadHourlyLimit(request.account))

    async def _change(self, request: PageRequest) -> PageAnswer | Refusal:
        try:
            wanted = msgspec.json.decode(request.body, type=_Change)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return _BAD
        credits = wanted.credits_an_hour
        if (credits is msgspec.UNSET and wanted.lift_seconds is msgspec.UNSET) or credits == 0:
            return _BAD
        kept = None if credits == _LEARNT else NONE_SET if credits is None else credits
        return await self._told(ChangeHourlyLimit(request.account, kept, wanted.lift_seconds))  # type: ignore[arg-type]

    async def _told(self, command: OfAccount[HourlyState]) -> PageAnswer | Refusal:
        state = await owners_answer(self._accounts, command)
        return state if isinstance(state, Refusal) else json_answer(hourly_limit_body(state), headers=_PRIVATE)


def hourly_limit_body(state: HourlyState) -> dict[str, Any]:
    chosen, lifted = state.setting.credits, state.setting.lifted_until
    return {
        "ok": True,
        "setting": _LEARNT if chosen is None else chosen or None,
        "credits_an_hour": state.credits,
        "basis": None if state.credits is None else state.basis,
        "usual_credits_an_hour": state.usual,
        "spent_this_hour": state.spent,
        "stage": state.stage,
        "hour_ends_at": iso_time(state.ends_at),
        "lifted_until": iso_time(lifted) if lifted else None,
    }
