"""Races and tickets for tests."""

from dataclasses import replace
from typing import Any

from actors.sends.core import Race, Ticket, began

NOW = 1_000_000


def a_race(number: int = 1, **changes: Any) -> Race:
    race = began(bytes([number]) * 64, b"raw", b"h" * 32, None, 1_000, True, 100, NOW)
    return replace(race, **changes)


def a_ticket(number: int = 1, race: int = 1, **changes: Any) -> Ticket:
    ticket = Ticket(bytes([number]) * 16, b"p" * 32, 3, "sendAndConfirm", 50, 2, bytes([race]) * 64, NOW)
    return replace(ticket, **changes)
