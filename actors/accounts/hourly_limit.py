"""The most credits that an account spends in an hour: set by its wallet, or learnt from its usual hours.

Implements: decisions, "Hourly limit". Pure: times are arguments.
From half of the limit on, the account's rate limit is a tenth; at the limit, calls that cost credits are refused until
the hour ends, or until the wallet lifts or raises the limit. Hours are hours of UTC by the ledger's time; a clock that
was set back begins no hour again. Spent credits are the rise of the account's consumed credits since the hour began.

The first debit of an hour writes what the account had consumed before it, so a successor knows what the hour has cost.
Usual hours are learnt from the rollup of usage (hour_learning.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum, unique
from typing import NamedTuple

import msgspec

HOUR_SECONDS, HOUR_MS = 3_600, 3_600_000
LEARNT_HOURS = 168  # Seven days.
LEARNT_HOURS_LEAST = 24  # Least hours with calls; fewer do not show what is usual.
TIMES_USUAL = 10
SLOWED_SHARE = 2  # From the limit divided by this on, the account is slowed ...
SLOWED_RATE = 10  # ... to the rate limit divided by this, at least 1 a second.
LIFT_SECONDS_MAX = 86_400
CREDITS_MAX = 10**15
NONE_SET = 0
UNLIMITED = 1 << 62
_DAY_HOURS = 24


@unique
class Stage(StrEnum):
    NORMAL = "normal"
    SLOWED = "slowed"
    STOPPED = "stopped"
    LIFTED = "lifted"


class HourlySetting(msgspec.Struct, frozen=True, gc=False):
    """Setting of the wallet. credits: an hour; NONE_SET: no limit; None: learnt. lifted_until: Unix seconds."""

    credits: int | None = None
    lifted_until: int = 0


class BegunHour(NamedTuple):
    """The last hour in which the account spent.

    hour: since 1970. consumed: consumed credits at its beginning. usual: credits of a usual hour, as learnt by then."""

    hour: int = 0
    consumed: int = 0
    usual: int | None = None


NO_HOUR = BegunHour()


class Learnt(msgspec.Struct, frozen=True, gc=False):
    """Result of reading an account's rollup.

    hour: the present one. usual: credits of a usual hour; None: too few hours. in_day: credits of the 24 hours before
    this one."""

    hour: int
    usual: int | None
    in_day: int


# --- events of an account -----------------------------------------------------------------------------------------


class HourlyLimitSet(msgspec.Struct, frozen=True):
    setting: HourlySetting


class HoursLearnt(msgspec.Struct, frozen=True):
    """The rollup of the account's usage was read."""

    learnt: Learnt


class HourStopped(msgspec.Struct, frozen=True):
    """The limit refused a call, for the first time in this hour."""

    at_ms: int


class HourSlowed(msgspec.Struct, frozen=True):
    """The account was told that it is slowed, for the first time in this hour."""

    at_ms: int


HourlyEvent = HourlyLimitSet | HoursLearnt | HourStopped | HourSlowed


@dataclass(slots=True)
class HourlyLimit:
    """Hourly limit of one account.

    hour, before: as in BegunHour; written_hour: the hour in the tables. credits: the limit in force; UNLIMITED: none.
    least: lower bound of a learnt limit; 0: nothing is learnt. told_...: the last hour in which the account was told.
    """

    least: int = 0
    setting: HourlySetting = field(default_factory=HourlySetting)
    learnt: Learnt | None = None
    usual: int | None = None
    hour: int = 0
    before: int = 0
    written_hour: int = 0
    credits: int = UNLIMITED
    told_slowed: int = 0
    told_stopped: int = 0

    def restore(self, setting: HourlySetting, begun: BegunHour) -> None:
        """Restore the values from the tables."""
        self.hour, self.before, self.usual = begun
        self.written_hour = self.hour
        self.set(setting)

    def begun(self) -> BegunHour:
        return BegunHour(self.hour, self.before, self.usual)

    def set(self, setting: HourlySetting) -> None:
        self.setting = setting
        self._settle()

    def apply(self, event: HourlyEvent) -> None:
        match event:
            case HourlyLimitSet(setting):
                self.set(setting)
            case HoursLearnt(learnt):
                self.learnt, self.usual = learnt, learnt.usual
                self._settle()
            case HourStopped(at_ms):
                self.told_stopped = at_ms // HOUR_MS
            case HourSlowed(at_ms):
                self.told_slowed = at_ms // HOUR_MS

    def turn(self, hour: int, consumed: int) -> None:
        """Begin an hour. consumed: consumed credits of the account so far."""
        self.hour, self.before = hour, consumed

    def spent(self, consumed: int, hour: int) -> int:
        """Return the credits that the account has spent in this hour."""
        return max(0, consumed - self.before) if hour <= self.hour else 0

    def left(self, consumed: int, held: int, second: int) -> int:
        """Return the credits that may be held now. held: credits of running calls, which count as spent until
        they end."""
        if self.credits >= UNLIMITED or second < self.setting.lifted_until:
            return UNLIMITED
        return max(0, self.credits - self.spent(consumed, second // HOUR_SECONDS) - held)

    def rate(self, limit: int, consumed: int, second: int) -> int:
        """Return the rate limit, in requests a second, of an account whose own limit is given."""
        return max(1, limit // SLOWED_RATE) if self.slows(consumed, second) else limit

    def stage(self, consumed: int, second: int) -> Stage:
        return Stage.NORMAL if self.credits >= UNLIMITED else self._stage(consumed, second)

    def slows(self, consumed: int, second: int) -> bool:
        """Return whether the account is slowed or stopped."""
        return self.credits < UNLIMITED and self._stage(consumed, second) in (Stage.SLOWED, Stage.STOPPED)

    @property
    def basis(self) -> str:
        return "learnt" if self.setting.credits is None else "set"

    def _stage(self, consumed: int, second: int) -> Stage:
        if second < self.setting.lifted_until:
            return Stage.LIFTED
        spent = self.spent(consumed, second // HOUR_SECONDS)
        if spent >= self.credits:
            return Stage.STOPPED
        return Stage.SLOWED if spent * SLOWED_SHARE >= self.credits else Stage.NORMAL

    def _settle(self) -> None:
        """Compute the limit in force, so that calls need not."""
        wanted = self.setting.credits
        if wanted == NONE_SET:
            self.credits = UNLIMITED
        elif wanted is not None:
            self.credits = wanted
        elif self.least and self.usual is not None:
            self.credits = max(self.least, TIMES_USUAL * self.usual)
        else:
            self.credits = UNLIMITED


def learnt_of(by_hour: Mapping[int, int], hour: int) -> Learnt:
    """Summarise usage. by_hour: credits of the account's hours. hour: the present one, which is incomplete and not
    counted."""
    spent = {each: credits for each, credits in by_hour.items() if hour - LEARNT_HOURS <= each < hour and credits > 0}
    usual = sum(spent.values()) // len(spent) if len(spent) >= LEARNT_HOURS_LEAST else None
    in_day = sum(credits for each, credits in spent.items() if each >= hour - _DAY_HOURS)
    return Learnt(hour, usual, in_day)


def mistake_in_credits(credits: int | None) -> str | None:
    """Return a sentence on what is wrong with a limit, or None."""
    if credits is not None and not 0 <= credits <= CREDITS_MAX:
        return f'credits_an_hour must be 1 to {CREDITS_MAX}, or "learnt", or null for no limit'
    return None
