"""The list of accounts in memory.

Implements: directory.DirectoryStore. It compares texts, so that it says the same as ranges of numbers in another way.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

from actors.accounts.directory import ListAccounts, ListedAccount, Order
from actors.units import base58_text


class MemoryDirectory:
    """rows: of the store, by public key."""

    def __init__(self, rows: Mapping[bytes, Any]) -> None:
        self._rows = rows

    def _listed(self) -> list[ListedAccount]:
        return [
            ListedAccount(
                *(pubkey, row.head.balance, row.profile.status, row.head.total_consumed, row.profile.created_at),
                row.price_list,
            )
            for pubkey, row in self._rows.items()
        ]

    async def list(self, command: ListAccounts) -> list[ListedAccount]:
        await asyncio.sleep(0)

        def key(account: ListedAccount) -> tuple[int, bytes]:
            value, pubkey = account.place(Order(command.order))
            return -value, pubkey

        found = [
            account
            for account in sorted(self._listed(), key=key)
            if base58_text(account.pubkey).startswith(command.prefix)
            and command.status in ("", account.status)
            and (command.after is None or key(account) > (-command.after[0], command.after[1]))
        ]
        return found[: command.limit]

    async def price_lists(self) -> dict[str, int]:
        await asyncio.sleep(0)
        return dict(Counter(account.price_list for account in self._listed() if account.price_list))
