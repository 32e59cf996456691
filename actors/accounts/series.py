"""Reads one series of statements from the table, and verifies each statement before use.

Implements: decisions, "Signed roots". A shell; receipts/checks.py has the rules. A person who can write the table can
add statements to it; a series with such a statement is not continued until it was removed.
"""

import asyncio
from collections.abc import Sequence

from actors.accounts.seals_store import SealsStore
from actors.accounts.signing_keys import SigningKeys
from actors.receipts.checks import SeriesEnd, Unproven, checked, followed
from actors.receipts.statements import NO_STATEMENT, SignedStatement, parse

FIRST = SeriesEnd(0, NO_STATEMENT)


class Series:
    """Verified reads of one series. All methods raise StoreUnavailable and Unproven."""

    def __init__(self, store: SealsStore, number: int, keys: SigningKeys) -> None:
        self._store, self._number, self._keys = store, number, keys

    async def end(self) -> SeriesEnd:
        """Return the newest statement, after verifying it and the one before it, and that none has a higher number."""
        newest = await self._store.newest(self._number)
        if newest is None:
            return FIRST
        statement = parse(newest.text)
        before = max(0, statement.number - 2) if statement is not None else 0
        place = FIRST if before == 0 else SeriesEnd(before, None)
        last = await self._store.after(self._number, before, 3)
        await self._check(last)
        end = followed(place, self._number, last)
        if end.digest != newest.digest:
            raise Unproven(f"the newest statement of series {self._number} does not stand behind the one before it")
        return end

    async def after(self, place: SeriesEnd, limit: int) -> list[SignedStatement]:
        """Return the statements that follow this one."""
        found = await self._store.after(self._number, place.number, limit)
        await self._check(found)
        followed(place, self._number, found)
        return found

    async def _check(self, statements: Sequence[SignedStatement]) -> None:
        if any(signed.key_id not in self._keys.known for signed in statements):
            await self._keys.read()  # Another owner made the key a moment ago.
        await asyncio.to_thread(_check_all, statements, self._keys)


def _check_all(statements: Sequence[SignedStatement], keys: SigningKeys) -> None:
    known = keys.known
    for signed in statements:
        checked(signed, known)
