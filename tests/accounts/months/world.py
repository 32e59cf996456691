"""A ledger of three months, of which one or more leave it: three accounts, deposits, refunds, facts, signed
statements."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
import msgspec

from actors.accounts import audit
from actors.accounts.account import Account, Event, Moment, Moved, Profile, new_account
from actors.accounts.checkpoint import Checkpoints
from actors.accounts.core import decide_adjust, decide_settle, decide_void
from actors.accounts.deposits import decide_bonus, decide_deposit, decide_return, deposit_operation
from actors.accounts.held_shards import HeldShards
from actors.accounts.ledger_clock import LedgerClock
from actors.accounts.months.detaching import Detached, detach
from actors.accounts.months.exporting import export
from actors.accounts.months.files import COLUMNS, ExportedMonth, Month, MonthWriter, month_of
from actors.accounts.months.verifying import Row
from actors.accounts.sealing import Sealing
from actors.accounts.signed_links import SignedLinks
from actors.accounts.store import PostgresAccountStore
from actors.accounts.writes import Write
from actors.calls import SettleRequest
from actors.clock import ManualClock
from tests.accounts.making import ALICE, BOB, DEFAULTS, opening_group, pubkey_of, take
from tests.accounts.shards import SHARDS
from tests.accounts.test_sealing import SEAL

NOVEMBER, DECEMBER, JANUARY = map(month_of, ("2023-11", "2023-12", "2024-01"))
OCTOBER = month_of("2023-10")  # Without entries; its table was made with November's.
MONTHS = (NOVEMBER, DECEMBER, JANUARY)
CAROL = pubkey_of("carol")
METHODS = ("getSlot", "getBlock", "getBalance")


def at(at_ms: int) -> Moment:
    return Moment(at_ms, at_ms // 1000)


class Months:
    """roots: the folder of the files of signed statements."""

    def __init__(self, pool: asyncpg.Pool, roots: Path) -> None:
        self.pool, self.store, self.roots = pool, PostgresAccountStore(pool), roots
        self.accounts: dict[bytes, Account] = {}
        self.epoch = self._numbers = 0
        self._chance = random.Random(3)

    async def fill(self) -> None:
        """ALICE is called in all months, BOB in November alone, CAROL from December on."""
        self.epoch = await self.store.take_over("a", SHARDS, False)
        for month in MONTHS:
            await self.store.prepare(month.first_ms)
        for pubkey, opened in ((ALICE, NOVEMBER), (BOB, NOVEMBER), (CAROL, DECEMBER)):
            await self._open(pubkey, opened.first_ms + 1_000)
        await self.deposit(ALICE, NOVEMBER.first_ms + 2_000, 1)
        for month in MONTHS:
            for number in range(6):
                at_ms = month.first_ms + 10_000_000 + number * 300_000_000
                await self.call(ALICE, at_ms, refunded=number % 4 == 0)
                if month is NOVEMBER:
                    await self.call(BOB, at_ms)
                elif number % 2:
                    await self.call(CAROL, at_ms, refunded=number == 3)
            await self.seal(month.first_ms + 20 * 86_400_000)
            # Charges on both sides of the end of the month: one statement has them, and a refund comes in the next one.
            for before_ms in (2, 1, 0, -1, -2):
                await self.call(
                    ALICE, month.next_ms - before_ms, refunded=before_ms == 1, refunded_ms=month.next_ms + 5
                )
            await self.seal(month.next_ms + 3_000)
        await self.deposit(CAROL, JANUARY.first_ms + 40 * 86_400_000, 2)
        await self.seal(JANUARY.first_ms + 41 * 86_400_000)

    async def _open(self, pubkey: bytes, at_ms: int) -> None:
        profile = Profile(at_ms // 1000, ref_code="FRIEND", ref_bonus_bps=1_000)
        account = self.accounts[pubkey] = new_account(pubkey, profile, DEFAULTS)
        await self.store.write(self.epoch, opening_group(account, now_ms=at_ms))
        for number in (1, 2):
            grant = decide_adjust(account, 3_000 * number, "grant", pubkey[:8] + bytes([number]), at(at_ms))
            await self._write(account, at_ms, grant)

    async def opened_late(self, pubkey: bytes, at_ms: int) -> Account:
        """An account that is opened at this time, whatever was written since."""
        await self._open(pubkey, at_ms)
        return self.accounts[pubkey]

    async def deposit(self, pubkey: bytes, at_ms: int, number: int) -> None:
        """Two, one of which is taken back."""
        account = self.accounts[pubkey]
        for index in (0, 1):
            operation = deposit_operation(bytes([number]) * 64, index)
            event = decide_deposit(account, operation, 20_000 + index, 7, 100_000, at(at_ms))
            assert event is not None and event.deposit is not None
            group = Write()
            take(account, event, group, at_ms)
            take(account, decide_bonus(account, event.deposit, at(at_ms)), group, at_ms)
            group.cut({pubkey: account})
            await self.store.write(self.epoch, group)
        await self._write(account, at_ms + 9, decide_return(account, operation, 2_200, "never final", at(at_ms + 9)))

    async def call(self, pubkey: bytes, at_ms: int, *, refunded: bool = False, refunded_ms: int = 0) -> bytes:
        account, self._numbers = self.accounts[pubkey], self._numbers + 1
        operation = b"replica1" + self._numbers.to_bytes(8, "big")
        price = self._chance.randint(1, 9)
        method = self._chance.choice(METHODS)
        request = SettleRequest(operation, pubkey, 1, method, price, price, 0, at_ms // 1000)
        charged = decide_settle(account, request, at(at_ms), True).event
        assert isinstance(charged, Moved)
        await self._write(account, at_ms, charged)
        if refunded:
            later_ms = max(refunded_ms, at_ms)
            await self._write(account, later_ms, decide_void(account, request, at(later_ms), True).event)
        return operation

    async def seal(self, at_ms: int) -> None:
        """Sign all that is in no statement yet."""
        clock = LedgerClock(ManualClock(at_ms))
        sealing = Sealing(self.store.seals, clock, HeldShards(0, SHARDS), SEAL, self.roots, None)
        await sealing.finish()

    async def _write(self, account: Account, at_ms: int, event: Event | None) -> None:
        group = Write()
        take(account, event, group, at_ms)
        group.cut({account.pubkey: account})
        await self.store.write(self.epoch, group)

    async def audited(
        self, *exported: ExportedMonth, roots: bool = False, checkpoints: Checkpoints | None = None
    ) -> list[str]:
        """The sentences of the audit."""
        wanted = checkpoints or Checkpoints()
        wanted.exported = exported
        wanted.signed = SignedLinks([self.roots]) if roots else None
        async with self.pool.acquire() as connection:
            report = await audit.audit(connection, wanted)
        return [fault for _, fault in report.faults]


async def exported(pool: asyncpg.Pool, month: Month, place: Path) -> ExportedMonth:
    async with pool.acquire() as connection:
        return await export(connection, month, place)


async def detached(owner_url: str, month: ExportedMonth, *, drop: bool = True, kept_months: int = 13) -> Detached:
    connection = await asyncpg.connect(owner_url)
    try:
        return await detach(connection, month, kept_months, drop=drop)
    finally:
        await connection.close()


def retold(
    month: ExportedMonth, place: Path, kind: str = "", change: Callable[[list[Row]], list[Row]] = list, **told: Any
) -> ExportedMonth:
    """An export like this one, with other rows of a kind or another manifest, and with digests that fit."""
    writer = MonthWriter(place, month.manifest.of)
    for each in COLUMNS:
        rows = [row for group in month.rows(each) for row in group]
        writer.write(each, change(rows) if each == kind else rows)
    return writer.finish(msgspec.structs.replace(month.manifest, **told))
