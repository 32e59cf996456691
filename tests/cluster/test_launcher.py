"""Ray's cluster launcher brings the product up with cluster.yaml in one command, and takes it down again.

The machines are namespaces of this one with an sshd each (launched.py). With LONG_TESTS=1, as three installations of
all packages take minutes.
"""

import json
import os
import urllib.request

import pytest

from tests.cluster.launched import LaunchedMachines, why_not
from tests.cluster.machines import await_health, http_url

_DEPLOY = (  # As cluster.yaml has it.
    "cd ~/ledger-gateway && . ./ray.env && "
    ".venv/bin/python -m actors.launch.operator.deployment serve.yaml /etc/ledger-gateway.env"
)
_TAKE_DOWN = "cd ~/ledger-gateway && . ./ray.env && .venv/bin/python -m actors.launch.operator.take_down"
_SETTINGS = {"LEDGER_GATEWAY__REPLICAS": "3", "LEDGER_ACCOUNTS__SHARD_ACTORS": "2"}

pytestmark = pytest.mark.skipif("LONG_TESTS" not in os.environ, reason="takes minutes: set LONG_TESTS=1")


def test_ray_up_brings_a_cluster_up_that_ray_down_takes_away() -> None:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    with LaunchedMachines(_SETTINGS) as cluster:
        print(cluster.up())
        cluster.await_nodes()
        print(cluster.execute(_DEPLOY))
        await_health(range(3))
        for machine in range(3):
            with urllib.request.urlopen(f"{http_url(machine)}/health", timeout=5) as answer:
                assert json.loads(answer.read())["status"] == "ok"
        print(cluster.execute(_TAKE_DOWN))
        print(cluster.down())
        assert {machine: cluster.left(machine) for machine in range(3)} == {0: [], 1: [], 2: []}
