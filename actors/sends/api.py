"""What the doors ask of the racer, and what they get.

Implements: interface, "sendAndConfirm result"; decisions, `getSendStatus`.
Vocabulary and the client. Nothing is decided here.
"""

import logging
from typing import Any

import msgspec

from actors import hosting
from actors.addresses import TIP_ACCOUNTS
from actors.sends.core import Race, RaceState, Ticket
from actors.sends.engine import EngineAnswer, EngineAway, EngineCall
from actors.sends.store import LegReport

logger = logging.getLogger(__name__)

RACER_ACTOR_NAME = "send-racer"
_RACE_SECONDS = 28.0  # A window of 24 s and the work around it; below the 30 s of its class.
_STATUS_SECONDS = 4.0
_HAS_SENT_SECONDS = 1.0  # A send waits for it, and its bytes grow old.
_WAY_SECONDS = 0.5  # To the racer and back, beside the time that a question has at the engine.
_STATUS = {RaceState.OPEN: "pending", RaceState.CONFIRMED: "confirmed", RaceState.FAILED: "failed"}
_STATUS |= {RaceState.EXPIRED: "failed", RaceState.UNPROVEN: "unknown"}
_NO_PROOF = "the outcome could not be proven; nothing is charged"
_NOT_YET = "not confirmed in time; it may still land, and its charge is pending: ask getSendStatus before sending again"


class WantedRace(msgspec.Struct, frozen=True):
    """One call of sendAndConfirm. operation, pubkey, epoch, method: of its hold, which the racer ends from now on."""

    transaction: bytes
    operation: bytes
    pubkey: bytes
    epoch: int
    method: str
    landing: int
    base: int


class RaceRefused(msgspec.Struct, frozen=True):
    """Nothing was stored or broadcast for this call. crowded: this account has too many open sends."""

    reason: str
    crowded: bool = False


class RaceResult(msgspec.Struct, frozen=True):
    """The race of one call. over: its window has ended without an outcome."""

    race: Race
    ticket: Ticket
    reports: tuple[LegReport, ...]
    over: bool
    confirmations: int | None = None


class RacerUnreachable(Exception):
    """The racer did not answer in time; whether it has the call is not known."""


class SendsClient(hosting.ActorClient):
    """Asks the racer on behalf of one replica."""

    async def race(self, wanted: WantedRace) -> RaceResult | RaceRefused:
        """Raises RacerUnreachable."""
        found: RaceResult | RaceRefused = await self._ask("race", _RACE_SECONDS, wanted)
        return found

    async def status(self, signature: bytes, pubkey: bytes) -> RaceResult | None:
        """Raises RacerUnreachable."""
        found: RaceResult | None = await self._ask("status", _STATUS_SECONDS, signature, pubkey)
        return found

    async def has_sent(self, signature: bytes) -> bool:
        """Return whether a race has sent it, in its present window or before it landed. Raises RacerUnreachable."""
        return bool(await self._ask("has_sent", _HAS_SENT_SECONDS, signature))

    async def ask_engine(self, call: EngineCall) -> EngineAnswer | EngineAway:
        """Raises RacerUnreachable."""
        wait_seconds = call.timeout_ms / 1000 + _WAY_SECONDS
        found: EngineAnswer | EngineAway = await self._ask("ask_engine", wait_seconds, call)
        return found

    @property
    def tip_accounts(self) -> tuple[str, ...]:
        """As the engine told them last, or those of mainnet."""
        return self.state.get("relay", {}).get("tip_accounts") or TIP_ACCOUNTS

    @property
    def relay_reachable(self) -> bool:
        """False only where the racer says so. While the racer itself is silent, nobody knows."""
        return bool(self.state.get("relay", {}).get("reachable", True))

    async def _ask(self, method: str, wait_seconds: float, *arguments: Any) -> Any:
        try:
            return await hosting.ask(self._handle, method, *arguments, wait_seconds=wait_seconds)
        except hosting.ActorUnreachable as error:
            raise RacerUnreachable(str(error)) from error


def unheard_body(signature_text: str, landing: int) -> dict[str, Any]:
    """Make the result of a call about which the racer has said nothing."""
    return {
        "signature": signature_text,
        "status": "unknown",
        "confirmed": False,
        "slot": None,
        "confirmations": None,
        "landing_time_ms": None,
        "legs_attempted": [],
        "retry_count": 0,
        "charged_credits": landing,
        "error": _NOT_YET,
    }


def result_body(result: RaceResult, signature_text: str) -> dict[str, Any]:
    """Make the sendAndConfirm result, with `status`."""
    race, ticket = result.race, result.ticket
    status = _STATUS[race.state]
    if status == "pending" and result.over:
        status = "unknown"
    confirmed = race.state is RaceState.CONFIRMED
    attempted = list(dict.fromkeys(report.leg for report in result.reports if report.submitted_ms is not None))
    return {
        "signature": signature_text,
        "status": status,
        "confirmed": confirmed,
        "slot": race.slot or None,
        "confirmations": result.confirmations,
        "landing_time_ms": race.ended_at_ms - race.started_at_ms if race.slot and not race.landed_before else None,
        "legs_attempted": attempted,
        "retry_count": race.retries,
        "charged_credits": ticket.landing if ticket.charged is None else ticket.charged,
        "error": _error(race, status),
    }


def status_body(result: RaceResult, signature_text: str) -> dict[str, Any]:
    """Make the same for getSendStatus, with the timeline of each leg."""
    race = result.race
    legs: dict[str, list[dict[str, Any]]] = {}
    for report in result.reports:
        legs.setdefault(report.leg, []).append(
            {
                "broadcast": report.broadcast,
                "submitted_at_ms": report.submitted_ms,
                "acknowledged_at_ms": report.acknowledged_ms,
                "error": report.error or None,
            }
        )
    changed = [race.started_at_ms, race.window_at_ms, race.ended_at_ms]
    changed += [report.submitted_ms for report in result.reports if report.submitted_ms is not None]
    return result_body(result, signature_text) | {"updated_at": max(changed) // 1000, "legs": legs}


def _error(race: Race, status: str) -> str | None:
    if race.error:
        return race.error
    if status != "unknown":
        return None
    return _NO_PROOF if race.state is RaceState.UNPROVEN else _NOT_YET
