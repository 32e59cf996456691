"""Checks a signed statement with the trusted keys: signature, time, leaves and place.

Implements: decisions, "Signed roots". Pure. Hashing the leaves of a large statement takes 2 ms: many are checked in a
thread. Not here: which keys are trusted (root_keys.py); checking receipts, which is the customer's.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from actors.receipts.root_keys import ProvenKey
from actors.receipts.statements import LEAF_BYTES, SignedStatement, Statement, parse, root_of

# Owners notice a change of keys within 30 s, and their clocks differ a little.
KEY_SLACK_MS = 60_000


class Unproven(Exception):
    """The statement is not this service's. The message says why."""


class SeriesEnd(NamedTuple):
    """End of a series. digest: of its newest statement; None: unknown."""

    number: int
    digest: bytes | None


def checked(signed: SignedStatement, keys: Mapping[str, ProvenKey]) -> Statement:
    """Return the statement where all of it holds. Raises Unproven."""
    statement = parse(signed.text)
    if statement is None:
        raise Unproven("it has another form than a statement")
    what, key = f"statement {statement.number} of series {statement.series}", keys.get(signed.key_id)
    if key is None:
        raise Unproven(f"{what} is signed by key {signed.key_id}, which is not known to be this service's")
    if not is_in_use(key, statement.at_ms):
        raise Unproven(f"{what} is of a time at which its key {key.id} was not in use")
    if len(signed.leaves) != statement.accounts * LEAF_BYTES or root_of(signed.leaves) != statement.root:
        raise Unproven(f"the accounts of {what} are not those of its root")
    try:
        VerifyKey(key.public).verify(signed.text.encode(), signed.signature)
    except (BadSignatureError, ValueError):
        raise Unproven(f"the signature of {what} is not by its key") from None
    return statement


def is_in_use(key: ProvenKey, at_ms: int) -> bool:
    until_ms = at_ms if key.retired_ms is None else key.retired_ms + KEY_SLACK_MS
    return key.made_ms - KEY_SLACK_MS <= at_ms <= until_ms


def followed(place: SeriesEnd, series: int, statements: Sequence[SignedStatement]) -> SeriesEnd:
    """Return the end of a series with these statements, whose form is known. Raises Unproven where one does not follow
    the one before."""
    for signed in statements:
        statement = parse(signed.text)
        if (
            statement is None
            or (statement.series, statement.number) != (series, place.number + 1)
            or place.digest not in (None, statement.previous)
        ):
            raise Unproven(f"behind statement {place.number} of series {series} stands one that does not follow it")
        place = SeriesEnd(statement.number, signed.digest)
    return place
