"""sendAndConfirm from the HTTP door to the ledger: the real door, owner, racer and chain, in one process."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any, cast

import base58
import pytest
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from actors.methods.signed_transactions import SignedTransaction
from actors.sends import actor
from actors.sends.actor import SendRacer
from actors.sends.api import RacerUnreachable
from actors.sends.chain import SendChain
from actors.sends.core import RaceState
from actors.sends.endpoints import SendMethods
from actors.sends.legs import LocalRpcLeg
from actors.sends.recovery import RaceRecovery
from actors.sends.store import RacesUnavailable
from actors.upstream.replies import NodeAnswer
from tests.gateway.world import Wallet, a_world, call
from tests.idempotency.memory_store import MemoryIdempotencyStore
from tests.sends.conftest import Here, signed, text
from tests.sends.memory_store import MemoryRaceStore
from tests.sends.test_once import MemoryMarks
from tests.sends.world import turns


def told_signature(transaction: SignedTransaction) -> str:
    return base58.b58encode(transaction.signature).decode()


class Link:
    """The racer as a replica reaches it."""

    def __init__(self, racer: SendRacer) -> None:
        self._racer, self.broken = racer, False

    def __getattr__(self, method: str) -> Any:
        async def ask(*arguments: Any) -> Any:
            if self.broken:
                raise RacerUnreachable("gone")
            return await getattr(self._racer, method)(*arguments)

        return ask


class Scene:
    def __init__(self, here: Here, world: Any, callers: dict[str, Any]) -> None:
        self.here, self.world, self.store = here, world, MemoryRaceStore()
        chain, clock = SendChain(here), world.clock
        legs, held = [LocalRpcLeg(here, clock)], self.store.held
        self.racer = SendRacer(chain, legs, self.store, world.accounts, clock, held, open_max=2)
        self.recovery = RaceRecovery(self.racer, chain, self.store, clock)
        self.link = Link(self.racer)
        methods = SendMethods(cast(Any, self.link), chain, 2, clock, MemoryMarks())
        callers.update(methods.caller_handlers() | methods.handlers())
        self.ids = itertools.count()

    async def slots(self, count: int) -> None:
        for _ in range(count):
            self.here.local.beat()
            self.world.clock.advance(0.4)
            await self.racer.look()
            await turns()

    async def send(
        self, customer: Wallet, transaction: SignedTransaction, key: str = "", **config: Any
    ) -> "asyncio.Task[Any]":
        body, sent = call("sendAndConfirm", text(transaction), config), {"idempotency-key": key} if key else {}
        task = asyncio.create_task(self.world.rpc(customer, body, **sent))
        await turns()
        return task

    async def status(self, customer: Wallet, transaction: SignedTransaction) -> Any:
        signature = base58.b58encode(transaction.signature).decode()
        return (await self.world.rpc(customer, call("getSendStatus", signature))).json()


@pytest.fixture
async def scene(here: Here) -> AsyncIterator[Scene]:
    handlers: dict[str, Any] = {}

    def late(name: str) -> Any:
        async def ask(*arguments: Any) -> Any:
            return await handlers[name](*arguments)

        return ask

    class Sending:
        """The chain, and before it the methods that send."""

        async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
            if method == "sendTransaction":
                return cast(NodeAnswer, await handlers[method](params, timeout_ms))
            return await here.call(method, params, timeout_ms)

    callers = {name: late(name) for name in ("sendAndConfirm", "getSendStatus")}
    async with a_world(Sending(), callers=callers, idempotency=MemoryIdempotencyStore()) as world:
        made = Scene(here, world, handlers)
        yield made
        await made.racer.close()


async def test_a_landed_send_costs_its_landing(scene: Scene) -> None:
    """The credits are set aside while it is under way, and spent when the chain has it."""
    customer = await scene.world.customer(100)
    payment = scene.here.payment()
    task = await scene.send(customer, payment)
    await scene.slots(6)
    response = task.result()
    assert response.headers["x-credits-remaining"] == "50"
    assert response.json()["result"]["status"] == "confirmed"
    assert await scene.world.debits(customer) == [("sendAndConfirm", 50)]
    assert (await scene.status(customer, payment))["result"]["charged_credits"] == 50
    assert await scene.world.balance(customer) == 50


@pytest.mark.parametrize("slots", [6, 200])
async def test_a_transaction_that_landed_before_the_call_costs_base(scene: Scene, slots: int) -> None:
    """Decisions, "A transaction that landed before its race": confirmed or long final. It is told at once, and nothing
    is sent."""
    customer, payment = await scene.world.customer(100), scene.here.payment()
    scene.here.local.land(VersionedTransaction.from_bytes(payment.raw))
    await scene.slots(slots)
    result = (await scene.send(customer, payment)).result().json()["result"]
    assert (result["status"], result["charged_credits"], result["legs_attempted"]) == ("confirmed", 2, [])
    assert await scene.world.debits(customer) == [("sendAndConfirm", 2)]
    assert "sendTransaction" not in scene.here.calls


async def test_confirmations_are_told_as_the_node_counts_them(scene: Scene) -> None:
    customer, payment = await scene.world.customer(100), scene.here.payment()
    task = await scene.send(customer, payment)
    await scene.slots(3)
    told = task.result().json()["result"]["confirmations"]
    assert type(told) is int and told >= 0
    (row,) = scene.here.local.call("getSignatureStatuses", [told_signature(payment)])["value"]
    assert (await scene.status(customer, payment))["result"]["confirmations"] == row["confirmations"] >= told
    await scene.slots(40)
    (row,) = scene.here.local.call("getSignatureStatuses", [told_signature(payment)])["value"]
    assert row["confirmationStatus"] == "finalized" and row["confirmations"] is None
    assert (await scene.status(customer, payment))["result"]["confirmations"] is None


@pytest.mark.parametrize("node_silent", [False, True])
async def test_bytes_that_an_absent_racer_was_asked_to_send_are_sent_or_refused_free(
    scene: Scene, node_silent: bool
) -> None:
    """Row 65: sendAndConfirm hears `unknown`; sendTransaction of the same bytes is no answer for what nobody sent."""
    customer, payment = await scene.world.customer(100), scene.here.payment()
    scene.link.broken = True
    assert (await scene.send(customer, payment)).result().json()["result"]["status"] == "unknown"
    scene.here.silent = node_silent
    body = call("sendTransaction", text(payment), {"encoding": "base64", "preflightCommitment": "processed"})
    answer = await scene.world.rpc(customer, body)
    if node_silent:
        assert answer.status_code == 504 and await scene.world.debits(customer) == []
        return
    assert answer.json()["result"] == told_signature(payment) and scene.here.landed(payment)
    assert await scene.world.debits(customer) == [("sendTransaction", 2)]


async def test_bytes_that_a_race_has_sent_are_not_sent_again(scene: Scene) -> None:
    customer, payment = await scene.world.customer(100), scene.here.payment()
    await scene.send(customer, payment)
    body = call("sendTransaction", text(payment), {"encoding": "base64"})
    assert (await scene.world.rpc(customer, body)).json()["result"] == told_signature(payment)
    assert scene.here.calls.count("sendTransaction") == 1


async def test_the_same_bytes_from_two_accounts_are_one_landing(scene: Scene) -> None:
    first, second = await scene.world.customer(100), await scene.world.customer(100)
    payment = scene.here.payment()
    tasks = [await scene.send(customer, payment) for customer in (first, second)]
    await scene.slots(6)
    assert [task.result().json()["result"]["status"] for task in tasks] == ["confirmed"] * 2
    assert await scene.world.balance(first) + await scene.world.balance(second) == 200 - 50 - 2
    assert scene.here.calls.count("sendTransaction") == 1
    stranger = await scene.world.customer(10)
    assert (await scene.status(stranger, payment))["error"]["code"] == -32602


async def test_an_option_that_is_not_known_is_refused_free_and_sends_nothing(scene: Scene) -> None:
    """Interface, -32602 consumes no credits: a misspelt skipPreflight must not send what was to be tried first."""
    customer = await scene.world.customer(100)
    task = await scene.send(customer, scene.here.payment(), skipPrefligth=False)
    error = task.result().json()["error"]
    assert (error["code"], error["data"]["constant"]) == (-32602, "INVALID_PARAMS")
    assert await scene.world.debits(customer) == [] and not scene.store.races
    assert "sendTransaction" not in scene.here.calls


async def test_a_send_that_expires_is_unknown_first_and_failed_by_proof(scene: Scene) -> None:
    """Its hold is gone long before the proof: base is then taken from what the account has."""
    customer = await scene.world.customer(100)
    scene.here.faults(sends={"rpc": {"drop_share": 1.0}})
    payment = scene.here.payment()
    task = await scene.send(customer, payment)
    await scene.slots(31)
    result = task.result().json()["result"]
    assert (result["status"], result["charged_credits"], result["retry_count"]) == ("unknown", 50, 2)
    assert await scene.world.debits(customer) == []
    await scene.slots(170)
    await scene.recovery.carry_on()
    await turns()
    status = (await scene.status(customer, payment))["result"]
    assert (status["status"], status["charged_credits"]) == ("failed", 2)
    assert await scene.world.debits(customer) == [("sendAndConfirm", 2)]


async def test_a_key_makes_two_sends_one_ticket(scene: Scene) -> None:
    """Without it the second call of the same bytes would pay base; and 409 while the first one runs."""
    customer, payment = await scene.world.customer(50), scene.here.payment()
    first = await scene.send(customer, payment, "k")
    busy = await scene.send(customer, payment, "k")
    assert busy.result().status_code == 409
    await scene.slots(6)
    again = await scene.send(customer, payment, "k")
    assert again.result().json() == first.result().json()
    assert first.result().json()["result"]["status"] == "confirmed"
    assert await scene.world.debits(customer) == [("sendAndConfirm", 50)]
    assert len(scene.store.tickets) == 1


async def test_a_key_of_an_unknown_send_tells_its_outcome_later(scene: Scene) -> None:
    """The next request joins the race by the same ticket: one charge, and no second broadcast of what is proven."""
    customer, payment = await scene.world.customer(100), scene.here.payment()
    scene.here.faults(sends={"rpc": {"drop_share": 1.0}})
    first = await scene.send(customer, payment, "k")
    await scene.slots(31)
    assert first.result().json()["result"]["status"] == "unknown"
    await scene.slots(170)
    await scene.recovery.carry_on()
    await turns()
    broadcasts = scene.here.calls.count("sendTransaction")
    for _ in range(2):
        later = await scene.send(customer, payment, "k")
        result = later.result().json()["result"]
        assert (result["status"], result["charged_credits"]) == ("failed", 2)
    assert scene.here.calls.count("sendTransaction") == broadcasts
    assert await scene.world.debits(customer) == [("sendAndConfirm", 2)] and len(scene.store.tickets) == 1


async def test_a_charge_that_stands_outlives_a_request_that_fails(scene: Scene) -> None:
    """The first request heard `unknown`, the transaction landed, and the node is away when the key comes again: what
    the racer has charged meanwhile is not given back."""
    customer, payment = await scene.world.customer(100), scene.here.payment()
    scene.here.faults(sends={"rpc": {"drop_share": 1.0}})
    await scene.send(customer, payment, "k")
    await scene.slots(31)
    scene.here.faults()
    scene.here.local.land(VersionedTransaction.from_bytes(payment.raw))
    await scene.slots(100)
    await scene.recovery.carry_on()
    await turns()
    assert await scene.world.debits(customer) == [("sendAndConfirm", 50)]
    scene.here.silent = True
    assert (await scene.send(customer, payment, "k")).result().status_code == 502
    assert await scene.world.balance(customer) == 50
    scene.here.silent = False
    again = await scene.send(customer, payment, "k")
    assert again.result().json()["result"]["status"] == "confirmed"
    assert await scene.world.balance(customer) == 50 and len(scene.store.tickets) == 1


async def test_the_end_of_the_replica_ends_no_hold_of_a_race(scene: Scene) -> None:
    """An owner that fences the replica releases all other holds of it; a landed send is charged all the same."""
    customer = await scene.world.customer(60)
    payment = scene.here.payment()
    task = await scene.send(customer, payment)
    task.cancel()
    await turns()
    (held,) = scene.world.accounts.holds
    replica = scene.world.door._pipeline._operations._replica_id
    scene.world.shard.release_holds(replica)
    assert held.operation[: len(replica)] != replica
    refused = await scene.world.rpc(customer, call("getBlock", 1))  # Of 60 credits 50 are still set aside.
    assert refused.status_code == 402
    await scene.slots(6)
    assert await scene.world.debits(customer) == [("sendAndConfirm", 50)]


async def test_a_store_that_may_have_kept_the_race_leaves_it_unknown(scene: Scene) -> None:
    """Nothing is sent now, but a racer that starts now would send what was stored: a refusal would be false. The hold
    expires by itself."""
    customer = await scene.world.customer(60)

    async def away(*_: Any) -> Any:
        raise RacesUnavailable("away")

    scene.store.open = away  # type: ignore[method-assign]
    task = await scene.send(customer, scene.here.payment())
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.shield(task), 5)
    assert task.result().json()["result"]["status"] == "unknown"
    assert "sendTransaction" not in scene.here.calls
    assert await scene.world.debits(customer) == []


async def test_an_account_has_only_so_many_open_sends(scene: Scene) -> None:
    """Transactions that never land would be free while they are open. The refusal is free, and nothing is sent."""
    customer = await scene.world.customer(200)
    tasks = [await scene.send(customer, scene.here.payment()) for _ in range(2)]
    scene.here.calls.clear()
    refused = await scene.send(customer, scene.here.payment())
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.shield(refused), 5)
    assert refused.result().status_code == 429
    assert refused.result().json()["error"]["data"]["constant"] == "CONCURRENCY_LIMITED"
    assert "sendTransaction" not in scene.here.calls and len(scene.store.races) == 2
    await scene.slots(6)
    assert [task.result().json()["result"]["status"] for task in tasks] == ["confirmed"] * 2


async def test_a_racer_with_no_room_refuses_before_anything_is_stored_or_charged(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actor, "RACES_MAX", 0)
    customer = await scene.world.customer(60)
    refused = (await scene.send(customer, scene.here.payment())).result()
    assert refused.status_code == 503 and int(refused.headers["Retry-After"]) > 0
    assert refused.json()["error"]["data"]["constant"] == "SERVICE_TEMPORARILY_UNAVAILABLE"
    assert "sendTransaction" not in scene.here.calls and not scene.store.races
    assert await scene.world.balance(customer) == 60 and await scene.world.debits(customer) == []


async def test_a_preflight_that_fails_is_free_and_sends_nothing(scene: Scene) -> None:
    customer = await scene.world.customer(60)
    poor = signed(scene.here.local.transfer(scene.here.local.wallet(), Pubkey.new_unique(), 10**15))
    task = await scene.send(customer, poor, skipPreflight=False, preflightCommitment="processed")
    assert task.result().json()["error"]["code"] == -32002
    assert "sendTransaction" not in scene.here.calls and not scene.store.races
    assert await scene.world.balance(customer) == 60


async def test_too_few_credits_for_a_landing_begin_no_race(scene: Scene) -> None:
    customer = await scene.world.customer(49)
    task = await scene.send(customer, scene.here.payment())
    assert task.result().status_code == 402 and not scene.store.races


async def test_without_a_node_nothing_is_sold(scene: Scene) -> None:
    customer = await scene.world.customer(60)
    payment = scene.here.payment()
    scene.here.silent = True
    task = await scene.send(customer, payment)
    assert task.result().status_code == 502 and not scene.store.races
    scene.here.silent = False
    assert await scene.world.balance(customer) == 60
    assert {race.state for race in scene.store.races.values()} <= {RaceState.OPEN}
