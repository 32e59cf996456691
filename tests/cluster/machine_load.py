"""A mixed load on several machines: every door, sends and webhooks at once.

Three accounts pay, each for other methods, so that the charges of each kind of client can be compared with its answers.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from solders.keypair import Keypair

from tests.cluster.machine_clients import ANSWER_SECONDS, Callers, Calling, Record
from tests.cluster.machine_network import STORES, address_of
from tests.cluster.machine_sends import Senders
from tests.cluster.machine_sockets import SocketCallers, Subscribers
from tests.cluster.machine_streams import Followers, GrpcCallers
from tests.cluster.machines import CHAIN, GRPC, Machines, http_url
from tests.customers import Wallet, request
from tests.stream_checks.chain_events import Driver
from tests.stream_checks.yellowstone_followers import ChainAtNode

HTTP, SOCKETS, GRPC_CALLS, SENDS = "HTTP", "WebSocket", "gRPC", "sends"
SIGNALS, STREAMS, WEBHOOKS = "signals", "gRPC streams", "webhooks"
# Which account pays for each kind, and by which name the ledger has it: no account has a name twice.
_PAID: Mapping[str, tuple[int, str]] = {
    HTTP: (0, "getSlot"),
    STREAMS: (0, "grpc/Subscribe"),
    SOCKETS: (1, "getSlot"),
    SIGNALS: (1, "subscribeSignal"),
    SENDS: (1, "sendAndConfirm"),
    GRPC_CALLS: (2, "grpc/GetSlot"),
    WEBHOOKS: (2, "webhookDelivery"),
}
_MINUTES, _ELSE = (0, "grpc/minute"), "anything else"
_PER_SECOND = {HTTP: 50.0, SOCKETS: 40.0, GRPC_CALLS: 15.0, SENDS: 1.5}
_STREAMS = 6  # Of each of the two kinds.
_LAUNCH_SECONDS, _BEFORE_SECONDS, _TOLD_SECONDS, _LEDGER_SECONDS = 1.0, 3.0, 90.0, 60.0
_CHARGED_SECONDS = 10.0
_MACHINES = range(3)
_CHAIN_URL = f"http://{STORES}:{CHAIN}"
_HOOK_PORT, _LAMPORTS = 9009, 10**11


@dataclass(frozen=True)
class Account:
    """An account of a cluster, with credits."""

    api_key: str

    @classmethod
    def opened(cls, machines: Machines) -> "Account":
        """It may make thousands of calls a second, so that calls which wait for an owner do not meet its limits."""
        wallet, body = Wallet(), b"{}"
        made = request(f"{http_url(0)}/account/api-key", wallet.headers("POST", "/account/api-key", body), body)
        machines.operator("accounts", "grant", wallet.pubkey, "1000000", "--reason", "test")
        limits = ("--requests-per-second", "10000", "--concurrency", "1000")
        machines.operator("accounts", "limits", wallet.pubkey, *limits)
        return cls(str(made.body["api_key"]))

    def get(self, path: str) -> dict[str, object]:
        answer = request(f"{http_url(0)}{path}", {"X-Api-Key": self.api_key})
        assert answer.status == 200, answer
        found: dict[str, object] = answer.body
        return found

    def balance(self) -> int:
        return int(str(self.get("/account/info")["balance"]))

    def paid(self) -> dict[str, int]:
        """Return the credits of the last day, by the ledger's name; what was refunded is not among them."""
        rows = self.get("/account/usage?by=method&format=json")["rows"]
        assert isinstance(rows, list)
        return {row["method"]: int(row["credits"]) for row in rows}


class Hooks:
    """Receivers on all machines, and the webhook of one account that tells them a wallet's transactions."""

    def __init__(self, machines: Machines, account: Account, wallet: str) -> None:
        self._machines, self._path = machines, machines.folder / "hooks.txt"
        self._path.touch()
        self.receive()
        fields = {"url": f"http://127.0.0.1:{_HOOK_PORT}/", "filter_type": "account", "filter_value": wallet}
        headers = {"X-Api-Key": account.api_key, "Content-Type": "application/json"}
        made = request(f"{http_url(0)}/webhooks", headers, json.dumps(fields).encode())
        assert made.status == 201, made

    def receive(self) -> None:
        """Start the receivers that do not run: a machine that was lost has lost its own."""
        for machine in _MACHINES:
            if not self._machines.running(machine, "machine_receiver"):
                command = ("-m", "tests.cluster.machine_receiver", str(_HOOK_PORT), str(self._path))
                self._machines.start_beside(machine, *command)

    def delivered(self) -> list[tuple[str, str]]:
        """Return event id and signature of all deliveries."""
        return [(event, signature) for event, signature in map(str.split, _lines(self._path))]

    def events(self) -> int:
        return len({event for event, _ in self.delivered()})

    def signatures(self) -> set[str]:
        return {signature for _, signature in self.delivered()}


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


@dataclass
class Outcome:
    """What the clients of one fault saw. charges: what each kind must have been charged."""

    records: dict[str, Record]
    lost: dict[str, int]  # Connections of streams.
    fault_at: float
    charges: dict[str, range] = field(default_factory=dict)
    twice: int = 0  # Deliveries of an event that had been delivered.
    missing: int = 0  # Updates that a gRPC stream has not brought, or that the chain does not have.
    repeated: int = 0  # Updates that came twice on a gRPC stream.
    ends: dict[str, int] = field(default_factory=dict)  # With what the connections of streams ended.
    wrong: dict[str, str] = field(default_factory=dict)  # The kinds that were charged something else.
    answers: dict[str, int] = field(default_factory=dict)  # What the answers of each kind's calls cost.
    charged: dict[str, int] = field(default_factory=dict)  # What each kind was charged.
    not_told: int = 0  # What sends without an outcome may cost yet.

    @property
    def off_by(self) -> dict[str, int]:
        """Return for each kind of calls how many more credits it was charged than its answers cost."""
        found = {kind: self.charged[kind] - answers for kind, answers in self.answers.items()}
        return {kind: number for kind, number in found.items() if number}

    @property
    def failed(self) -> list[str]:
        return [f"{kind}: {record}" for kind, record in self.records.items() if record.failed]

    @property
    def window_seconds(self) -> float:
        return max(record.window_seconds for record in self.records.values())

    @property
    def p99_ms(self) -> float:
        """Return the time within which 99 of 100 calls of all doors were answered. Sends wait for the chain."""
        took = sorted(one for kind in (HTTP, SOCKETS, GRPC_CALLS) for one in self.records[kind].took)
        return 1000 * took[len(took) * 99 // 100]

    @property
    def back_seconds(self) -> float:
        """From the fault to the last call that failed for the first time or for good."""
        return max(0.0, *(record.last_trouble() - self.fault_at for record in self.records.values()))


@dataclass(frozen=True)
class Size:
    """streams: so many WebSockets that follow signals, and so many gRPC streams. calls: how many there are a second,
    as a part of _PER_SECOND. refunded: so many answers of a kind of client may be refunded, where a replica is lost
    together with an owner: nobody is left who knows that they left. machines: those that the clients call."""

    streams: int = _STREAMS
    calls: float = 1.0
    answer_seconds: float = ANSWER_SECONDS
    refunded: int = 0
    machines: Sequence[int] = _MACHINES


class Load:
    """All clients of one fault."""

    def __init__(self, accounts: Sequence[Account], payer: Keypair, hooks: Hooks, size: Size) -> None:
        urls = [http_url(machine) for machine in size.machines]
        sockets = [f"{url.replace('http', 'ws', 1)}/ws" for url in urls]
        targets = [f"{address_of(machine)}:{GRPC}" for machine in size.machines]
        keys = {kind: accounts[payer].api_key for kind, (payer, _) in _PAID.items()}
        per_second = {kind: rate * size.calls for kind, rate in _PER_SECOND.items()}
        self._hooks, self._refunded = hooks, size.refunded
        self.senders = Senders(urls, keys[SENDS], _CHAIN_URL, payer, per_second[SENDS])
        self._calling: dict[str, Calling] = {
            HTTP: Callers(urls, keys[HTTP], per_second[HTTP]),
            SOCKETS: SocketCallers(sockets, keys[SOCKETS], per_second[SOCKETS]),
            GRPC_CALLS: GrpcCallers(targets, keys[GRPC_CALLS], per_second[GRPC_CALLS]),
            SENDS: self.senders,
        }
        for calling in self._calling.values():
            calling.answer_seconds = size.answer_seconds
        self._launched: dict[str, float] = {}
        self._subscribers = Subscribers(sockets, keys[SIGNALS], size.streams, self._launched)
        self._followers = Followers(targets, keys[STREAMS], size.streams)

    async def during(self, act: Callable[[], object], seconds_after: float) -> Outcome:
        """Run from before an act until so long after it, and until every event has reached whoever is to have it."""
        events, deliveries = self._hooks.events(), len(self._hooks.delivered())
        async with httpx.AsyncClient(timeout=60) as http, asyncio.TaskGroup() as group:
            driver = Driver(_CHAIN_URL, [], http, launched=self._launched)
            await self._subscribers.start()
            await self._followers.start()
            launching = group.create_task(_launch(driver))
            calling = [group.create_task(one.run()) for one in self._calling.values()]
            await asyncio.sleep(_BEFORE_SECONDS)
            fault_at = time.monotonic()
            await asyncio.to_thread(act)
            await asyncio.sleep(seconds_after)
            driver.is_over = True
            await launching
            for one in self._calling.values():
                one.stop()
            await asyncio.gather(*calling)
            await self._subscribers.stop()
            await self._followers.stop(ChainAtNode(http, _CHAIN_URL))
        await asyncio.to_thread(self._until_told)
        outcome = Outcome(
            {kind: one.record for kind, one in self._calling.items()},
            {SIGNALS: self._subscribers.lost, STREAMS: len(self._followers.ends)},
            fault_at,
            missing=self._followers.missing + self._followers.extra,
            repeated=self._followers.repeated,
            ends=dict(Counter(map(str, self._subscribers.codes)) + Counter(end[:40] for end in self._followers.ends)),
        )
        # A client that was told nothing may have left an answer behind, and that is charged (threat 36).
        outcome.charges = {
            kind: range(one.credits - self._refunded, one.credits + one.record.unknown + 1)
            for kind, one in self._calling.items()
        }
        outcome.not_told = self.senders.not_told
        outcome.answers = {kind: one.credits for kind, one in self._calling.items()}
        outcome.charges[SIGNALS] = self._subscribers.charges()
        outcome.charges[STREAMS] = self._followers.charges()
        told = self._hooks.events() - events
        outcome.charges[WEBHOOKS] = range(told, told + 1)
        outcome.charges[_ELSE] = range(1)
        outcome.twice = len(self._hooks.delivered()) - deliveries - told
        return outcome

    def _until_told(self) -> None:
        """Wait until every transfer that was confirmed has been delivered."""
        deadline = time.monotonic() + _TOLD_SECONDS
        while missing := self.senders.landed - self._hooks.signatures():
            assert time.monotonic() < deadline, f"{len(missing)} transfers were never delivered: {sorted(missing)[:5]}"
            time.sleep(0.5)


async def _launch(driver: Driver) -> None:
    while not driver.is_over:
        await driver.launch()
        await asyncio.sleep(_LAUNCH_SECONDS)


class Mixed:
    """The accounts of a cluster, and the load of all of them."""

    def __init__(self, machines: Machines) -> None:
        self._payer, self._not_told = Keypair(), 0
        self.accounts = [Account.opened(machines) for _ in range(3)]
        body = {"pubkey": str(self._payer.pubkey()), "lamports": _LAMPORTS}
        httpx.post(f"{_CHAIN_URL}/admin/fund", json=body, timeout=60).raise_for_status()
        self.hooks = Hooks(machines, self.accounts[_PAID[WEBHOOKS][0]], str(self._payer.pubkey()))

    def spent(self) -> dict[str, int]:
        """Return what each kind of client has been charged until now. The minutes of streams are in no kind."""
        paid = {(number, name): found for number, one in enumerate(self.accounts) for name, found in one.paid().items()}
        paid.pop(_MINUTES, None)
        charged = {kind: paid.pop(name, 0) for kind, name in _PAID.items()}
        return charged | {_ELSE: sum(paid.values())}

    def during(self, act: Callable[[], object], seconds_after: float, size: Size = Size()) -> Outcome:
        """Run all clients from before an act until so long after it, and compare what each kind was charged."""
        self.hooks.receive()
        charged_by = time.monotonic() + _CHARGED_SECONDS  # A delivery from before may not be charged yet.
        while (before := self.spent())[WEBHOOKS] != self.hooks.events() and time.monotonic() < charged_by:
            time.sleep(0.5)
        outcome = asyncio.run(Load(self.accounts, self._payer, self.hooks, size).during(act, seconds_after))
        self._not_told += (
            outcome.not_told
        )  # Also of faults before: it takes minutes until one is proven not to have landed.
        of_sends = outcome.charges[SENDS]
        outcome.charges[SENDS] = range(of_sends.start, of_sends.stop + self._not_told)
        deadline = time.monotonic() + _LEDGER_SECONDS
        while True:
            after = self.spent()
            outcome.charged = {kind: after[kind] - spent for kind, spent in before.items()}
            outcome.wrong = _differences(outcome)
            if not outcome.wrong or time.monotonic() > deadline:
                return outcome
            time.sleep(1.0)


def _differences(outcome: Outcome) -> dict[str, str]:
    """Return the kinds that were not charged what their clients were given."""
    return {
        kind: f"{outcome.charged[kind]} charged, {known.start} to {known.stop - 1} known"
        for kind, known in outcome.charges.items()
        if outcome.charged[kind] not in known
    }
