"""A deployment with one changed setting replaces exactly the actors that use it, and its clients notice nothing.

On one machine that runs the cluster of cluster.yaml (machines.py), with real stores. Each step changes one line of
/etc/ledger-gateway.env and deploys as cluster.yaml says; a client calls twenty times a second meanwhile, and asks once
more where it is refused. The tests of this file are the steps of one story: they run in their order. With LONG_TESTS=1,
as all deployments together take minutes.
"""

import asyncio
import base64
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from tests.cluster.machine_clients import Callers, Record
from tests.cluster.machine_network import STORES, why_not
from tests.cluster.machines import CHAIN, OTHER, POSTGRES, REDIS, Machines, await_health, http_url
from tests.customers import Answer, Wallet, request, rpc_body

_CALLS_PER_SECOND = 20
_BEFORE_SECONDS, _AFTER_SECONDS, _LEDGER_SECONDS = 1.0, 3.0, 60.0
_SETTINGS = {
    "LEDGER_GATEWAY__REPLICAS": "2",
    "LEDGER_WEBHOOKS__ALLOW_LOOPBACK": "true",
    "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "5",  # Each deployment waits for it; 30 s by default.
}
_ACTORS = {
    "account owner": "AccountShardActor",
    "classifier": "SignalClassifierActor",
    "deposit watcher": "DepositWatcherActor",
    "metrics page": "MetricsPageActor",
    "racer": "SendRacerActor",
    "stream hub": "StreamHubActor",
    "webhook dispatcher": "WebhookDispatcherActor",
}
_ASK_NODES = {"classifier", "deposit watcher", "racer", "stream hub", "webhook dispatcher"}

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif("LONG_TESTS" not in os.environ, reason="takes minutes: set LONG_TESTS=1"),
]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a deployment did. refusal: what its command printed; None: the change was taken over."""

    replaced: set[str]
    record: Record
    refusal: str | None

    def check(self) -> None:
        """No client noticed."""
        assert self.record.failed == [], str(self.record)


class Cluster:
    def __init__(self, machines: Machines) -> None:
        self.machines, self.wallet = machines, Wallet()
        path, body = "/account/api-key", b"{}"
        made = request(f"{http_url(0)}{path}", self.wallet.headers("POST", path, body), body)
        self.api_key = str(made.body["api_key"])
        machines.operator("accounts", "grant", self.wallet.pubkey, "1000000", "--reason", "test")

    def ask(self, path: str, body: Any = None) -> Answer:
        headers = {"X-Api-Key": self.api_key, "Content-Type": "application/json"}
        return request(f"{http_url(0)}{path}", headers, None if body is None else json.dumps(body).encode())

    def balance(self) -> int:
        return int(self.ask("/account/info").body["balance"])

    def processes(self) -> dict[str, set[int]]:
        return {name: {each.pid for each in self.machines.running(0, mark)} for name, mark in _ACTORS.items()}

    def redeploy(self, settings: dict[str, str], given_away: int = 0) -> Seen:
        """Deploy with these settings. Whatever clients were answered is in the ledger, and nothing else is.

        given_away: so many answers may be missing there.
        """
        balance, before = self.balance(), self.processes()
        assert all(before.values()), before
        callers = Callers([http_url(0)], self.api_key, _CALLS_PER_SECOND)
        calling = threading.Thread(target=lambda: asyncio.run(callers.run()))
        calling.start()
        try:
            time.sleep(_BEFORE_SECONDS)
            refusal = self._refusal(settings)
            time.sleep(_AFTER_SECONDS)
        finally:
            callers.stop()
            calling.join()
        record = callers.record
        whole = range(record.answered - given_away, record.answered + 1)
        assert eventually(lambda: balance - self.balance() in whole), f"{record}; charged {balance - self.balance()}"
        after = self.processes()
        replaced = {name for name, pids in before.items() if pids != after[name]}
        print(f"{list(settings)}: replaced {sorted(replaced)}; {record}")  # Shown where a test fails.
        return Seen(replaced, record, refusal)

    def _refusal(self, settings: dict[str, str]) -> str | None:
        try:
            self.machines.redeploy(**settings)
        except AssertionError as error:
            return str(error)
        return None


def eventually(is_so: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + _LEDGER_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with Machines(_SETTINGS, 1) as machines:
        await_health([0])
        yield Cluster(machines)


def _landed(cluster: Cluster) -> int:
    """Send a transfer by sendAndConfirm until it has landed, and return what the ledger says that it cost."""
    pair = Keypair()
    node, headers = f"http://{STORES}:{CHAIN}", {"Content-Type": "application/json"}
    request(node, headers, rpc_body("requestAirdrop", str(pair.pubkey()), 1_000_000_000))
    assert eventually(lambda: _lamports(node, pair) > 0)
    blockhash = cluster.ask("/", json.loads(rpc_body("getLatestBlockhash"))).body["result"]["value"]["blockhash"]
    target = TransferParams(from_pubkey=pair.pubkey(), to_pubkey=Keypair().pubkey(), lamports=2_000_000)
    message = MessageV0.try_compile(pair.pubkey(), [transfer(target)], [], Hash.from_string(blockhash))
    signed = base64.b64encode(bytes(VersionedTransaction(message, [pair]))).decode()
    options = {"encoding": "base64", "preflightCommitment": "confirmed"}
    sent = cluster.ask("/", json.loads(rpc_body("sendAndConfirm", signed, options)))
    assert sent.body["result"]["confirmed"] is True, sent
    newest = cluster.ask("/account/ledger?limit=1").body["entries"][0]
    assert newest["description"].startswith("sendAndConfirm"), newest
    return -int(newest["amount"])


def _lamports(node: str, pair: Keypair) -> int:
    asked = rpc_body("getBalance", str(pair.pubkey()), {"commitment": "confirmed"})
    return int(request(node, {"Content-Type": "application/json"}, asked).body["result"]["value"])


def test_another_price_replaces_no_actor_and_holds_from_the_next_call(cluster: Cluster) -> None:
    """The page of prices and the ledger agree before and after."""
    assert _landed(cluster) == 50
    seen = cluster.redeploy({"LEDGER_PRICING__LANDING_CREDITS": "70"})
    seen.check()
    assert seen.replaced == set() and seen.refusal is None
    assert "'landing_credits': 70" in str(cluster.ask("/pricing").body)
    assert _landed(cluster) == 70


@pytest.mark.threat(70)
def test_another_node_replaces_those_that_ask_nodes(cluster: Cluster) -> None:
    """And nobody asks the former one, which is shut down afterwards."""
    url = f"{STORES}:{CHAIN + OTHER}"
    node = {"LEDGER_UPSTREAM__NODE_URL": f"http://{url}", "LEDGER_UPSTREAM__NODE_WS_URL": f"ws://{url}"}
    seen = cluster.redeploy(node)
    seen.check()
    assert seen.replaced == _ASK_NODES and seen.refusal is None
    cluster.machines.close_door(CHAIN)
    assert cluster.ask("/", json.loads(rpc_body("getSlot"))).status == 200
    assert eventually(lambda: cluster.ask("/health").body["status"] == "ok"), cluster.ask("/health")


@pytest.mark.threat(70)
def test_another_secret_replaces_the_one_actor_that_has_it(cluster: Cluster) -> None:
    """It is in no fingerprint in clear, and counts all the same."""
    seen = cluster.redeploy({"LEDGER_SENDS__BLOCK_ENGINE_AUTH": "11111111-2222-3333-4444-555555555555"})
    seen.check()
    assert seen.replaced == {"racer"} and seen.refusal is None


@pytest.mark.threat(70)
def test_another_url_of_the_database_replaces_all_that_use_it(cluster: Cluster) -> None:
    """The account owners too. Balances stay, and nobody is left on the former URL, where nothing listens then."""
    url = cluster.machines.product_postgres.replace(f":{POSTGRES}", f":{POSTGRES + OTHER}")
    seen = cluster.redeploy({"DATABASE_URL": url})
    seen.check()
    assert seen.replaced == _ASK_NODES | {"account owner"} and seen.refusal is None
    cluster.machines.close_door(POSTGRES)
    balance = cluster.balance()
    assert cluster.ask("/", json.loads(rpc_body("getSlot"))).status == 200
    assert cluster.balance() == balance - 1
    assert eventually(lambda: cluster.ask("/health").body["status"] == "ok"), cluster.ask("/health")


@pytest.mark.threat(69)
@pytest.mark.parametrize("owners", ["2", "1"])
def test_accounts_move_to_another_number_of_owners(cluster: Cluster, owners: str) -> None:
    """Design, "Owners, for every kind of actor": the owner of before goes on, and so does every call."""
    (before,) = cluster.processes()["account owner"] if owners == "2" else (None,)
    seen = cluster.redeploy({"LEDGER_ACCOUNTS__SHARD_ACTORS": owners})
    seen.check()
    assert seen.record.once == [], str(seen.record)
    assert seen.replaced <= {"account owner"} and seen.refusal is None
    assert eventually(lambda: len(cluster.processes()["account owner"]) == int(owners))
    assert before is None or before in cluster.processes()["account owner"]


def _refused(cluster: Cluster, remedy: str, **settings: str) -> None:
    before = cluster.machines.settings()
    seen = cluster.redeploy(settings)
    cluster.machines.restore(before)
    seen.check()
    assert seen.record.once == [], str(seen.record)
    assert seen.replaced == set()
    assert seen.refusal is not None and "what was deployed before goes on" in seen.refusal
    assert remedy in seen.refusal and "Traceback" not in seen.refusal, seen.refusal


@pytest.mark.threat(70)
def test_what_cannot_be_taken_over_is_refused_with_its_remedy(cluster: Cluster) -> None:
    """No actor is replaced, no call is refused, and what the cluster's secret sealed can still be read."""
    fields = {"url": "http://127.0.0.1:9/x", "filter_type": "lifecycle", "lifecycle_events": ["low_balance"]}
    made = cluster.ask("/webhooks", fields)
    assert made.status == 201, made
    _refused(cluster, "stop Ray on all machines", LEDGER_STORAGE__CLUSTER_SECRET="t" * 40)
    _refused(cluster, "correct REDIS_URL", REDIS_URL=f"redis://{STORES}:{REDIS + 1}/0")
    tried = cluster.ask(f"/webhooks/{made.body['id']}/test", {})
    assert tried.status == 200 and "nothing listens" in str(tried.body), tried


def test_the_ledger_is_whole_after_all_of_it(cluster: Cluster) -> None:
    """Every balance and hash chain, recomputed."""
    audit = "cd ~/ledger-gateway && . ./ray.env && .venv/bin/python -m actors.accounts.audit"
    assert "The ledger adds up" in cluster.machines.run(0, audit)
