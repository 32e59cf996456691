"""Ray's cluster launcher brings the product up with cluster.yaml in one command, and takes it down again.

The machines are namespaces of this one with an sshd each (launched.py). With LONG_TESTS=1, as three installations of
all packages take minutes.
"""

import json
import os
import urllib.request
from pathlib import Path

import pytest

from actors.release import RELEASE
from tests.cluster.launched import LaunchedMachines, why_not
from tests.cluster.machines import await_health, http_url
from tests.cluster.next_release import next_release

_DEPLOY = (  # As cluster.yaml has it.
    "cd ~/ledger-gateway && . ./ray.env && "
    ".venv/bin/python -m actors.launch.operator.deployment serve.yaml /etc/ledger-gateway.env"
)
_TAKE_DOWN = "cd ~/ledger-gateway && . ./ray.env && .venv/bin/python -m actors.launch.operator.take_down"
_SETTINGS = {"LEDGER_GATEWAY__REPLICAS": "3", "LEDGER_ACCOUNTS__SHARD_ACTORS": "2"}

pytestmark = [
    pytest.mark.timeout(1_200),
    pytest.mark.skipif(
        "LONG_TESTS" not in os.environ,
        reason="installs all packages on three machines, which takes eight minutes: set LONG_TESTS=1",
    ),
]


def test_ray_up_brings_a_cluster_up_that_ray_down_takes_away(tmp_path: Path) -> None:
    """And `ray up --no-restart` brings another release's code to all machines, beside what runs there."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    next_tree = tmp_path / "next"
    following = next_release(next_tree, linked=False)
    with LaunchedMachines(_SETTINGS) as cluster:
        print(cluster.up())
        cluster.await_nodes()
        print(cluster.execute(_DEPLOY))
        await_health(range(3))
        _require_health()
        assert {cluster.release(machine) for machine in range(3)} == {RELEASE}
        rays = [cluster.running(machine, "raylet/raylet")[0].pid for machine in range(3)]
        print(cluster.migrate(next_tree))
        print(cluster.up("--no-restart", code=next_tree))
        cluster.await_release(following)
        print(cluster.execute(_DEPLOY))
        await_health(range(3))
        _require_health()
        assert cluster.connected() == {following}
        assert [cluster.running(machine, "raylet/raylet")[0].pid for machine in range(3)] == rays
        print(cluster.execute(_TAKE_DOWN))
        print(cluster.down())
        assert {machine: cluster.left(machine) for machine in range(3)} == {0: [], 1: [], 2: []}


def _require_health() -> None:
    for machine in range(3):
        with urllib.request.urlopen(f"{http_url(machine)}/health", timeout=5) as answer:
            assert json.loads(answer.read())["status"] == "ok"
