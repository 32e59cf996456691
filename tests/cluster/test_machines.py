"""Three machines: what clients of a cluster see when it is deployed again, and when a machine is lost.

The machines are namespaces of this one (machines.py). With LONG_TESTS=1, as bringing them up takes a minute.
"""

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.cluster.machine_clients import Callers, Record
from tests.cluster.machines import Machines, await_health, http_url, why_not
from tests.customers import Wallet, request

_CALLS_PER_SECOND = 60
_REFUNDED_MAX = 3
_BEFORE_SECONDS, _LEDGER_SECONDS, _ENDED_SECONDS = 3.0, 60.0, 60.0
_SETTINGS = {"LEDGER_GATEWAY__REPLICAS": "3", "LEDGER_ACCOUNTS__SHARD_ACTORS": "2"}

pytestmark = pytest.mark.skipif("LONG_TESTS" not in os.environ, reason="takes minutes: set LONG_TESTS=1")


@dataclass(frozen=True)
class Cluster:
    machines: Machines
    api_key: str

    def brings_back(self, machine: int) -> None:
        """Start Ray there again once the former one has ended, and deploy: Serve places no replica there by itself."""
        deadline = time.monotonic() + _ENDED_SECONDS
        while self.machines.running(machine, "raylet") and time.monotonic() < deadline:
            time.sleep(1.0)
        self.machines.kill(machine)
        self.machines.start(machine)
        self.machines.deploy(release=json.dumps(time.time()))
        await_health(range(3))

    def balance(self) -> int:
        answer = request(f"{http_url(0)}/account/info", {"X-Api-Key": self.api_key})
        assert answer.status == 200, answer
        return int(answer.body["balance"])

    def calls_during(self, act: Callable[[], object], seconds_after: float, may_lose: bool = False) -> Record:
        """What clients of all machines saw from before an act until so long after it; and their ledger agrees.

        may_lose: an answer that a replica gave away, and the network lost, is charged. And where a replica is lost
        together with an owner, the last answers are refunded: nobody is left who knows that they left.
        """
        before = self.balance()
        callers = Callers([http_url(machine) for machine in range(3)], self.api_key, _CALLS_PER_SECOND)

        async def run() -> None:
            calling = asyncio.create_task(callers.run())
            await asyncio.sleep(_BEFORE_SECONDS)
            await asyncio.to_thread(act)
            await asyncio.sleep(seconds_after)
            callers.stop()
            await calling

        asyncio.run(run())
        # Charges of answers that a lost replica did not deliver are taken back after the takeover.
        record, deadline = callers.record, time.monotonic() + _LEDGER_SECONDS
        fewest = most = record.answered
        if may_lose:
            fewest, most = fewest - _REFUNDED_MAX, most + record.unknown
        known = range(fewest, most + 1)
        while (charged := before - self.balance()) not in known and time.monotonic() < deadline:
            time.sleep(1.0)
        print(f"{record}; credits off by {charged - record.answered}")
        assert charged in known, f"{record}; charged {charged}"
        return record


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with Machines(_SETTINGS) as machines:
        await_health(range(3))
        wallet, body = Wallet(), b"{}"
        made = request(f"{http_url(0)}/account/api-key", wallet.headers("POST", "/account/api-key", body), body)
        machines.operator("accounts", "grant", wallet.pubkey, "1000000", "--reason", "test")
        limits = ("--requests-per-second", "10000", "--concurrency", "1000")
        machines.operator("accounts", "limits", wallet.pubkey, *limits)
        yield Cluster(machines, str(made.body["api_key"]))


@pytest.mark.timeout(600)
def test_a_deployment_with_other_arguments_fails_no_call(cluster: Cluster) -> None:
    """Serve names no replica for seconds, and replaces all of them one after the other."""
    record = cluster.calls_during(lambda: cluster.machines.deploy(release=json.dumps(time.time())), 45.0)
    assert record.failed == [], str(record)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["ServeReplica", "AccountShardActor", "SendRacerActor", "StreamHubActor"])
def test_a_killed_actor_fails_no_call(cluster: Cluster, name: str) -> None:
    """Its work goes on elsewhere, and whoever asks once more notices nothing."""

    def kill_one() -> None:
        found = [process for machine in range(3) for process in cluster.machines.running(machine, f"ray::{name}")]
        assert found, name
        found[0].kill()

    record = cluster.calls_during(kill_one, 15.0)
    assert record.failed == [], str(record)


@pytest.mark.timeout(600)
def test_a_link_that_is_cut_is_noticed_within_ten_seconds(cluster: Cluster) -> None:
    """For 20 s: everything of the machine runs on, its owners too, and is fenced when the link is back."""

    def cut() -> None:
        with cluster.machines.without_link(1):
            time.sleep(20.0)

    record = cluster.calls_during(cut, 30.0, may_lose=True)
    cluster.brings_back(1)
    assert record.window_seconds <= 10.0, str(record)


@pytest.mark.timeout(600)
def test_a_lost_machine_is_noticed_within_ten_seconds(cluster: Cluster) -> None:
    """All processes of a worker end at once. Whoever asks again once, elsewhere, is served again within ten seconds."""
    record = cluster.calls_during(lambda: cluster.machines.kill(2), 30.0, may_lose=True)
    cluster.brings_back(2)
    assert record.window_seconds <= 10.0, str(record)


@pytest.mark.timeout(600)
def test_a_head_that_starts_again_interrupts_the_other_machines_for_ten_seconds_at_most(cluster: Cluster) -> None:
    """What it knew is in Redis. Serve and the owners go on without it, and nothing is placed a second time."""

    def restart() -> None:
        cluster.machines.kill(0)
        time.sleep(3.0)
        cluster.machines.start(0)

    record = cluster.calls_during(restart, 60.0, may_lose=True)
    assert record.window_seconds <= 10.0, str(record)
