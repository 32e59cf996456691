"""Statements and ledger keys, in memory.

Implements: seals_store.SealsStore.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from actors.accounts.ledger import Entry
from actors.accounts.seals_store import (
    FOUND_MAX,
    SCANNED_MAX,
    ChainedEntry,
    FoundLeaf,
    NumberTaken,
    Seal,
    Sealed,
    Unsealed,
)
from actors.receipts.root_keys import RootKey
from actors.receipts.statements import SignedStatement, find_leaf
from actors.units import VirtualShard, shard_of

Chain = list[tuple[Entry, bytes]]


class MemorySeals:
    """chains: the entries of each account with the hashes after them."""

    def __init__(self, chains: Callable[[], Mapping[bytes, Chain]]) -> None:
        self._chains = chains
        self._keys: list[RootKey] = []
        self.statements: dict[tuple[int, int], tuple[int, SignedStatement]] = {}
        self.marks: dict[bytes, Sealed] = {}

    async def keys(self) -> list[RootKey]:
        await asyncio.sleep(0)
        return list(self._keys)

    async def change_key(self, old_id: str | None, new: RootKey) -> bool:
        await asyncio.sleep(0)
        signing = next((key for key in self._keys if key.retired_ms is None), None)
        if (signing.id if signing else None) != old_id:
            return False
        self._keys = [new, *(key._replace(retired_ms=key.retired_ms or new.made_ms) for key in self._keys)]
        return True

    async def series(self) -> list[int]:
        await asyncio.sleep(0)
        return sorted({series for series, _ in self.statements})

    async def newest(self, series: int) -> SignedStatement | None:
        await asyncio.sleep(0)
        numbers = [number for there, number in self.statements if there == series]
        return self.statements[series, max(numbers)][1] if numbers else None

    async def after(self, series: int, number: int, limit: int) -> list[SignedStatement]:
        await asyncio.sleep(0)
        found = sorted(key for key in self.statements if key[0] == series and key[1] > number)
        return [self.statements[key][1] for key in found[:limit]]

    async def seal(
        self, series: int, number: int, at_ms: int, signed: SignedStatement, seals: Sequence[Seal]
    ) -> list[Sealed]:
        await asyncio.sleep(0)
        elsewhere = [self._mark(seal.pubkey) for seal in seals if self._mark(seal.pubkey).seq != seal.first - 1]
        if elsewhere:
            return elsewhere
        if (series, number) in self.statements:
            raise NumberTaken
        self.statements[series, number] = at_ms, signed
        self.marks |= {seal.pubkey: Sealed(seal.pubkey, seal.last, seal.at_ms) for seal in seals}
        return []

    async def unsealed(self, shards: Sequence[VirtualShard], after: bytes) -> Unsealed:
        await asyncio.sleep(0)
        looked = sorted(pubkey for pubkey in self._chains() if pubkey > after)[:SCANNED_MAX]
        found = [
            self._mark(pubkey)
            for pubkey in looked
            if shard_of(pubkey) in shards and len(self._chains()[pubkey]) > self._mark(pubkey).seq
        ]
        return Unsealed(found, looked[-1] if len(looked) == SCANNED_MAX else None)

    async def sealed(self, pubkey: bytes) -> Sealed:
        await asyncio.sleep(0)
        return self._mark(pubkey)

    def _mark(self, pubkey: bytes) -> Sealed:
        return self.marks.get(pubkey, Sealed(pubkey, 0, 0))

    async def following(self, sealed: Sealed, limit: int) -> list[ChainedEntry]:
        await asyncio.sleep(0)
        chain = self._chains().get(sealed.pubkey, [])
        place = sealed.at_ms, sealed.seq
        return [ChainedEntry(*pair) for pair in chain if (pair[0].at_ms, pair[0].seq) > place][:limit]

    async def before(self, pubkey: bytes, at_ms: int, seq: int, limit: int) -> list[ChainedEntry]:
        await asyncio.sleep(0)
        chain = self._chains().get(pubkey, [])
        found = [ChainedEntry(*pair) for pair in chain if (pair[0].at_ms, pair[0].seq) <= (at_ms, seq)]
        return found[::-1][:limit]

    async def find(self, pubkey: bytes, after: tuple[int, int, int], until_ms: int) -> list[FoundLeaf]:
        await asyncio.sleep(0)
        found = []
        for (series, number), (at_ms, signed) in self.statements.items():
            placed = find_leaf(signed.leaves, pubkey)
            if placed is not None and (at_ms, series, number) > after and at_ms < until_ms:
                found.append(FoundLeaf(at_ms, series, number, placed[1].packed()))
        return sorted(found)[:FOUND_MAX]

    async def statement(self, series: int, number: int) -> SignedStatement:
        await asyncio.sleep(0)
        return self.statements[series, number][1]
