"""The watcher's actor class over real PostgreSQL and a made-up chain, without Ray."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import SecretStr

from actors.actor_settings import part_of
from actors.config import Config, PaymentsConfig, StorageConfig
from actors.deposits.usdc import host
from actors.deposits.usdc.host import DepositWatcherActor
from actors.errors import Err
from actors.telemetry import logs
from tests.databases import as_role
from tests.deposits.conftest import TABLES
from tests.deposits.world import ACCOUNT, FakeAccounts, FakeChain, key_of

ALICE, BOB = key_of("alice"), key_of("bob")


@pytest.fixture
async def actor(postgres_url: str, owner_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    monkeypatch.setattr(logs, "set_up", lambda *_: None)
    monkeypatch.setattr(host.hosting, "tune_gc", lambda: None)
    chain, accounts = FakeChain(), FakeAccounts()

    async def open_accounts(_: Config) -> Any:
        return accounts

    async def open_node(_: Config) -> Any:
        return chain

    payments = PaymentsConfig(network="devnet", deposit_wallet=ACCOUNT.wallet)
    config = Config(storage=StorageConfig(postgres_url=SecretStr(postgres_url)), payments=payments)
    made: Any = DepositWatcherActor(part_of(config, host.USES), "fingerprint", open_accounts, open_node)
    made.chain, made.accounts = chain, accounts
    yield made
    await made._watcher.stop()
    await made._store._pool.close()  # First: a statement that the stop cut off holds its locks until then.
    await as_role(owner_url, f"TRUNCATE {TABLES}")


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
