"""Idempotency-Key through the real doors of two replicas over one owner of accounts and one store of keys."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from actors.accounts.key_requests import CreateKey
from actors.accounts.named_keys import KeyLimits
from actors.gateway.doors.http import HttpDoor
from actors.gateway.doors.parts import Dependencies
from actors.idempotency.core import ANSWER_BYTES_MAX, KEPT_MS, LEASE_MS
from actors.idempotency.store import KeysUnavailable
from actors.upstream import replies
from tests.deposits.world import text_of
from tests.gateway.doubles import TRANSACTION, ScriptedNode, node_error
from tests.gateway.payment_doubles import Desk as PaymentDesk
from tests.gateway.test_confirm_deposit import a_shop, paid
from tests.gateway.world import DEPOSIT_WALLET, Pages, Wallet, World, a_world, call, constant
from tests.idempotency.memory_store import MemoryIdempotencyStore
from tests.sends.world import turns

SEND = call("sendTransaction", TRANSACTION, {"encoding": "base64"})
KEY = {"idempotency-key": "k"}


class Killed:
    """A part of a replica: the step of this number hangs for ever, before it takes effect or after, as do all later
    ones; nobody hears of them any more."""

    def __init__(self, steps: "Steps", part: Any) -> None:
        self._steps, self._part = steps, part

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def step(*arguments: Any) -> Any:
            await self._steps.take()
            done = await found(*arguments)
            await self._steps.take()
            return done

        return step


class Steps:
    def __init__(self, dies_at: int) -> None:
        self.left, self.dead = dies_at, False

    async def take(self) -> None:
        self.left -= 1
        if self.left < 0:
            self.dead = True
            await asyncio.Event().wait()


class Replicas:
    """http: the second replica, beside that of the world."""

    def __init__(self, world: World, keys: MemoryIdempotencyStore) -> None:
        self.world, self.keys = world, keys
        self.node = world.node
        self.http = self.replica()

    def replica(self, steps: Steps | None = None) -> httpx.AsyncClient:
        world = self.world
        parts: tuple[Any, ...] = (world.accounts, world.node, self.keys)
        accounts, node, keys = parts if steps is None else (Killed(steps, part) for part in parts)
        dependencies = Dependencies(
            world.config, accounts, node, world.identity_store, Pages(), world.clock, idempotency=keys
        )
        return httpx.AsyncClient(transport=httpx.ASGITransport(HttpDoor(dependencies)), base_url="http://second.test")

    async def second(self, wallet: Wallet, body: Any = SEND, **sent: str) -> httpx.Response:
        content = json.dumps(body).encode()
        return await self.http.post("/", content=content, headers={"x-api-key": wallet.api_key} | KEY | sent)

    async def first(self, wallet: Wallet, body: Any = SEND, **sent: str) -> httpx.Response:
        return await self.world.rpc(wallet, body, **(KEY | sent))


@pytest.fixture
async def replicas() -> AsyncIterator[Replicas]:
    keys = MemoryIdempotencyStore()
    async with a_world(ScriptedNode(_numbered()), idempotency=keys) as world:
        found = Replicas(world, keys)
        yield found
        await found.http.aclose()


def _numbered() -> Callable[[str, bytes], Any]:
    """Each call of the node has an answer of its own, so that a kept one can be told from a new one."""
    count = iter(range(1_000))
    return lambda method, params: replies.made(b'"answer %d"' % next(count))


async def test_the_same_request_at_two_replicas_is_one_call_one_charge_and_one_answer(replicas: Replicas) -> None:
    """Under the id of each request. The answer tells that it is a kept one, and the account's figures of now."""
    wallet = await replicas.world.customer(2)
    first, second = await replicas.first(wallet), await replicas.second(wallet, SEND | {"id": "another"})
    assert first.json() == {"jsonrpc": "2.0", "id": 1, "result": "answer 0"}
    assert second.json() == {"jsonrpc": "2.0", "id": "another", "result": "answer 0"}
    assert "idempotent-replayed" not in first.headers and second.headers["idempotent-replayed"] == "true"
    assert first.headers["x-credits-remaining"] == second.headers["x-credits-remaining"] == "0"
    assert len(replicas.node.calls) == 1
    assert await replicas.world.debits(wallet) == [("sendTransaction", 2)]


async def test_another_request_under_the_key_is_refused_for_free(replicas: Replicas) -> None:
    """While the first one runs, too; a key without a limit in time would be refused for ever."""
    wallet, node = await replicas.world.customer(100), replicas.node
    node.gate = asyncio.Event()
    running = asyncio.create_task(replicas.first(wallet))
    await turns()
    other = SEND | {"params": [TRANSACTION, {"encoding": "base64", "skipPreflight": True}]}
    for _ in range(2):
        refused = await replicas.second(wallet, other)
        assert (refused.status_code, constant(refused)) == (409, "IDEMPOTENCY_KEY_REUSED")
        node.gate.set()
        await running
    assert await replicas.world.debits(wallet) == [("sendTransaction", 2)] and len(node.calls) == 1
    replicas.world.clock.advance(KEPT_MS / 1000)
    assert (await replicas.second(wallet, other)).json()["result"] == "answer 1"


async def test_while_the_first_request_runs_the_second_is_told_to_ask_again(replicas: Replicas) -> None:
    """409 with a hint, free; then the answer is there."""
    wallet, node = await replicas.world.customer(100), replicas.node
    node.gate = asyncio.Event()
    tasks = [asyncio.create_task(replicas.first(wallet)) for _ in range(20)]
    await turns()
    refused = await replicas.second(wallet)
    assert (refused.status_code, constant(refused)) == (409, "IDEMPOTENCY_KEY_IN_USE")
    assert refused.headers["retry-after"] == "1" and "same key" in refused.text
    node.gate.set()
    answers = [each.status_code for each in await asyncio.gather(*tasks)]
    assert sorted(answers) == [200] + [409] * 19
    assert (await replicas.second(wallet)).json()["result"] == "answer 0"
    assert await replicas.world.debits(wallet) == [("sendTransaction", 2)] and len(node.calls) == 1


async def test_a_request_that_cost_nothing_leaves_its_key_unused(replicas: Replicas) -> None:
    """No credits, a node that is late: nothing was sold, so the next request begins anew."""
    wallet, node = await replicas.world.customer(1), replicas.node
    assert (await replicas.first(wallet)).status_code == 402
    await replicas.world.grant(wallet, 10)
    numbered, node.answer = node.answer, lambda *_: replies.TIMED_OUT
    assert (await replicas.second(wallet)).status_code == 504
    assert replicas.keys.records == {} and await replicas.world.balance(wallet) == 11
    node.answer = numbered
    assert (await replicas.first(wallet)).json()["result"] == "answer 0"
    assert await replicas.world.debits(wallet) == [("sendTransaction", 2)]


async def test_an_error_of_the_node_is_an_answer(replicas: Replicas) -> None:
    """It is charged once, and given again with its data."""
    wallet, node = await replicas.world.customer(10), replicas.node
    node.answer = lambda *_: node_error(-32002, "Transaction simulation failed", data={"logs": ["a"]})
    first, second = await replicas.first(wallet), await replicas.second(wallet)
    assert first.json() == second.json() and first.json()["error"]["data"] == {"logs": ["a"]}
    assert await replicas.world.debits(wallet) == [("sendTransaction", 2)] and len(node.calls) == 1


@pytest.mark.parametrize("dies_at", range(16))
async def test_a_replica_killed_at_any_step_neither_charges_twice_nor_loses_the_answer(
    replicas: Replicas, dies_at: int
) -> None:
    """Before and after each message to the owner, the store and the node. Whoever asks next, after the lease, gets an
    answer; whoever asks after that gets the same one; the ledger has one charge, and the credits sufficed for one."""
    world, steps = replicas.world, Steps(dies_at)
    wallet = await world.customer(2)
    doomed = replicas.replica(steps)
    headers = {"x-api-key": wallet.api_key} | KEY
    task = asyncio.create_task(doomed.post("/", content=json.dumps(SEND).encode(), headers=headers))
    await turns()
    assert steps.dead or task.done()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    early = await replicas.second(wallet)
    assert early.status_code in (200, 409)
    world.clock.advance(LEASE_MS / 1000)
    answers = [await ask(wallet) for ask in (replicas.second, replicas.first, replicas.second)]
    assert [each.status_code for each in answers] == [200] * 3, answers[0].text
    told = {each.json()["result"] for each in (*answers, *([early] if early.status_code == 200 else []))}
    assert len(told) == 1
    assert await world.debits(wallet) == [("sendTransaction", 2)] and await world.balance(wallet) == 0


async def test_a_client_that_leaves_finds_its_answer(replicas: Replicas) -> None:
    """The call goes on without it, and its charge stays."""
    wallet, node = await replicas.world.customer(10), replicas.node
    node.gate = asyncio.Event()
    task = asyncio.create_task(replicas.first(wallet))
    await turns()
    task.cancel()
    await turns()
    node.gate.set()
    await replicas.world.door.close()
    assert (await replicas.second(wallet)).json()["result"] == "answer 0"
    assert await replicas.world.debits(wallet) == [("sendTransaction", 2)] and len(node.calls) == 1


async def test_a_charge_whose_fate_is_unknown_is_asked_for_again(replicas: Replicas) -> None:
    """503 says that the answer waits; the next request gets it, and the node is not asked twice."""
    wallet, accounts = await replicas.world.customer(10), replicas.world.accounts
    held = accounts.settle

    async def away(request: Any) -> Any:
        accounts.settle = held  # type: ignore[method-assign]
        accounts.down = True
        try:
            return await held(request)
        finally:
            accounts.down = False

    accounts.settle = away  # type: ignore[method-assign]
    unknown = await replicas.first(wallet)
    assert unknown.status_code == 503 and "x-credits-remaining" not in unknown.headers
    assert (await replicas.second(wallet)).json()["result"] == "answer 0"
    assert await replicas.world.debits(wallet) == [("sendTransaction", 2)] and len(replicas.node.calls) == 1


async def test_keys_of_two_accounts_have_nothing_to_do_with_each_other(replicas: Replicas) -> None:
    first, second = await replicas.world.customer(10), await replicas.world.customer(10)
    answers = [(await replicas.first(wallet)).json()["result"] for wallet in (first, second)]
    assert answers == ["answer 0", "answer 1"]


async def test_one_account_has_one_key_whatever_its_credential(replicas: Replicas) -> None:
    """The wallet's signature and the API key are the same account; a replayed signature is refused as ever."""
    wallet, body = await replicas.world.customer(10), json.dumps(SEND).encode()
    assert (await replicas.first(wallet)).json()["result"] == "answer 0"
    signed = wallet.headers("POST", "/", body)
    again = await replicas.http.post("/", content=body, headers=signed | KEY)
    assert again.json()["result"] == "answer 0" and again.headers["idempotent-replayed"] == "true"
    replayed = await replicas.world.http.post("/", content=body, headers=signed | KEY)
    assert (replayed.status_code, constant(replayed)) == (403, "NONCE_REUSED")


async def test_a_named_key_has_idempotency_keys_of_its_own(replicas: Replicas) -> None:
    """Decisions, "Named keys": a key that may not send is not told what another one of its account has sent."""
    world, wallet = replicas.world, await replicas.world.customer(100)
    texts = []
    for name, methods in (("all", ()), ("reads", ("READ_CHEAP",))):
        made = (await world.accounts.ask(CreateKey(wallet.pubkey, name, KeyLimits(methods=methods)))).value
        assert made is not None
        texts.append(made.text)
    own = await replicas.first(wallet)
    named = await replicas.second(wallet, **{"x-api-key": texts[0]})
    again = await replicas.second(wallet, **{"x-api-key": texts[0]})
    refused = await replicas.second(wallet, **{"x-api-key": texts[1]})
    assert [each.json()["result"] for each in (own, named, again)] == ["answer 0", "answer 1", "answer 1"]
    assert (refused.status_code, constant(refused)) == (403, "METHOD_NOT_ALLOWED")
    assert len(replicas.node.calls) == 2


async def test_a_call_that_moves_no_money_ignores_its_key(replicas: Replicas) -> None:
    wallet = await replicas.world.customer(10)
    answers = [(await replicas.first(wallet, call())).json()["result"] for _ in range(2)]
    assert answers == ["answer 0", "answer 1"] and replicas.keys.records == {}


@pytest.mark.parametrize(
    ("key", "body"),
    [("", SEND), ("a" * 256, SEND), ("tab\there", SEND), ("k", [SEND])],
    ids=["", "long", "tab", "batch"],
)
async def test_a_key_of_another_form_or_of_a_batch_is_400_and_free(replicas: Replicas, key: str, body: Any) -> None:
    """The calls of a batch end one by one, so no single answer could be kept."""
    wallet = await replicas.world.customer(10)
    refused = await replicas.first(wallet, body, **{"idempotency-key": key})
    assert (refused.status_code, constant(refused)) == (400, "INVALID_REQUEST")
    assert replicas.node.calls == [] and await replicas.world.balance(wallet) == 10


async def test_while_keys_cannot_be_stored_nothing_is_carried_out(replicas: Replicas) -> None:
    """A request without a key is served as ever."""
    wallet = await replicas.world.customer(10)
    replicas.keys.away = True
    refused = await replicas.first(wallet)
    assert refused.status_code == 503 and replicas.node.calls == []
    assert (await replicas.world.rpc(wallet, SEND)).status_code == 200
    replicas.keys.away = False
    assert (await replicas.first(wallet)).status_code == 200


async def test_a_trade_whose_answer_cannot_be_stored_is_neither_given_nor_charged() -> None:
    """A later run of its key quotes another price. Whatever the store kept of the first one, the answer that is given
    is the answer that is charged, and only one is; a quote that nobody could pay takes a rate unit here too."""
    prices = iter((40, 90, 90))

    async def quote(params: bytes, pubkey: bytes, timeout_ms: int) -> Any:
        price = next(prices)
        return replies.made_quoted(b'{"fee_credits":%d}' % price, price)

    for is_kept, told in ((False, 90), (True, 40)):
        keys = MemoryIdempotencyStore()
        async with a_world(idempotency=keys, quotes={"executeSnipe": quote}) as world:
            wallet, trade = await world.customer(100), call("executeSnipe", {"mint": DEPOSIT_WALLET, "amount_sol": 1})
            keep, prices = keys.keep, iter((40, 90, 90))

            async def fails(*kept: Any, keep: Any = keep, is_kept: bool = is_kept) -> bool:
                if is_kept:
                    await keep(*kept)
                raise KeysUnavailable("the answer of the store was lost")

            keys.keep = fails  # type: ignore[method-assign]
            refused = await world.rpc(wallet, trade, **KEY)
            assert refused.status_code == 503 and "not given" in refused.text and await world.debits(wallet) == []
            keys.keep = keep  # type: ignore[method-assign]
            world.clock.advance(LEASE_MS / 1000)
            await world.shard.tick()  # The first hold has ended by its time.
            for _ in range(2):
                given = await world.rpc(wallet, trade, **KEY)
                assert given.json()["result"] == {"fee_credits": told}, given.text
            assert await world.debits(wallet) == [("executeSnipe", told)]
            if told == 90:
                poor = await world.rpc(wallet, trade, **{"idempotency-key": "another"})
                assert poor.status_code == 402 and not [key for _, key in keys.records if key == "another"]


async def test_an_answer_that_is_too_large_is_given_once(replicas: Replicas) -> None:
    """The caller that waits has it; another one hears that it was charged."""
    wallet = await replicas.world.customer(10)
    replicas.node.answer = lambda *_: replies.made(b'"%b"' % (b"a" * ANSWER_BYTES_MAX))
    assert (await replicas.first(wallet)).status_code == 200
    refused = await replicas.second(wallet)
    assert (refused.status_code, constant(refused)) == (409, "IDEMPOTENCY_KEY_REUSED")
    assert await replicas.world.debits(wallet) == [("sendTransaction", 2)]


async def test_an_account_has_so_many_keys() -> None:
    async with a_world(idempotency=MemoryIdempotencyStore(), gateway={"idempotency_keys_max": 2}) as world:
        wallet = await world.customer(10)
        answers = [await world.rpc(wallet, SEND, **{"idempotency-key": f"k{number}"}) for number in range(3)]
        assert [each.status_code for each in answers] == [200, 200, 429]
        assert await world.balance(wallet) == 6


async def test_a_confirmed_deposit_has_the_same_answer_again() -> None:
    """Without the key the second answer would be `already_processed`."""
    async with a_shop() as (world, desk):
        world.door._keyed._store = MemoryIdempotencyStore()
        wallet = await world.customer()
        body = json.dumps({"signature": text_of(paid(desk, wallet).signature)}).encode()
        other = json.dumps({"signature": text_of(paid(desk, wallet).signature)}).encode()
        headers = {"x-api-key": wallet.api_key} | KEY
        first, second = [
            await world.http.post("/account/confirm-deposit", content=body, headers=headers) for _ in range(2)
        ]
        assert first.json() == second.json() and first.json()["credits_added"] == 1_000
        assert second.headers["idempotent-replayed"] == "true" and second.headers["x-credits-remaining"] == "1000"
        refused = await world.http.post("/account/confirm-deposit", content=other, headers=headers)
        assert (refused.status_code, constant(refused)) == (409, "IDEMPOTENCY_KEY_REUSED")
        missing = json.dumps({"signature": "1" * 64}).encode()
        for _ in range(2):  # What was not credited is looked up again.
            fresh = headers | {"idempotency-key": "another"}
            answer = await world.http.post("/account/confirm-deposit", content=missing, headers=fresh)
            assert answer.status_code == 404 and "idempotent-replayed" not in answer.headers


async def test_a_settlement_has_the_same_answer_again() -> None:
    """Decisions: the key belongs to the body alone, so nobody's key is in the way of another payment."""
    desk = PaymentDesk()
    async with a_world(desk=desk, idempotency=MemoryIdempotencyStore()) as world:
        bodies = [json.dumps({"transaction": base64.b64encode(text).decode()}) for text in (b"one", b"two")]
        first, second, other = [
            await world.http.post("/x402/settle", content=body, headers=KEY) for body in (bodies[0], *bodies)
        ]
        assert first.status_code == 200 and first.json() == second.json() != other.json()
        assert second.headers["idempotent-replayed"] == "true" and "no-store" in second.headers["cache-control"]
        assert desk.relayed == [b"one", b"two"]
