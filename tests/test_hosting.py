"""Guards what a call to a silent actor becomes."""

import asyncio
import gc
import os
import subprocess
import sys
from typing import Any

import pytest
from ray.exceptions import ActorDiedError

from actors import hosting
from actors.free_memory import tune_gc
from bench.product import ROOT


class _Silent:
    """An actor handle whose method never answers."""

    class method:
        @staticmethod
        def remote(*_: Any) -> "asyncio.Future[None]":
            return asyncio.get_running_loop().create_future()


async def test_a_silent_actor_is_unreachable_in_time() -> None:
    """Rule: no call waits for ever; what is not known is said to be not known."""
    with pytest.raises(hosting.ActorUnreachable):
        await hosting.ask(_Silent(), "method", wait_seconds=0.01)


class _OfAnotherRelease:
    """A handle of Ray's, which raises this for a method that the actor's class lacks."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


async def test_an_actor_of_a_release_without_the_method_is_unreachable() -> None:
    """Owners of 0.1.0 know no moves: a deployment that asks them for one goes on, and ends them."""
    with pytest.raises(hosting.ActorUnreachable, match="give"):
        await hosting.ask(_OfAnotherRelease(), "give")


class _Actor:
    """A handle of Ray's: of one actor, which answers its number until it is killed for good."""

    def __init__(self, number: int) -> None:
        self.number, self.is_dead, self.method = number, False, self

    async def remote(self) -> int:
        if self.is_dead:
            raise ActorDiedError
        return self.number


async def test_an_actor_that_was_replaced_is_found_again_by_its_name() -> None:
    """Rule: a new deployment replaces an actor, and those that hold a handle of the former one go on with the new one.
    The call that met the dead one is not made again: the former actor may have done its work."""
    actors = [_Actor(1)]
    reference = hosting.Reference("name", actors[0], lambda _: actors[-1])
    assert await hosting.ask(reference, "method") == 1
    actors[0].is_dead = True
    actors.append(_Actor(2))
    with pytest.raises(hosting.ActorUnreachable):
        await hosting.ask(reference, "method")
    assert await hosting.ask(reference, "method") == 2


async def test_a_name_without_an_actor_is_looked_up_again_at_the_next_call() -> None:
    found: list[_Actor] = []

    def find(name: str) -> _Actor:
        if not found:
            raise hosting.ActorUnreachable(name)
        return found[0]

    reference = hosting.Reference("name", find=find)
    with pytest.raises(hosting.ActorUnreachable, match="name"):
        await hosting.ask(reference, "method")
    found.append(_Actor(3))
    assert await hosting.ask(reference, "method") == 3


def test_memory_is_settled_for_a_process_that_lives_long() -> None:
    """Rule: cycles are still collected, only rarely, and what is there for good is not looked through again."""
    thresholds = gc.get_threshold()
    try:
        tune_gc()
        assert gc.isenabled() and gc.get_threshold()[0] > thresholds[0]
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)


def test_looking_for_an_actor_starts_no_cluster() -> None:
    """Ray starts a cluster of its own in a process that looks for an actor without having joined one."""
    import ray

    for ask in (lambda: hosting.find("nobody"), hosting.this_node):
        with pytest.raises(hosting.ActorUnreachable, match="not connected to a cluster"):
            ask()
    assert not ray.is_initialized()


_TWO_NODES = """
import asyncio, os, sys
import ray
from ray.cluster_utils import Cluster
from actors import hosting

class One:
    async def fingerprint(self):
        return "same"
    async def where(self):
        return ray.get_runtime_context().get_node_id(), os.getpid()

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
other = cluster.add_node(num_cpus=1)
ray.init(address=cluster.address, namespace=hosting.NAMESPACE, log_to_driver=False)
nodes = [node["NodeID"] for node in ray.nodes()]
assert hosting.this_node() in nodes and len(nodes) == 2
names = [hosting.name_on("one-", node) for node in nodes]

def place_all(nodes):
    return [hosting.place(One, hosting.name_on("one-", node), "same", on_node=node) for node in nodes]

def where(references):
    return [asyncio.run(hosting.ask(each, "where", wait_seconds=30)) for each in references]

first = where(place_all(nodes))
assert [node for node, _ in first] == nodes
assert where(place_all(nodes)) == first, "found, not started again"
hosting.remove_of_lost_nodes("one-")
assert where(place_all(nodes)) == first, "no node is gone"
at = nodes.index(other.node_id)
os.kill(first[at][1], 9)
again = None
while again is None:
    try:
        (again,) = where([hosting.Reference(names[at])])
    except hosting.ActorUnreachable:
        pass
assert again[0] == other.node_id and again[1] != first[at][1], "restarted on its own node"
cluster.remove_node(other)
while sum(node["Alive"] for node in ray.nodes()) > 1:
    pass
hosting.remove_of_lost_nodes("one-")
left = [each["name"] for each in ray.util.list_named_actors(all_namespaces=True)]
assert left == [names[1 - at]], left
assert where(place_all([nodes[1 - at]])) == [first[1 - at]]
hosting.remove(names[1 - at]), hosting.remove("nobody")
print("as it should be", flush=True)
os._exit(0)
"""


def test_an_actor_of_a_node_stays_on_it_and_leaves_with_it() -> None:
    """On two nodes of a real Ray: placed there, started there again, and ended once its node is gone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environ = {**kept, "PYTHONPATH": str(ROOT), "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}
    environ["RAY_raylet_start_wait_time_s"] = "100"  # A busy machine takes longer than Ray's default of 30.
    command = [sys.executable, "-c", _TWO_NODES]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert "as it should be" in done.stdout, done.stderr[-2_000:]


def test_asking_for_names_starts_no_cluster() -> None:
    """A loop that looks for actors in a process without Ray waited for a cluster of its own."""
    with pytest.raises(hosting.ActorUnreachable, match="not connected"):
        hosting.names("send-racer")
