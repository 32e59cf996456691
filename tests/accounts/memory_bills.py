"""Bills of accounts in memory.

Implements: bills.BillStore. Sums entry by entry, so that it says the same in another way.
"""

import asyncio
from collections.abc import Callable, Mapping
from hashlib import sha256

from actors.accounts.bills import Bill, BillEnd, BillLine, ReadBill, bill_of, month_ms
from actors.accounts.ledger import Entry, EntryType

_DAY_MS = 86_400_000


class MemoryBills:
    """chains: the entries of each account with the hashes after them."""

    def __init__(self, chains: Callable[[], Mapping[bytes, list[tuple[Entry, bytes]]]]) -> None:
        self._chains = chains

    async def read(self, command: ReadBill) -> Bill:
        await asyncio.sleep(0)
        first_ms, next_ms = month_ms(command.year, command.month)
        chain = self._chains().get(command.pubkey, [])
        opening = closing = BillEnd(0, 0, 0, b"")
        lines: dict[tuple[int, int, str], list[tuple[Entry, bytes]]] = {}
        for entry, after in chain:
            if entry.at_ms >= next_ms:
                break
            closing = BillEnd(entry.balance, entry.seq, entry.at_ms, after)
            if entry.at_ms < first_ms:
                opening = closing
                continue
            if entry.type == EntryType.FACT:
                continue
            day = (entry.at_ms - first_ms) // _DAY_MS + 1 if command.by_day else 0
            lines.setdefault((day, entry.type, entry.method), []).append((entry, after))
        return bill_of(
            command.pubkey,
            (first_ms, next_ms),
            opening,
            closing,
            [
                BillLine(
                    *key,
                    len(pairs),
                    sum(entry.amount for entry, _ in pairs),
                    pairs[0][0].seq,
                    pairs[-1][0].seq,
                    sha256(b"".join(after for _, after in pairs)).digest(),
                )
                for key, pairs in lines.items()
            ],
        )
