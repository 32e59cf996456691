"""The stores of webhooks as one dispatcher has them: in memory with the fence of its slices, and in PostgreSQL."""

from collections.abc import Collection, Sequence
from typing import Any

from actors.ownership.held import HeldSlices
from actors.ownership.store import PostgresOwnership
from actors.webhooks.slices import KIND, SLICES, SOURCES_SLICE, slice_of
from actors.webhooks.store import Job, JobResult, QueueFigures, Room, SliceTaken
from tests.ownership.memory_store import MemoryOwnership

from .memory_store import ALL, MemoryWebhookStore


async def holding_all(pool: Any, slices: Collection[int] = ALL) -> HeldSlices:
    """Claim slices in PostgreSQL."""
    held = HeldSlices()
    held.took(slices, await PostgresOwnership(pool).claim(KIND, sorted(slices), "test"))
    return held


class OwnedMemory:
    """What MemoryWebhookStore does, as the holder of these slices; by default of all, which are claimed here."""

    def __init__(
        self, kept: MemoryWebhookStore, ownership: MemoryOwnership | None = None, held: HeldSlices | None = None
    ) -> None:
        self.kept, self.ownership, self._held = kept, ownership or MemoryOwnership(), held or HeldSlices()
        if held is None:
            self._held.took(ALL, self.ownership.claim_now(KIND, sorted(ALL), "test"))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kept, name)

    def _still(self, number: int) -> bool:
        epoch = self._held.epoch(number)
        if epoch is not None and self.ownership.epoch(KIND, number) != epoch:
            self._held.lose(number, epoch)
        return self._held.epoch(number) is not None

    def _serving(self) -> set[int]:
        """As ownership_still() of what is served; a refused epoch is not lost by reading."""
        return {one for one, epoch in self._held.serving().items() if self.ownership.epoch(KIND, one) == epoch}

    def _require(self, number: int) -> None:
        if not self._still(number):
            raise SliceTaken(f"slice {number}")

    async def confirm(self) -> None:
        for number in range(SLICES):
            self._still(number)

    def _own(self, jobs: Sequence[int]) -> list[int]:
        accounts = ((job, self.kept.account_of(job)) for job in jobs)
        return [job for job, account in accounts if account is not None and self._still(slice_of(account))]

    async def queue(self, events: Any, now_ms: int, cursor: Any = None) -> int:
        self._require(SOURCES_SLICE)
        return await self.kept.queue(events, now_ms, cursor)

    async def take_account_events(self, limit: int, now_ms: int) -> int:
        self._require(SOURCES_SLICE)
        return await self.kept.take_account_events(limit, now_ms)

    async def claim(self, claimer: str, now_ms: int, until_ms: int, room: Room) -> list[Job]:
        return await self.kept.claim(claimer, now_ms, until_ms, room, self._serving())

    async def finish(self, results: Sequence[JobResult], now_ms: int) -> None:
        own = self._own([result.job for result in results])
        await self.kept.finish([result for result in results if result.job in own], now_ms)

    async def release(self, jobs: Sequence[int], now_ms: int) -> None:
        await self.kept.release(self._own(jobs), now_ms)

    async def recover(self, slices: Collection[int], now_ms: int) -> int:
        return await self.kept.recover([number for number in slices if self._still(number)], now_ms)

    async def put_off(self, jobs: Sequence[int], until_ms: int, now_ms: int) -> None:
        await self.kept.put_off(self._own(jobs), until_ms, now_ms)

    async def pause(self, accounts: Sequence[bytes], now_ms: int, look_ms: int) -> None:
        own = [account for account in accounts if self._still(slice_of(account))]
        await self.kept.pause(own, now_ms, look_ms)

    async def debts(self, now_ms: int, look_ms: int, limit: int) -> list[bytes]:
        return await self.kept.debts(now_ms, look_ms, limit, self._serving())

    async def paid(self, pubkey: bytes, jobs: Sequence[int]) -> bool:
        self._require(slice_of(pubkey))
        return await self.kept.paid(pubkey, jobs)

    async def expire(self, before_ms: int, now_ms: int) -> int:
        self._require(SOURCES_SLICE)
        return await self.kept.expire(before_ms, now_ms)

    async def forget(self, before_ms: int) -> int:
        self._require(SOURCES_SLICE)
        return await self.kept.forget(before_ms)

    async def figures(self) -> QueueFigures:
        return await self.kept.figures(self._held.serving())
