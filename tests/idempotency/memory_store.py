"""The store of Idempotency-Keys in memory, for tests; it passes the suite of the real one."""

from dataclasses import replace

from actors.idempotency.core import KeyRecord
from actors.idempotency.store import KeysUnavailable


class MemoryIdempotencyStore:
    """away: nothing can be asked."""

    def __init__(self) -> None:
        self.records: dict[tuple[bytes, str], KeyRecord] = {}
        self.away = False

    async def claim(self, mine: KeyRecord, now_ms: int, keys_max: int) -> KeyRecord | None:
        self._check()
        name = (mine.scope, mine.key)
        stored = self.records.get(name)
        if stored is not None and stored.expires_at_ms <= now_ms:
            del self.records[name]
        if name not in self.records and sum(scope == mine.scope for scope, _ in self.records) >= keys_max:
            return None
        return self.records.setdefault(name, mine)

    async def take_over(self, stored: KeyRecord, attempt: bytes, lease_until_ms: int) -> bool:
        return self._change(stored, attempt=attempt, lease_until_ms=lease_until_ms)

    async def leave(self, mine: KeyRecord) -> None:
        self._change(mine, lease_until_ms=0)

    async def keep(self, mine: KeyRecord, answer: bytes, charged: int) -> bool:
        return self._change(mine, answered=True, answer=answer, charged=charged)

    async def forget(self, mine: KeyRecord) -> None:
        self._check()
        stored = self.records.get((mine.scope, mine.key))
        if stored is not None and stored.attempt == mine.attempt:
            del self.records[mine.scope, mine.key]

    async def forget_expired(self, now_ms: int, limit: int) -> int:
        self._check()
        old = sorted((each for each in self.records.values() if each.expires_at_ms <= now_ms), key=_age)[:limit]
        for record in old:
            del self.records[record.scope, record.key]
        return len(old)

    def _change(self, record: KeyRecord, **fields: object) -> bool:
        self._check()
        name = (record.scope, record.key)
        stored = self.records.get(name)
        if stored is None or stored.attempt != record.attempt or stored.answered:
            return False
        self.records[name] = replace(stored, **fields)  # type: ignore[arg-type]
        return True

    def _check(self) -> None:
        if self.away:
            raise KeysUnavailable("away")


def _age(record: KeyRecord) -> int:
    return record.expires_at_ms
