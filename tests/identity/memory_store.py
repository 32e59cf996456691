"""Keeps in memory what Redis keeps for identity; it passes the same tests as the Redis store."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from actors.clock import Clock, SystemClock
from actors.identity.client_addresses import Counts
from actors.identity.store import ClaimedRecord, NotTheOwner, TakenNonce
from actors.units import VirtualShard


@dataclass(slots=True)
class _Record:
    epoch: int
    forgotten_until: int = 0
    lost_until: int = 0
    nonces: dict[tuple[bytes, str], int] = field(default_factory=dict)


class MemoryIdentityStore:
    def __init__(self, clock: Clock | None = None) -> None:
        self._clock: Clock = clock or SystemClock()
        self._records: dict[VirtualShard, _Record] = {}
        self._sessions: dict[bytes, tuple[bytes, int]] = {}
        self._counts = Counts()

    async def claim_nonces(
        self, epoch: int, shards: Sequence[VirtualShard], *, expected: int | None, over: int, lost_until: int
    ) -> list[ClaimedRecord]:
        for shard in shards:
            found = self._records.get(shard)
            if found is not None and found.epoch > max(epoch, over):
                raise NotTheOwner(found.epoch)
        claimed: list[ClaimedRecord] = []
        for shard in shards:
            before = self._records.get(shard)
            record = self._records.setdefault(shard, _Record(epoch))
            if before is None or expected not in (None, before.epoch):
                record.lost_until = max(record.lost_until, lost_until)
            epoch_before, record.epoch = 0 if before is None else record.epoch, epoch
            nonces = [(pubkey, text, good_until) for (pubkey, text), good_until in record.nonces.items()]
            claimed.append(ClaimedRecord(epoch_before, record.forgotten_until, record.lost_until, nonces))
        return claimed

    async def take_nonces(self, epoch: int, entries: Sequence[TakenNonce]) -> None:
        records = self._owned(epoch, {entry.shard for entry in entries})
        for shard, pubkey, text, good_until in entries:
            records[shard].nonces[pubkey, text] = good_until

    async def forget_nonces(self, epoch: int, shards: Sequence[VirtualShard], until: int) -> None:
        for record in self._owned(epoch, shards).values():
            kept = {key: good_until for key, good_until in record.nonces.items() if good_until > until}
            if len(kept) < len(record.nonces):
                record.nonces, record.forgotten_until = kept, max(record.forgotten_until, until)

    def _owned(self, epoch: int, shards: Iterable[VirtualShard]) -> dict[VirtualShard, _Record]:
        found = {shard: record for shard in shards if (record := self._records.get(shard)) is not None}
        if any(shard not in found or found[shard].epoch != epoch for shard in shards):
            raise NotTheOwner
        return found

    async def put_session(self, token_hash: bytes, pubkey: bytes, expires_at: int) -> None:
        self._sessions[token_hash] = (pubkey, expires_at)

    async def load_session(self, token_hash: bytes) -> tuple[bytes, int] | None:
        session = self._sessions.get(token_hash)
        if session is not None and session[1] <= self._clock.now():
            del self._sessions[token_hash]
            return None
        return session

    async def slide_sessions(self, entries: Sequence[tuple[bytes, int]]) -> None:
        now = self._clock.now()
        for token_hash, expires_at in entries:
            session = self._sessions.get(token_hash)
            if session is not None and now < session[1] < expires_at:
                self._sessions[token_hash] = (session[0], expires_at)

    async def drop_session(self, token_hash: bytes) -> None:
        self._sessions.pop(token_hash, None)

    async def count_address(self, address: str, minute: int, amount: int) -> int:
        return self._counts.add(address, minute, amount)
