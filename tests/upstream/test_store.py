"""One suite for both stores of changes of the nodes; and what only the database shows: URLs are sealed there."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import SecretStr

from actors.provider_config import NodeConfig
from actors.upstream.node_changes import Forget, NodeChange
from actors.upstream.node_reports import NodeStage, ProcessReport, SeenNode
from actors.upstream.store import KeptChanges, NodeChangesUnavailable, PostgresNodeChanges
from tests.databases import as_role, emptied
from tests.upstream.changing import MemoryNodeChanges

URL, WS_URL = SecretStr("http://x/SECRETKEY"), SecretStr("ws://x/SECRETKEY")
NODE = NodeConfig(name="tokyo", url=URL, ws_url=WS_URL, roles=("read", "archive"))
ADDED = NodeChange(id="tokyo", added=NODE, weight=3, network="G")
EMPTY = "TRUNCATE node_changes, node_versions, node_reports"


@pytest.fixture(params=["memory", "postgres"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    if request.param == "memory":
        yield MemoryNodeChanges()
        return
    urls = [request.getfixturevalue(name) for name in ("postgres_url", "owner_url")]
    async with emptied(*urls, EMPTY, connections_max=4) as pool:
        yield PostgresNodeChanges(pool, b"s" * 32)


async def test_each_change_makes_the_next_version(store: Any) -> None:
    assert await store.read() == KeptChanges() and await store.version() == 0
    drained = NodeChange(id="one", is_drained=True)
    assert await store.change(lambda kept: drained if kept == KeptChanges() else None) == (drained, 1)
    assert await store.change(lambda _: ADDED) == (ADDED, 2)
    assert await store.change(lambda kept: len(kept.changes)) == (2, 2)  # A refusal changes nothing.
    await store.keep_network("G")
    assert await store.read() == KeptChanges(2, "G", (drained, ADDED))
    assert await store.change(lambda _: Forget("one")) == (Forget("one"), 3)
    assert (await store.read()).changes == (ADDED,) and await store.version() == 3


async def test_commands_at_once_see_each_other(store: Any) -> None:
    """Between the look and the write of one there is no other."""

    def one_more(kept: KeptChanges) -> NodeChange:
        return NodeChange(id="one", weight=len(kept.changes) + sum(change.weight or 0 for change in kept.changes))

    await asyncio.gather(*(store.change(one_more) for _ in range(4)))
    (change,) = (await store.read()).changes
    assert (change.weight, await store.version()) == (3, 4)


async def test_the_newest_report_of_each_process_is_told(store: Any) -> None:
    figures = SeenNode(id="one", stage=NodeStage.DRAINED, health="well", calls=3, slot=7)
    for version in (1, 2):
        await store.tell(ProcessReport("gateway-1", version, (figures,), ("a limit",)))
    assert await store.reports(15) == [ProcessReport("gateway-1", 2, (figures,), ("a limit",))]
    await store.forget_silent()
    assert len(await store.reports(15)) == 1


async def test_the_database_has_no_url_in_clear(postgres_url: str, owner_url: str) -> None:
    """Threat 9: a copy of the database is no set of keys. Another secret reads none of them, and the change stays."""
    async with emptied(postgres_url, owner_url, EMPTY) as pool:
        await PostgresNodeChanges(pool, b"s" * 32).change(lambda _: ADDED)
        text = await pool.fetchval("SELECT node_changes::text || encode(sealed, 'escape') FROM node_changes")
        assert "SECRETKEY" not in text and "tokyo" in text
        (change,) = (await PostgresNodeChanges(pool, b"t" * 32).read()).changes
        assert (change.id, change.is_readable, change.added, change.weight) == ("tokyo", False, None, 3)
        # A sealed URL under another id is not believed either.
        await as_role(owner_url, "UPDATE node_changes SET id = 'paris'")
        (moved,) = (await PostgresNodeChanges(pool, b"s" * 32).read()).changes
        assert not moved.is_readable


async def test_silent_processes_are_forgotten(postgres_url: str, owner_url: str) -> None:
    async with emptied(postgres_url, owner_url, EMPTY) as pool:
        store = PostgresNodeChanges(pool, b"s" * 32)
        await store.tell(ProcessReport("gateway-1", 1))
        await as_role(owner_url, "UPDATE node_reports SET told_at = now() - interval '20 seconds'")
        assert await store.reports(15) == [] and len(await store.reports(30)) == 1
        await as_role(owner_url, "UPDATE node_reports SET told_at = now() - interval '2 hours'")
        await store.forget_silent()
        assert await store.reports(1_000_000) == []


async def test_a_database_that_is_away_has_its_own_error(postgres_url: str, owner_url: str) -> None:
    async with emptied(postgres_url, owner_url) as pool:
        store = PostgresNodeChanges(pool, b"s" * 32)
        await pool.close()
        asked = (
            store.version(),
            store.read(),
            store.change(lambda _: ADDED),
            store.reports(1),
            store.keep_network("G"),
        )
        for each in (*asked, store.tell(ProcessReport("a", 1)), store.forget_silent()):
            with pytest.raises(NodeChangesUnavailable):
                await each
