"""Cuts of a ledger in memory: what a test says it is.

Implements: months.cuts.CutsStore.
"""

from actors.accounts.months.carried import Carried


class MemoryCuts:
    def __init__(self) -> None:
        self.kept_from = 0
        self.carry: dict[bytes, Carried] = {}
        self.debited: dict[bytes, int] = {}

    async def kept_from_ms(self) -> int:
        return self.kept_from

    async def carried(self, pubkey: bytes) -> Carried | None:
        return self.carry.get(pubkey)

    async def debited_ms(self, operation: bytes) -> int | None:
        return self.debited.get(operation)
