"""The most credits that an account spends in an hour.

Implements: README, "Hourly limit". Any credential reads it; the wallet's alone changes it.
"""

import json
from typing import Literal

import msgspec

from ledger_gateway.answers import Answer, decode
from ledger_gateway.client import Gateway

_ANSWER = Answer(200, {}, b"")


class HourlyLimit(msgspec.Struct, frozen=True):
    """setting: what the wallet has chosen: credits, `learnt`, or None for no limit. credits_an_hour: the one in force.
    basis: `set` or `learnt`. stage: `normal`, `slowed`, `stopped` or `lifted`. Times are ISO 8601."""

    setting: int | str | None
    credits_an_hour: int | None
    basis: str | None
    usual_credits_an_hour: int | None
    spent_this_hour: int
    stage: str
    hour_ends_at: str
    lifted_until: str | None


async def hourly_limit(gateway: Gateway) -> HourlyLimit:
    found: HourlyLimit = decode(await gateway.page("/account/hourly-limit"), HourlyLimit, _ANSWER)
    return found


async def set_hourly_limit(gateway: Gateway, credits_an_hour: int | Literal["learnt"] | None) -> HourlyLimit:
    """Set the limit. None: no limit. The gateway's credential must be the wallet."""
    return await _changed(gateway, {"credits_an_hour": credits_an_hour})


async def lift_hourly_limit(gateway: Gateway, seconds: int) -> HourlyLimit:
    """Lift the limit for this long, at most a day; 0: the limit applies again. The credential must be the wallet."""
    return await _changed(gateway, {"lift_seconds": seconds})


async def _changed(gateway: Gateway, change: dict[str, int | str | None]) -> HourlyLimit:
    told = await gateway.document("PATCH", "/account/hourly-limit", json.dumps(change).encode())
    found: HourlyLimit = decode(told, HourlyLimit, _ANSWER)
    return found
