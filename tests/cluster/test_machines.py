"""Three machines: what clients of a cluster see of killed actors, of deployments and of lost machines.

The machines are namespaces of this one (machines.py). With LONG_TESTS=1, as bringing them up takes a minute.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from actors.http_server.websocket import SERVICE_RESTART
from tests.cluster.machine_load import Mixed, Outcome, Size
from tests.cluster.machine_network import address_of, why_not, without_link
from tests.cluster.machines import Machines, await_health

_SIZE = Size(calls=1.9)  # 202 calls a second: 95 over HTTP, 76 over WebSockets, 29 over gRPC, 3 sends.
_LOSS = Size(calls=1.9, refunded=3)
_REPLICA = 30_000  # Serve's first port of replicas on each machine.
_ENDED_SECONDS, _CUT_SECONDS = 60.0, 20.0
_SETTINGS = {
    "LEDGER_GATEWAY__REPLICAS": "3",
    "LEDGER_ACCOUNTS__SHARD_ACTORS": "2",
    "LEDGER_WEBHOOKS__ALLOW_LOOPBACK": "true",
}
_ACTORS = (
    *("ServeReplica", "AccountShardActor", "SendRacerActor", "StreamHubActor"),
    *("SignalClassifierActor", "WebhookDispatcherActor", "DepositWatcherActor", "MetricsPageActor"),
)
_MOVING = tuple(name for name in _ACTORS if name not in ("ServeReplica", "StreamHubActor", "MetricsPageActor"))
_SCALED = {
    "owners": "AccountShardActor",
    "racers": "SendRacerActor",
    "classifiers": "SignalClassifierActor",
    "dispatchers": "WebhookDispatcherActor",
}
_BACK_SECONDS_MAX, _SPREAD_SECONDS, _STAYS_SECONDS = 120.0, 300.0, 15.0
_WINDOW_SECONDS_MAX = 10.0  # A lost machine is given up after 6 s; its owners start elsewhere.

pytestmark = pytest.mark.skipif("LONG_TESTS" not in os.environ, reason="takes minutes: set LONG_TESTS=1")


@dataclass(frozen=True)
class Cluster:
    machines: Machines
    mixed: Mixed
    rows: list[str] = field(default_factory=list)  # Of the table of faults under the mixed load.

    def brings_back(self, machine: int) -> None:
        """Start Ray there again once the former one has ended, and deploy: Serve places no replica there by itself."""
        deadline = time.monotonic() + _ENDED_SECONDS
        while self.machines.running(machine, "raylet") and time.monotonic() < deadline:
            time.sleep(1.0)
        self.machines.kill(machine)
        self.machines.start(machine)
        self.deploys()

    def deploys(self) -> None:
        """Have replicas on all machines."""
        self.machines.deploy(release=json.dumps(time.time()))
        await_health(range(3))

    def actors_at(self, machine: int) -> int:
        return sum(bool(self.machines.running(machine, f"ray::{name}")) for name in _MOVING)

    def await_spread(self) -> None:
        """Wait until each worker has an owner of accounts and the head no actor that could be elsewhere, for a while:
        an owner that moves is there before its accounts are."""
        deadline, since = time.monotonic() + _SPREAD_SECONDS, time.monotonic()
        while time.monotonic() - since < _STAYS_SECONDS:
            owners = [len(self.machines.running(at, "ray::AccountShardActor")) for at in range(3)]
            if self.actors_at(0) or owners != [0, 1, 1]:
                since = time.monotonic()
            assert since < deadline, (owners, [self.actors_at(at) for at in range(3)])
            time.sleep(1.0)

    def worker_with_owner(self) -> int:
        """Return a machine with an owner of accounts, and not the head; where the head has all of them, the first."""
        return next((at for at in (1, 2) if self.machines.running(at, "ray::AccountShardActor")), 1)

    def mixed_during(self, fault: str, act: Callable[[], object], seconds_after: float, size: Size = _SIZE) -> Outcome:
        """What clients of every door saw; and the ledger has what they were given, kind by kind. An answer that a
        replica gave away, and the network lost, is charged."""
        outcome = self.mixed.during(act, seconds_after, size)
        records = {kind: str(record) for kind, record in outcome.records.items()}
        print(f"{fault}: {records}; connections of streams lost {outcome.lost}; {outcome.twice} deliveries twice")
        seen = outcome.records.values()
        calls, failed = sum(record.calls for record in seen), sum(len(record.failed) for record in seen)
        again = sum(record.asked_again for record in seen)
        self.rows.append(
            f"| {fault} | {failed} of {calls} | {outcome.window_seconds:.1f} s | {again} "
            f"| {outcome.back_seconds:.1f} s | {outcome.wrong or outcome.off_by or 0} | {outcome.p99_ms:.0f} ms |"
        )
        print(self.rows[-1])
        assert not outcome.wrong, outcome.wrong
        assert outcome.missing == 0
        return outcome


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with Machines(_SETTINGS) as machines:
        await_health(range(3))
        mixed = Mixed(machines)
        cluster = Cluster(machines, mixed)
        yield cluster
        print("\n".join(["| Fault | Failed | Window | Asked again | Back after | Off by | p99 |", *cluster.rows]))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", _ACTORS)
def test_a_killed_actor_fails_no_call_at_any_door(cluster: Cluster, name: str) -> None:
    """Its work goes on elsewhere, and whoever asks once more notices nothing: calls, sends, streams and webhooks."""

    def running() -> dict[int, int]:
        """Return the machine of each process of the kind."""
        return {one.pid: at for at in range(3) for one in cluster.machines.running(at, f"ray::{name}")}

    before = running()
    assert before, name
    killed = min(before)
    outcome = cluster.mixed_during(f"{name} killed", lambda: os.kill(killed, signal.SIGKILL), 15.0)
    assert outcome.failed == []
    deadline = time.monotonic() + _BACK_SECONDS_MAX
    while len(running()) < len(before):
        assert time.monotonic() < deadline, f"no {name} has taken its place"
        time.sleep(1.0)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("kind", "count"),
    [
        *(("owners", 5), ("owners", 3), ("racers", 3), ("racers", 2), ("classifiers", 4), ("classifiers", 2)),
        *(("dispatchers", 3), ("dispatchers", 1), ("classifiers", 1), ("racers", 1), ("owners", 2)),
    ],
)
def test_another_number_of_actors_fails_no_call_at_any_door(cluster: Cluster, kind: str, count: int) -> None:
    """By the operator's command: their work moves while calls, sends, streams and webhooks go on. Nothing is lost, and
    nothing comes twice."""
    scale = ("cluster", "scale", kind, str(count))
    outcome = cluster.mixed_during(f"{kind} to {count}", lambda: cluster.machines.operator(*scale), 5.0)
    assert outcome.failed == []
    assert outcome.twice == 0
    deadline = time.monotonic() + _BACK_SECONDS_MAX
    while sum(len(cluster.machines.running(at, f"ray::{_SCALED[kind]}")) for at in range(3)) != count:
        assert time.monotonic() < deadline, f"there are not {count} {kind}"
        time.sleep(1.0)


@pytest.mark.timeout(600)
def test_a_deployment_with_other_arguments_fails_no_call_at_any_door(cluster: Cluster) -> None:
    """Serve names no replica for seconds, and replaces all of them one after the other."""
    release = json.dumps(time.time())
    outcome = cluster.mixed_during("a deployment", lambda: cluster.machines.deploy(release=release), 45.0)
    assert outcome.failed == []


@pytest.mark.timeout(600)
def test_a_link_that_is_cut_is_noticed_within_seconds(cluster: Cluster) -> None:
    """For 20 s: everything of the machine runs on, its owners too, and is fenced when the link is back."""
    worker = cluster.worker_with_owner()
    key = {"X-Api-Key": cluster.mixed.accounts[0].api_key}
    # One that sends no pings, and so notices nothing: it is told to go, and not refused for half a minute. It has the
    # replica of this machine, which HAProxy there might not choose.
    unaware = connect(
        f"ws://{address_of(worker)}:{_REPLICA}/ws", additional_headers=key, ping_interval=None, legacy=True
    )

    def cut() -> None:
        with without_link(worker):
            time.sleep(_CUT_SECONDS)
        with pytest.raises(ConnectionClosed) as ended:
            unaware.recv(timeout=20)
        assert ended.value.rcvd is not None and ended.value.rcvd.code == SERVICE_RESTART, ended.value

    try:
        outcome = cluster.mixed_during("a worker cut off for 20 s", cut, 30.0, _LOSS)
    finally:
        cluster.brings_back(worker)
    assert outcome.window_seconds <= _WINDOW_SECONDS_MAX, outcome.failed


@pytest.mark.timeout(600)
def test_a_lost_machine_is_noticed_within_seconds(cluster: Cluster) -> None:
    """All processes of a worker end at once. Whoever asks again once, elsewhere, is served again within seconds."""
    worker = cluster.worker_with_owner()
    try:
        outcome = cluster.mixed_during("a worker lost", lambda: cluster.machines.kill(worker), 30.0, _LOSS)
    finally:
        cluster.brings_back(worker)
    assert outcome.window_seconds <= _WINDOW_SECONDS_MAX, outcome.failed


@pytest.mark.timeout(600)
def test_a_machine_that_returns_gets_actors_back_and_no_call_fails(cluster: Cluster) -> None:
    """Ray leaves them where they went when the machine was lost. Owners move with one more owner that has their
    accounts meanwhile; the others end, and go on at their new place."""
    machine = cluster.worker_with_owner()
    cluster.machines.kill(machine)
    time.sleep(_ENDED_SECONDS)  # Ray gives the machine up, and starts its actors elsewhere.

    def returns() -> None:
        cluster.machines.start(machine)
        cluster.await_spread()

    others = Size(calls=_SIZE.calls, machines=[at for at in range(3) if at != machine])
    outcome = cluster.mixed_during("a worker that returns, and gets actors", returns, 10.0, others)
    cluster.deploys()
    assert outcome.failed == []


@pytest.mark.timeout(600)
def test_a_head_that_starts_again_interrupts_the_other_machines_for_seconds(cluster: Cluster) -> None:
    """Redis has what the head knew. Serve and the owners go on without it, and nothing is placed a second time. An
    owner on the head would be away until Ray there runs again, so they do not stay there."""
    cluster.await_spread()

    def restart() -> None:
        cluster.machines.kill(0)
        time.sleep(3.0)
        cluster.machines.start(0)

    outcome = cluster.mixed_during("the head lost, and started 3 s later", restart, 60.0, _LOSS)
    assert outcome.window_seconds <= _WINDOW_SECONDS_MAX, outcome.failed


@pytest.mark.timeout(300)
def test_the_ledger_is_whole_after_all_faults(cluster: Cluster) -> None:
    """Every balance and hash chain, recomputed."""
    audit = "cd ~/ledger-gateway && . ./ray.env && .venv/bin/python -m actors.accounts.audit"
    assert "The ledger adds up" in cluster.machines.run(0, audit)
