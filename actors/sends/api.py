"""Requests of the gateway to a racer, and the replies.

Implements: interface, "sendAndConfirm result"; decisions, `getSendStatus`.
Vocabulary; decides nothing. Not here: the client (client.py).
"""

from typing import Any

import msgspec

from actors.growing import Growing
from actors.sends.core import Race, RaceState, Ticket, charge
from actors.sends.store import LegReport

_STATUS = {RaceState.OPEN: "pending", RaceState.CONFIRMED: "confirmed", RaceState.FAILED: "failed"}
_STATUS |= {RaceState.EXPIRED: "failed", RaceState.UNPROVEN: "unknown"}
_NO_PROOF = "the outcome could not be proven; the landing price is not charged"
NO_ROOM = "too many sends are under way"  # Reason when a racer has its maximum of races, of all accounts.
_NOT_YET = "not confirmed in time; it may still land, and its charge is pending: ask getSendStatus before sending again"


class WantedRace(Growing, frozen=True):
    """One call of sendAndConfirm. operation to method, and key: of its hold, which the racer ends from now on."""

    transaction: bytes
    operation: bytes
    pubkey: bytes
    epoch: int
    method: str
    landing: int
    base: int
    key: int = 0


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


class SliceMoved(msgspec.Struct, frozen=True):
    """Another racer has the slice of this signature. in_doubt: this one may have stored the call before, so the call
    may go on there, and a refusal by the next racer does not mean that nothing was stored."""

    in_doubt: bool = False


class RacerUnreachable(Exception):
    """The racer did not answer in time; it may or may not have the call."""


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
        "charged_credits": told_charge(race, ticket),
        "error": _error(race, status),
    }


def told_charge(race: Race, ticket: Ticket) -> int:
    """What a call has cost, or will by its outcome: between the proof of a race and the end of its holds that is known
    already. Of an open race, what is held."""
    if ticket.charged is not None:
        return ticket.charged
    return ticket.landing if race.state.open else charge(race, ticket)


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
    times = {"started_at_ms": race.started_at_ms, "ended_at_ms": race.ended_at_ms or None}
    return result_body(result, signature_text) | {"updated_at": max(changed) // 1000, **times, "legs": legs}


def _error(race: Race, status: str) -> str | None:
    if race.error:
        return race.error
    if status != "unknown":
        return None
    return _NO_PROOF if race.state is RaceState.UNPROVEN else _NOT_YET
