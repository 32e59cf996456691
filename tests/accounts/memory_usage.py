"""Usage of accounts in memory: counted from their ledgers anew for every question."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from actors.accounts.ledger import Entry, EntryType
from actors.accounts.usage import ROWS_MAX, Rolled, UsageLine
from actors.calls import split_key


class MemoryUsage:
    """Counts the ledger anew for every question; what was rolled up is only a number."""

    def __init__(self, rows: Mapping[bytes, Any]) -> None:
        self._rows = rows
        self.rolled: dict[bytes, int] = {}

    async def read(self, pubkey: bytes, first_hour: int, end_hour: int, by: tuple[str, ...]) -> list[UsageLine]:
        await asyncio.sleep(0)
        entries = [entry for entry, _ in self._rows[pubkey].entries] if pubkey in self._rows else []
        return recounted(entries, first_hour, end_hour, by)[: ROWS_MAX + 1]

    async def hours(self, pubkeys: Sequence[bytes], first_hour: int, end_hour: int) -> dict[bytes, dict[int, int]]:
        await asyncio.sleep(0)
        found: dict[bytes, dict[int, int]] = {}
        for pubkey in pubkeys:
            entries = [entry for entry, _ in self._rows[pubkey].entries] if pubkey in self._rows else []
            lines = recounted(entries, first_hour, end_hour, ("hour",))
            found[pubkey] = {line.hour: line.credits for line in lines}
        return found

    async def roll(self, pubkey: bytes, entries_max: int) -> Rolled:
        await asyncio.sleep(0)
        before = self.rolled.get(pubkey, 0)
        seq = min(self._rows[pubkey].head.seq if pubkey in self._rows else 0, before + entries_max)
        self.rolled[pubkey] = seq
        return Rolled(seq - before, seq)


def recounted(entries: Sequence[Entry], first_hour: int, end_hour: int, by: tuple[str, ...]) -> list[UsageLine]:
    """The usage that these entries make: debits without those that were refunded, each in the hour of the debit."""
    refunded = {entry.operation for entry in entries if entry.type == EntryType.REFUND}
    sums: dict[tuple[str | None, int, int], list[int]] = {}
    for entry in entries:
        hour = entry.at_ms // 3_600_000
        if entry.type != EntryType.DEBIT or entry.operation in refunded or not first_hour <= hour < end_hour:
            continue
        shown = hour if "hour" in by else hour - hour % 24 if "day" in by else 0
        key = split_key(entry.description)[1] if "key" in by else 0
        row = sums.setdefault((entry.method if "method" in by else None, shown, key), [0, 0])
        row[0] += 1
        row[1] -= entry.amount
    return [UsageLine(method, hour, *row, key) for (method, hour, key), row in sums.items()]
