"""Races and tickets for tests."""

from dataclasses import replace
from typing import Any

from actors.methods.signed_transactions import SignedTransaction
from actors.sends.core import Present, Race, Ticket, began

NOW = 1_000_000
PRESENT = Present(100, 1_000, True)


def a_transaction(signature: bytes = b"s" * 64) -> SignedTransaction:
    return SignedTransaction(b"raw", signature, b"h" * 32, None, frozenset())


def a_race(number: int = 1, **changes: Any) -> Race:
    race = began(a_transaction(bytes([number]) * 64), PRESENT, NOW)
    return replace(race, **changes)


def a_ticket(number: int = 1, race: int = 1, **changes: Any) -> Ticket:
    ticket = Ticket(bytes([number]) * 16, b"p" * 32, 3, "sendAndConfirm", 50, 2, bytes([race]) * 64, NOW)
    return replace(ticket, **changes)
