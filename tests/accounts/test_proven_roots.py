"""What is told to those who publish statements elsewhere: the newest of each series, and nothing that is foreign."""

import pytest

from actors.accounts.proven_roots import ProvenRoots, RootsUnavailable
from actors.accounts.store import AccountStore
from actors.accounts.stored import StoreUnavailable
from actors.clock import ManualClock
from actors.telemetry.metrics import Metrics
from tests.accounts.memory_store import MemoryAccountStore
from tests.accounts.shards import SHARDS
from tests.accounts.test_sealing import Ledger


def roots_of(store: AccountStore, secret: bytes = b"secret") -> ProvenRoots:
    return ProvenRoots(store.seals, ManualClock(), secret, Metrics())


async def test_the_newest_of_each_series_is_told(store: AccountStore) -> None:
    ledger = Ledger(store, await store.take_over("a", SHARDS, False))
    assert await roots_of(store).newest() == []
    for index, count in ((0, 2), (4, 1)):
        sealing = ledger.sealing(index)
        for _ in range(count):
            await ledger.write(told=sealing)
            await sealing.finish()
    told = await roots_of(store).newest()
    assert [(one.series, one.number) for one in told] == [(0, 2), (4, 1)]
    wanted = [await store.seals.newest(series) for series in (0, 4)]
    assert [one.digest for one in told] == [signed.digest for signed in wanted if signed is not None]
    before = await store.seals.keys()
    assert await roots_of(store, b"another").newest() == [], "nothing of it is this secret's"
    assert await store.seals.keys() == before, "who only reads makes no key"


async def test_a_series_with_a_foreign_statement_is_left_out_and_named_once(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryAccountStore(clock)
    ledger = Ledger(store, await store.take_over("a", SHARDS, False))
    for index in (0, 1):
        sealing = ledger.sealing(index)
        await ledger.write(told=sealing)
        await sealing.finish()
    store.seals.statements[0, 2] = store.seals.statements[0, 1]
    roots = roots_of(store)
    for _ in range(2):
        assert [one.series for one in await roots.newest()] == [1]
    assert caplog.text.count("is not published") == 1


async def test_a_database_that_is_away_is_said_so(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryAccountStore(clock)

    async def away() -> list[int]:
        raise StoreUnavailable("nobody listens")

    monkeypatch.setattr(store.seals, "series", away)
    with pytest.raises(RootsUnavailable, match="nobody listens"):
        await roots_of(store).newest()
