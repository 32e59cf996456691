"""Tells how many ordinary refused calls the work on one refused request is worth.

Implements: threats 59, 61 and 62 (refusals count by cost); design, "Work on the loop". Pure.

A unit is one ordinary refused call: about 20 us of the replica's event loop. The figures below say how much of each
kind of work takes as long, measured and rounded to the disadvantage of the sender.
"""

from actors.methods.catalog import TAKE_TRANSACTIONS

UNIT_BODY_BYTES = 4_096  # Parsing a body of many names takes 5.8 ns a byte; a text without escapes takes a tenth.
UNIT_BRACKETS = 64  # Objects and arrays: 50 ns to parse, and up to 0.3 us to walk in Python.
TRANSACTION_UNITS = 10  # Decoding a transaction takes 50 us, and verifying each of its 1 to 11 signatures 40 us.
UNIT_FILTERS = 2  # Reading and checking a filter of a stream takes 8 us.

_TRANSACTION_CHARACTERS = 1_684  # The longest in base58, and one of 1,232 bytes in base64.


def cost_of(*, body_bytes: int = 0, brackets: int = 0, transactions: int = 0, filters: int = 0) -> int:
    """Return the units of this work, rounded down: 0 for an ordinary call, which counts as one refusal anyway."""
    return (
        body_bytes // UNIT_BODY_BYTES
        + brackets // UNIT_BRACKETS
        + transactions * TRANSACTION_UNITS
        + filters // UNIT_FILTERS
    )


def cost_of_call(method: str, params: bytes) -> int:
    """Return the units of reading and checking one call: decoding its transactions and verifying their signatures."""
    transactions = 1 + len(params) // _TRANSACTION_CHARACTERS if method in TAKE_TRANSACTIONS else 0
    return cost_of(body_bytes=len(params), transactions=transactions)
