"""The watcher's actor class over real PostgreSQL and a made-up chain, without Ray."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pydantic import SecretStr

from actors.actor_settings import part_of
from actors.config import Config, PaymentsConfig, StorageConfig
from actors.deposits.api import STANDBY_ACTOR_NAME, WATCHER_ACTOR_NAME, CountTransfers, StandsBy
from actors.deposits.usdc import host
from actors.deposits.usdc.host import DepositWatcherActor
from actors.errors import Err
from actors.ownership.pulses import Pulse
from actors.telemetry import logs, metrics_page
from tests.databases import as_role
from tests.deposits.conftest import TABLES
from tests.deposits.world import ACCOUNT, FakeAccounts, FakeChain, key_of

ALICE, BOB = key_of("alice"), key_of("bob")


@pytest.fixture
async def pair(postgres_url: str, owner_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """The watcher and its standby, on one chain."""
    monkeypatch.setattr(logs, "set_up", lambda *_: None)
    monkeypatch.setattr(metrics_page, "tune_gc", lambda: None)
    for name in ("LOOK_SECONDS", "AGAIN_SECONDS"):
        monkeypatch.setattr(host, name, 0.01)
    chain, accounts = FakeChain(), FakeAccounts()

    async def open_accounts(_: Config) -> Any:
        return accounts

    async def open_node(_: Config) -> Any:
        return chain

    payments = PaymentsConfig(network="devnet", deposit_wallet=ACCOUNT.wallet)
    config = part_of(Config(storage=StorageConfig(postgres_url=SecretStr(postgres_url)), payments=payments), host.USES)
    made: list[Any] = [
        DepositWatcherActor(config, "fingerprint", name, open_accounts, open_node)
        for name in (WATCHER_ACTOR_NAME, STANDBY_ACTOR_NAME)
    ]
    for each in made:
        each.chain, each.accounts = chain, accounts
    yield made
    for each in made:
        await each._background.stop()
        if each._watcher is not None:
            await each._watcher.stop()
        if each._starting is not None:
            await each._store._pool.close()  # First: a statement that the stop cut off holds its locks until then.
    await as_role(owner_url, f"TRUNCATE {TABLES}")


@pytest.fixture
def actor(pair: list[Any]) -> Any:
    return pair[0]


async def test_its_first_question_starts_it(actor: Any) -> None:
    """Ray restarts the process and calls no start method, so any first call must start it."""
    sent = actor.chain.pay(("alice", 10_000))
    (part,), is_final = await actor.confirm(sent.signature)
    # The watcher that the question starts may credit the transfer before the question does.
    assert (part.pubkey, is_final) == (ALICE, True) and part.added in (0, 1_000)
    assert (await actor.health())["subscribed"] is False
    assert await actor.fingerprint() == "fingerprint"


async def test_refusals_are_values(actor: Any) -> None:
    """Refusals are values, because exceptions do not cross processes unchanged."""
    refusal, _ = await actor.confirm(b"s" * 64)
    assert refusal.err is Err.DEPOSIT_NOT_FOUND and refusal.detail


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - nobody says when.
            await asyncio.sleep(0.01)


async def test_the_standby_takes_over_from_a_watcher_that_hangs(
    pair: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It credits what comes from then on, by the next epoch; the one that hung writes nothing more, and ends."""
    first, standby = pair
    answers, ended = True, asyncio.Event()

    async def look(_: Any, names: list[str], _seconds: float) -> dict[str, Pulse]:
        return dict.fromkeys(names, Pulse.ANSWERED if answers else Pulse.SILENT)

    monkeypatch.setattr(host.Pulses, "look", look)
    monkeypatch.setattr(host.os, "_exit", lambda _: ended.set())
    assert (await first.health())["epoch"] > 0 and (await standby.health())["epoch"] == 0
    sent = first.chain.pay(("alice", 10_000))
    assert await standby.confirm(sent.signature) == StandsBy() == await standby.ask(CountTransfers())
    answers = False
    await _until(lambda: standby._watcher is not None)
    (part,), _ = await standby.confirm(sent.signature)
    assert part.pubkey == ALICE and first.accounts.balances == {ALICE: 1_000}
    assert (await standby.ask(CountTransfers()))["epoch"] > (await first.health())["epoch"]
    first.chain.pay(("bob", 20_000))
    first._watcher.wake.set()
    async with asyncio.timeout(20):
        await ended.wait()
    standby._watcher.wake.set()
    await _until(lambda: BOB in first.accounts.balances)
    assert first.accounts.balances == {ALICE: 1_000, BOB: 2_000}


def test_as_many_are_placed_as_the_settings_have(monkeypatch: pytest.MonkeyPatch) -> None:
    placed: list[tuple[str, bool]] = []
    kept: list[list[str]] = []

    def place(_: type, name: str, *__: Any, may_share: bool) -> None:
        placed.append((name, may_share))

    monkeypatch.setattr(host.hosting, "place_with_settings", place)
    monkeypatch.setattr(host.hosting, "remove_others", lambda prefix, names: kept.append([prefix, *names]))
    opener: Any = None
    for watchers in (2, 1):
        host.place_watchers(Config(payments=PaymentsConfig(deposit_watchers=watchers)), opener, opener)
    # Where small actors share a process, the standby is not in it: it is there for the time when that is away.
    assert placed == [("deposit-watcher", True), ("deposit-watcher-1", False), ("deposit-watcher", True)]
    assert kept == [["deposit-watcher", "deposit-watcher", "deposit-watcher-1"], ["deposit-watcher", "deposit-watcher"]]
