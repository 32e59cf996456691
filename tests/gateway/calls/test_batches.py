"""Batches larger than the slots of their account, through the real door and the real owner of accounts."""

import asyncio
import json

import pytest

from actors.errors import Err
from actors.upstream import replies
from tests.gateway.doubles import PROOF, RESULT, OneAccount, ScriptedNode, a_call, node_error, pipeline_of, unavailable
from tests.gateway.world import a_world, call


class BusyNode(ScriptedNode):
    """Counts how many calls are with it at once; each takes some turns of the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0

    async def call(self, method, params, timeout_ms):
        self.now += 1
        self.most = max(self.most, self.now)
        for _ in range(1 + len(self.calls) % 7):
            await asyncio.sleep(0)
        self.now -= 1
        return await super().call(method, params, timeout_ms)


def batch(count: int, method: str = "getSlot") -> list[dict]:
    return [call(method, id=number) for number in range(count)]


def codes(response) -> list[str]:
    """Of each item: ok, or the constant of its refusal."""
    return ["ok" if "result" in item else item["error"]["data"]["constant"] for item in response.json()]


async def test_a_hundred_calls_on_64_slots_are_all_answered():
    """Nothing else runs, so nothing is refused: they are worked off, in order of replies, each charged once."""
    node = BusyNode()
    async with a_world(node, accounts={"requests_per_second": 1_000}) as world:
        customer = await world.customer(1_000)
        response = await world.rpc(customer, batch(100))
        assert codes(response) == ["ok"] * 100
        assert [item["id"] for item in response.json()] == list(range(100))
        assert node.most == 64
        assert len(node.calls) == 100
        assert await world.balance(customer) == 900
        assert len(await world.debits(customer)) == 100


async def test_a_batch_tells_the_rate_that_is_left_after_its_last_call():
    """Interface, "Limits": 100 calls on 64 slots take all 100 units of the second, so none remain."""
    async with a_world(BusyNode()) as world:
        customer = await world.customer(1_000)
        response = await world.rpc(customer, batch(100))
        assert codes(response) == ["ok"] * 100
        assert response.headers["x-ratelimit-remaining"] == "0"
        assert response.headers["x-credits-remaining"] == "900"


async def test_a_batch_tells_the_rate_of_the_second_in_which_its_last_call_was_held():
    """Windows are whole seconds: calls that were held in the next second left the first one's figures behind."""
    node = BusyNode()
    async with a_world(node, accounts={"concurrency": 2}) as world:

        def answer(method, params):
            if len(node.calls) == 2:
                world.clock.advance(1)
            return RESULT

        node.answer = answer
        customer = await world.customer(1_000)
        response = await world.rpc(customer, batch(6))
        assert codes(response) == ["ok"] * 6
        assert int(response.headers["x-ratelimit-reset"]) == world.clock.now() + 1
        assert response.headers["x-ratelimit-remaining"] == "96"


async def test_a_batch_tells_the_credits_that_are_left_after_a_release():
    """A call that was held and then cost nothing has given its credits back by the time the answer leaves."""
    released = asyncio.Event()
    purged = node_error(-32004, "Block 5 cleaned up, does not exist on node.")

    class Purged(ScriptedNode):
        async def call(self, method, params, timeout_ms):
            if method == "getBlock":
                await released.wait()
                return purged
            return RESULT

    async with a_world(Purged()) as world:
        customer = await world.customer(100)
        running = asyncio.create_task(world.rpc(customer, [call("getBlock", 5), call("getSlot")]))
        while not world.accounts.settles:  # noqa: ASYNC110  # Until the other call is being posted.
            await asyncio.sleep(0)
        released.set()
        assert (await running).headers["x-credits-remaining"] == "99"
        assert await world.balance(customer) == 99


async def test_a_wallets_batch_needs_no_second_signature():
    """The nonce is taken with the first hold; what waits goes on under what was proven then."""
    async with a_world(BusyNode(), accounts={"concurrency": 3}) as world:
        customer = await world.customer(20)
        body = json.dumps(batch(10)).encode()
        response = await world.http.post("/", content=body, headers=customer.headers("POST", "/", body))
        assert codes(response) == ["ok"] * 10
        assert world.node.most == 3
        assert await world.balance(customer) == 10


@pytest.mark.threat(11)
async def test_a_batch_that_waits_is_billed_by_its_prefix():
    """Threat 11: what the balance covers is answered and charged, in order; the rest is refused, and free."""
    async with a_world(BusyNode(), accounts={"concurrency": 3}) as world:
        customer = await world.customer(5)
        response = await world.rpc(customer, batch(10))
        assert codes(response) == ["ok"] * 5 + [Err.INSUFFICIENT_CREDITS.name] * 5
        assert await world.balance(customer) == 0
        assert response.headers["x-credits-remaining"] == "0"


@pytest.mark.threat(11)
async def test_the_rate_limit_is_not_waited_for():
    """Threat 11: units are of a second; what is beyond them is refused, whatever slots come free."""
    async with a_world(BusyNode(), accounts={"concurrency": 3, "requests_per_second": 6}) as world:
        customer = await world.customer(50)
        response = await world.rpc(customer, batch(10))
        assert codes(response) == ["ok"] * 6 + [Err.RATE_LIMITED.name] * 4
        assert await world.balance(customer) == 44


async def test_slots_that_others_have_are_not_waited_for():
    """No slot of the batch's own can come free: it is told so at once, and nothing is charged."""
    node = ScriptedNode(asked_after=2)
    node.gate = asyncio.Event()
    async with a_world(node, accounts={"concurrency": 2}) as world:
        customer = await world.customer(50)
        others = [asyncio.create_task(world.rpc(customer, call())) for _ in range(2)]
        await node.asked.wait()
        response = await world.rpc(customer, batch(3))
        assert codes(response) == [Err.CONCURRENCY_LIMITED.name] * 3
        node.gate.set()
        assert [(await other).status_code for other in others] == [200, 200]
        assert await world.balance(customer) == 48


async def test_a_slot_that_another_took_is_waited_for_while_calls_of_the_batch_are_under_way():
    """Its own calls end and ask again; only the last of them gives up."""
    gates = [asyncio.Event() for _ in range(3)]
    arrived = asyncio.Event()

    class Gated(ScriptedNode):
        async def call(self, method, params, timeout_ms):
            number = len(self.calls)
            self.calls.append((method, params, timeout_ms))
            if number == 2:
                arrived.set()
            if number < 3:
                await gates[number].wait()
            return RESULT

    async with a_world(Gated(), accounts={"concurrency": 3}) as world:
        customer = await world.customer(50)
        other = asyncio.create_task(world.rpc(customer, call()))
        running = asyncio.create_task(world.rpc(customer, batch(5)))
        await arrived.wait()
        for gate in gates:
            gate.set()
        assert codes(await running) == ["ok"] * 5
        assert (await other).status_code == 200
        assert await world.balance(customer) == 44


async def test_a_caller_who_leaves_ends_what_waits_as_well():
    """Calls under way are released, those that waited are never asked for."""
    node = ScriptedNode(asked_after=2)
    node.gate = asyncio.Event()
    async with a_world(node, accounts={"concurrency": 2}) as world:
        customer = await world.customer(50)
        leaving = asyncio.create_task(world.rpc(customer, batch(6)))
        await node.asked.wait()
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        await world.door.close()
        assert len(node.calls) == node.abandoned == 2
        assert await world.balance(customer) == 50


async def test_a_caller_who_leaves_in_the_moment_of_the_hold_leaves_none_behind():
    """Calls that were held and not yet begun are released like those under way: a hold ends, whatever happens."""
    account, node = OneAccount(30), ScriptedNode()
    pipeline = pipeline_of(account, node)
    calls = [a_call("getSlot", raw_id=b"%d" % number) for number in range(3)]
    leaving = asyncio.create_task(pipeline.batch(PROOF, calls))

    async def left_just_then(request):
        asyncio.get_running_loop().call_soon(leaving.cancel)

    account.before_hold = left_just_then
    with pytest.raises(asyncio.CancelledError):
        await leaving
    await pipeline.drain()
    assert len(account.holds) == 1
    assert not node.calls
    assert not account.held
    assert [end.charged for end in account.ends.values()] == [0, 0, 0]


@pytest.mark.parametrize("answer", [RESULT, replies.TIMED_OUT])
async def test_each_item_has_the_whole_time_of_its_class(answer):
    """Also those that waited for a slot: their class's time begins when they have it. A timeout frees its slot too."""
    node = BusyNode()
    node.answer = lambda method, params: answer
    async with a_world(node, accounts={"concurrency": 2}) as world:
        customer = await world.customer(50)
        response = await world.rpc(customer, batch(5))
        assert codes(response) == [Err.TIMEOUT.name if answer is replies.TIMED_OUT else "ok"] * 5
        assert {timeout_ms for _, _, timeout_ms in node.calls} == {5_000}


async def test_an_owner_that_goes_away_in_between_refuses_what_waited():
    """Nothing is served on trust; what was answered before stays answered."""
    account, node = OneAccount(30), ScriptedNode()
    admit = account._admit

    def limited(operation, item):
        return "CONCURRENCY_LIMITED" if len(account.held) >= 2 else admit(operation, item)

    account._admit = limited
    pipeline = pipeline_of(account, node)

    async def gone_after_first(request):
        if account.holds:
            await unavailable(request)

    account.before_hold = gone_after_first
    done = await pipeline.batch(PROOF, [a_call("getSlot", raw_id=b"%d" % number) for number in range(4)])
    assert [reply.answer is not None for reply in done.items] == [True, True, False, False]
    assert {reply.refusal.err for reply in done.items[2:]} == {Err.SERVICE_TEMPORARILY_UNAVAILABLE}
    assert account.posted == {"getSlot": 2}


async def test_a_fault_in_one_call_is_that_calls_alone(caplog):
    """The others go on, and so does what waits."""

    def broken_once(method, params):
        if len(node.calls) == 1:
            raise ZeroDivisionError
        return RESULT

    node = BusyNode()
    node.answer = broken_once
    async with a_world(node, accounts={"concurrency": 2}) as world:
        customer = await world.customer(50)
        response = await world.rpc(customer, batch(4))
        await world.door.close()
        assert sorted(codes(response)) == [Err.INTERNAL_ERROR.name, "ok", "ok", "ok"]
        assert await world.balance(customer) == 47
    assert "a call of a batch failed" in caplog.text
