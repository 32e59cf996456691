"""Keep in memory what PostgreSQL keeps for deposits and payments; they pass the same tests as the PostgreSQL stores."""

from collections.abc import Sequence
from dataclasses import replace

from actors.deposits.usdc.chain import Seen
from actors.deposits.usdc.core import Finding, FindingStatus
from actors.deposits.usdc.store import Cursor, Gap, Postponed, Totals
from actors.deposits.x402.sponsor_limits import Standing
from actors.deposits.x402.states import PaymentKind, PaymentState, Record

_LANDED = (PaymentState.CREDITED, PaymentState.FINAL)


class MemoryDepositStore:
    def __init__(self) -> None:
        self.cursors: dict[str, Cursor] = {}
        self.inbox: dict[tuple[str, bytes], tuple[Seen, int]] = {}
        self.postponed: dict[tuple[str, bytes], Postponed] = {}
        self.findings: dict[tuple[str, bytes, int], Finding] = {}
        self.gaps: dict[str, set[Gap]] = {}

    async def prepare(self) -> None:
        return None

    async def cursor(self, account: str) -> Cursor | None:
        return self.cursors.get(account)

    async def add(self, account: str, page: Sequence[Seen], first_position: int) -> None:
        for number, seen in enumerate(page):
            self.inbox.setdefault((account, seen.signature), (seen, first_position - number))

    async def move_cursor(self, account: str, cursor: Cursor, gap: Gap | None, now_ms: int) -> None:
        del now_ms
        kept = self.cursors.get(account)
        if kept is None or (cursor.slot, cursor.read_slot) >= (kept.slot, kept.read_slot):
            self.cursors[account] = cursor
        if gap is not None:
            self.gaps.setdefault(account, set()).add(gap)

    async def oldest(self, account: str, limit: int, now_ms: int) -> list[Seen]:
        rows = [
            row
            for key, row in self.inbox.items()
            if key[0] == account and (key not in self.postponed or self.postponed[key].try_at_ms <= now_ms)
        ]
        return [seen for seen, _ in sorted(rows, key=lambda row: (row[0].slot, row[1]))[:limit]]

    async def postpone(self, account: str, rows: Sequence[Postponed]) -> None:
        self.postponed |= {(account, row.signature): row for row in rows if (account, row.signature) in self.inbox}

    async def postponed_for(self, account: str, authorities: Sequence[str], now_ms: int) -> dict[str, int]:
        rows = [row for (owner, _), row in self.postponed.items() if owner == account and row.try_at_ms > now_ms]
        found: dict[str, int] = {}
        for row in rows:
            for authority in row.waits_for.intersection(authorities):
                found[authority] = max(found.get(authority, 0), row.try_at_ms)
        return found

    async def record(self, account: str, findings: Sequence[Finding], done: Sequence[bytes], now_ms: int) -> None:
        del now_ms
        for finding in findings:
            key = (account, finding.signature, finding.index)
            kept = self.findings.get(key)
            if kept is None or kept.status not in (FindingStatus.CREDITED, FindingStatus.ASSIGNED):
                self.findings[key] = finding
        for signature in done:
            self.inbox.pop((account, signature), None)
            self.postponed.pop((account, signature), None)

    async def assign(self, account: str, finding: Finding, now_ms: int) -> None:
        del now_ms
        key = (account, finding.signature, finding.index)
        kept = self.findings[key]
        if kept.status == FindingStatus.LISTED:
            self.findings[key] = replace(
                kept, status=finding.status, pubkey=finding.pubkey, credits=finding.credits, note=finding.note
            )

    async def find(self, account: str, signature: bytes) -> list[Finding]:
        found = [row for (owner, name, _), row in self.findings.items() if (owner, name) == (account, signature)]
        return sorted(found, key=lambda row: row.index)

    async def listing(self, account: str, status: FindingStatus | None, limit: int, offset: int) -> list[Finding]:
        found = [row for (owner, *_), row in self.findings.items() if owner == account and status in (None, row.status)]
        found.sort(key=lambda row: (-row.slot, row.signature, row.index))
        return found[offset : offset + limit]

    async def waiting(self, account: str) -> int:
        return sum(owner == account for owner, _ in self.inbox)

    async def totals(self, account: str) -> Totals:
        counts = dict.fromkeys(FindingStatus, 0)
        for (owner, *_), row in self.findings.items():
            counts[row.status] += owner == account
        return Totals(await self.waiting(account), counts, sorted(self.gaps.get(account, ())))


class MemoryPaymentStore:
    def __init__(self) -> None:
        self.records: dict[bytes, Record] = {}
        self._look_at: dict[bytes, int] = {}

    async def find(self, message_hash: bytes) -> Record | None:
        return self.records.get(message_hash)

    async def claim(self, record: Record, look_at_ms: int) -> bool:
        if record.message_hash in self.records or any(_excludes(other, record) for other in self.records.values()):
            return False
        self.records[record.message_hash] = record
        self._look_at[record.message_hash] = look_at_ms
        return True

    async def move(self, record: Record, look_at_ms: int) -> bool:
        kept = self.records[record.message_hash]
        if not kept.state.open or record.state < kept.state:
            return False
        self.records[record.message_hash] = replace(
            kept,
            state=record.state,
            transaction=record.transaction,
            signature=record.signature,
            slot=record.slot,
            reason=record.reason,
            fee_lost=record.fee_lost,
        )
        self._look_at[record.message_hash] = look_at_ms
        return True

    async def due(self, now_ms: int, look_at_ms: int, limit: int) -> list[Record]:
        waiting = sorted(
            (at, key) for key, at in self._look_at.items() if at <= now_ms and self.records[key].state.open
        )
        for _, key in waiting[:limit]:
            self._look_at[key] = look_at_ms
        return [self.records[key] for _, key in waiting[:limit]]

    async def standing(self, payer: bytes, source: bytes, address: str, minute_ms: int, hour_ms: int) -> Standing:
        sponsored = [record for record in self.records.values() if record.kind is not PaymentKind.SELF_PAID]
        lost = sum(one.fee_lost and (one.payer == payer or one.source == source) for one in sponsored)
        landed = sum(one.payer == payer and one.state in _LANDED for one in self.records.values())
        recent = [one for one in sponsored if one.newcomer and one.created_at_ms >= hour_ms]
        return Standing(
            sum(one.payer == payer and one.created_at_ms >= minute_ms for one in sponsored),
            lost,
            min(landed, lost + 1),
            sum(one.fee_lost for one in recent),
            sum(one.brought_by == address != "" and (one.fee_lost or _is_under_way(one)) for one in recent),
        )

    async def forget(self, before_ms: int, unsigned_before_ms: int) -> int:
        old = [
            key
            for key, one in self.records.items()
            if not one.state.open
            and one.created_at_ms < (unsigned_before_ms if one.state is PaymentState.ABANDONED else before_ms)
        ]
        for key in old:
            del self.records[key], self._look_at[key]
        return len(old)


def _is_under_way(record: Record) -> bool:
    return record.state < PaymentState.CREDITED


def _excludes(other: Record, record: Record) -> bool:
    """Whether this record may not be claimed while the other one is under way. A record without a source excludes no
    other."""
    if (
        PaymentKind.SELF_PAID in (other.kind, record.kind)
        or not _is_under_way(other)
        or not (other.source and record.source)
    ):
        return False
    return other.payer == record.payer or other.source == record.source
