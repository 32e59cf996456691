"""The sender's actor class over real PostgreSQL and a chain in this process, without Ray."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from actors.accounts.sealing import Sealing
from actors.accounts.store import PostgresAccountStore
from actors.actor_settings import part_of
from actors.config import Config, StorageConfig
from actors.deposits.x402.sponsor_key import key_text
from actors.memos import host
from actors.memos.host import MemoSenderActor
from actors.provider_config import MemosConfig
from actors.receipts.root_keys import KeySeal
from actors.telemetry import logs, metrics_page
from tests.accounts.conftest import empty_database
from tests.accounts.making import START
from tests.accounts.shards import SHARDS
from tests.accounts.test_sealing import Ledger
from tests.databases import as_role
from tests.memos.world import World

SECRET = "s" * 32


async def test_a_statement_of_the_ledger_comes_onto_the_chain(
    postgres_url: str, owner_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the database, where an owner has written it, and only with this cluster's secret."""
    monkeypatch.setattr(logs, "set_up", lambda *_: None)
    monkeypatch.setattr(metrics_page, "tune_gc", lambda: None)
    await as_role(owner_url, "TRUNCATE root_memos")
    world = World(tmp_path)
    async with empty_database(postgres_url, owner_url) as pool:
        store = await _store(pool)
        ledger = Ledger(store, await store.take_over("a", SHARDS, False))
        sealing: Sealing = ledger.sealing(seal=KeySeal(SECRET.encode()))
        await ledger.write(told=sealing)
        await sealing.finish()
        newest = await store.seals.newest(0)
        assert newest is not None
        for secret, wanted in (("t" * 32, []), (SECRET, [f"ledger-gateway root 0 1 {newest.digest.hex()}"])):
            actor = await _actor(postgres_url, secret, world)
            health = await actor.health()
            assert health["payer"] == world.address
            await actor._sender.stop()
            await actor._sender.tick()
            world.local.finalize()
            assert world.memos() == wanted


async def _store(pool: Any) -> Any:
    store = PostgresAccountStore(pool)
    await store.prepare(START.wall_ms)
    return store


async def _actor(postgres_url: str, secret: str, world: World) -> Any:
    async def open_node(config: Config) -> Any:
        assert config.memos.enabled
        return Nodes(world)

    storage = StorageConfig(postgres_url=SecretStr(postgres_url), cluster_secret=SecretStr(secret))
    memos = MemosConfig(enabled=True, key=SecretStr(key_text(bytes(world.payer)[:32])))
    return MemoSenderActor(part_of(Config(storage=storage, memos=memos), host.USES), "fingerprint", open_node)


class Nodes:
    single_nodes = ()

    def __init__(self, world: World) -> None:
        self.call = world.node.call


def test_memos_that_are_off_end_the_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that runs since they were on would go on paying."""
    done: list[Any] = []
    monkeypatch.setattr(host.hosting, "remove", lambda name: done.append(("removed", name)))
    monkeypatch.setattr(
        host.hosting, "place_with_settings", lambda kind, name, *_, may_share: done.append((kind, name)) or "there"
    )
    placed = [host.place_sender(Config(memos=MemosConfig(enabled=on)), lambda _: None) for on in (False, True)]  # type: ignore[arg-type]
    assert done == [("removed", host.ACTOR_NAME), (MemoSenderActor, host.ACTOR_NAME)] and placed == [None, "there"]
