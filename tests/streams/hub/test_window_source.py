"""What replicas are told of the window, over the node's real stream."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actors.geyser_proto import geyser_pb2
from actors.streams.api import AskBlock, AskWindow
from actors.streams.hub import window_source
from actors.streams.hub.window_source import WindowSource
from tests.streams.geyser_world import GeyserWorld, geyser_world
from tests.streams.yellowstone.test_blocks import whole


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[GeyserWorld]:
    async with geyser_world(tmp_path, keeps_window=True) as made:
        await made.until(lambda: source(made).window.first_slot is not None)
        yield made


def source(world: GeyserWorld) -> WindowSource:
    assert world.source is not None
    return world.source


async def test_an_answer_waits_for_something_new(world: GeyserWorld) -> None:
    """One question at a time, answered when there is something: no replica asks in a loop."""
    there = source(world).ask_window(AskWindow(0, 0, 0, 0, 10_000))
    assert not isinstance(there, asyncio.Future) and there.entries  # type: ignore[union-attr]
    part = there
    waiting = source(world).ask_window(AskWindow(part.epoch, part.newest, 0, 0, 10_000))  # type: ignore[union-attr]
    asked = asyncio.ensure_future(waiting)  # type: ignore[arg-type]
    await asyncio.sleep(0)
    assert not asked.done()
    world.local.beat()
    found = await asked
    assert found.entries and found.entries[0].number == part.newest + 1  # type: ignore[union-attr]
    other = source(world).ask_window(AskWindow(part.epoch + 9, 0, 0, 0, 10_000))  # type: ignore[union-attr]
    assert other.entries == () and other.epoch == part.epoch  # type: ignore[union-attr]


async def test_a_block_comes_in_parts(world: GeyserWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block may be larger than a frame; one that is gone is told as such."""
    monkeypatch.setattr(window_source, "_BLOCK_PART_BYTES", 100)
    newest = source(world).window.last_slot
    await world.until(lambda: source(world).window.block(newest + 1) is not None)
    part = await _asked(source(world), AskWindow(0, 0, 0, 0, 0))
    slot = next(entry.slot for entry in part.entries if entry.status is None)
    body = b""
    while True:
        got = source(world).ask_block(AskBlock(part.epoch, slot, len(body)))
        body += got.data
        if len(body) == got.size:
            break
        assert len(got.data) == 100
    assert whole(body).slot == slot
    assert source(world).ask_block(AskBlock(part.epoch, 0, 0)).size is None
    assert source(world).ask_block(AskBlock(part.epoch + 1, slot, 0)).size is None


async def _asked(asked: WindowSource, request: AskWindow):  # type: ignore[no-untyped-def]
    found = asked.ask_window(request)
    return await found if asyncio.iscoroutine(found) else found


async def test_a_new_window_is_filled_from_the_node(world: GeyserWorld) -> None:
    """A hub that is started again has at once what the node still has, and its window is another one."""
    world.local.beat(20)
    before = source(world)
    await world.until(lambda: before.window.last_slot >= world.local.chain.levels.building.slot - 1)
    again = WindowSource(before._feeds, before._settings, before._epoch + 50)
    again.start()
    await world.until(lambda: again.window.first_slot is not None)
    assert again.window.first_slot is not None and again._epoch > before._epoch
    assert again.window.first_slot < world.local.chain.levels.building.slot - 15
    wanted = window_source.wanted_blocks(5)
    request = geyser_pb2.SubscribeRequest.FromString(wanted.request(wanted.from_slot))
    assert request.from_slot == 5 and request.blocks["b0"].include_entries
    await again.stop()
