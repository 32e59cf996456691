"""The list of accounts in memory.

Implements: directory.DirectoryStore. It compares texts, so that it says the same as ranges of numbers in another way.
"""

import asyncio
from collections import Counter
from collections.abc import Callable

from actors.accounts.directory import ListAccounts, ListedAccount, Order
from actors.units import base58_text


class MemoryDirectory:
    def __init__(self, listed: Callable[[], list[ListedAccount]]) -> None:
        self._listed = listed

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
