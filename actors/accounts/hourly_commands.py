"""Reads and changes the hourly limit of an account.

Implements: decisions, "Hourly limit". A shell: hourly_limit.py has the rules. A reply arrives when the change is
durable. The gateway has checked that a wallet signed a change.
"""

import asyncio
from typing import Any

import msgspec

from actors.accounts.account import Account
from actors.accounts.activations import Activations
from actors.accounts.admission import figures
from actors.accounts.api import OfAccount, OwnerReply
from actors.accounts.hourly_limit import (
    HOUR_SECONDS,
    LIFT_SECONDS_MAX,
    UNLIMITED,
    HourlyLimitSet,
    HourlySetting,
    mistake_in_credits,
)


class HourlyState(msgspec.Struct, frozen=True):
    """State of the hourly limit. setting: chosen by the wallet. credits: the limit in force, or None. basis: `set` or
    `learnt`.

    usual: credits of a usual hour, or None: too few hours are known. spent: in this hour, which ends at `ends_at` (Unix
    seconds). stage: as hourly_limit.Stage has it.
    """

    setting: HourlySetting
    credits: int | None
    basis: str
    usual: int | None
    spent: int
    stage: str
    ends_at: int


class ReadHourlyLimit(OfAccount[HourlyState], frozen=True):
    """GET /account/hourly-limit."""


class ChangeHourlyLimit(OfAccount[HourlyState], frozen=True):
    """PATCH /account/hourly-limit. UNSET: unchanged. credits: as in HourlySetting. lift_seconds: nothing is limited for
    this long; 0: the limit applies again."""

    credits: int | msgspec.UnsetType | None = msgspec.UNSET
    lift_seconds: int | msgspec.UnsetType = msgspec.UNSET


Reply = OwnerReply[Any]


class HourlyCommands:
    def __init__(self, activations: Activations) -> None:
        self._activations = activations

    async def answer(self, command: ReadHourlyLimit | ChangeHourlyLimit) -> Reply:
        account = await self._activations.account_for(command.pubkey, _mistake_in(command))
        if isinstance(account, OwnerReply):
            return account
        if isinstance(command, ReadHourlyLimit):
            reply = self._reply(account)
            await self._activations.until_written(account.pubkey)
            return reply
        setting, now = account.hourly.setting, self._now()
        if command.credits is not msgspec.UNSET:
            setting = msgspec.structs.replace(setting, credits=command.credits)
        if command.lift_seconds is not msgspec.UNSET:
            setting = msgspec.structs.replace(setting, lifted_until=now + command.lift_seconds)
        written = self._activations.record(account, HourlyLimitSet(setting))
        reply = self._reply(account)
        await asyncio.shield(written)
        return reply

    def _reply(self, account: Account) -> Reply:
        hourly, now = account.hourly, self._now()
        state = HourlyState(
            hourly.setting,
            None if hourly.credits >= UNLIMITED else hourly.credits,
            hourly.basis,
            hourly.usual,
            hourly.spent(account.total_consumed, now // HOUR_SECONDS),
            hourly.stage(account.total_consumed, now).value,
            (now // HOUR_SECONDS + 1) * HOUR_SECONDS,
        )
        return OwnerReply(state, figures=figures(account, self._activations.moment()))

    def _now(self) -> int:
        return self._activations.moment().wall_ms // 1000


def _mistake_in(command: ReadHourlyLimit | ChangeHourlyLimit) -> str | None:
    if isinstance(command, ReadHourlyLimit):
        return None
    lift = command.lift_seconds
    if lift is not msgspec.UNSET and not 0 <= lift <= LIFT_SECONDS_MAX:
        return f"seconds must be 0 to {LIFT_SECONDS_MAX}"
    return None if command.credits is msgspec.UNSET else mistake_in_credits(command.credits)
