"""The parts that all doors share are built from settings that are complete, and once."""

from dataclasses import replace

import pytest

from actors.config import ServeConfig
from actors.gateway.doors.parts import Dependencies, shared_parts
from tests.gateway.world import Pages, a_world


async def test_every_door_of_a_replica_has_the_same_origin_and_its_own_operations() -> None:
    """Operation ids of two replicas never meet; the public URL is the configured one where there is one."""
    async with a_world() as world:
        config = world.config.model_copy(update={"serve": ServeConfig(public_url="https://gateway.example")})
        given = Dependencies(config, world.accounts, world.node, world.identity_store, Pages(), world.clock)
        first, second = shared_parts(given), shared_parts(given)
        assert first.replica_id != second.replica_id and len(first.replica_id) == 8
        assert first.public_url == "https://gateway.example"
        assert shared_parts(replace(given, replica_id=b"replica0")).replica_id == b"replica0"
        assert "getBalance" in first.offered and "sendAndConfirm" not in first.offered


async def test_without_the_secret_of_the_cluster_nothing_is_built() -> None:
    """The launcher makes one; a door without it could be told any client address."""
    async with a_world() as world:
        storage = world.config.storage.model_copy(update={"cluster_secret": None})
        config = world.config.model_copy(update={"storage": storage})
        with pytest.raises(AssertionError, match="secret"):
            shared_parts(Dependencies(config, world.accounts, world.node, world.identity_store, Pages(), world.clock))
