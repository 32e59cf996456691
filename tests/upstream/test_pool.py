"""A pool of nodes that answer when the test says so. Delays are a millisecond, so that nothing is waited for."""

import asyncio

import msgspec
import orjson
import pytest

from actors.provider_config import NodeConfig
from actors.upstream import replies
from actors.upstream.breaker import FAILURES_MIN, Phase
from actors.upstream.hedging import Hedges
from actors.upstream.method_lanes import Lane
from actors.upstream.node_health import Probe
from actors.upstream.node_selection import NodeSelection
from actors.upstream.pool import NodePool
from actors.upstream.replies import AnswerKind, NodeAnswer

LONG_MS = 30_000
HERE = Probe(True, slot=1_000)


def answer_of(result: object, node: str = "") -> NodeAnswer:
    return replies.judge(orjson.dumps({"jsonrpc": "2.0", "result": result, "id": 1}), node)


def error_of(code: int, message: str) -> NodeAnswer:
    return replies.judge(orjson.dumps({"jsonrpc": "2.0", "error": {"code": code, "message": message}, "id": 1}))


BEHIND = error_of(-32005, "Node is behind by 200 slots")
NO_SLOT = error_of(-32016, "Minimum context slot has not been reached")


class Client:
    """`script`: answers in turn, the last one for good. HANG: none, until the caller leaves."""

    def __init__(self, *script: NodeAnswer | None) -> None:
        self.script = list(script)
        self.calls: list[str] = []
        self.left = 0

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        self.calls.append(method)
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if answer is HANG:
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    await asyncio.Event().wait()
            except TimeoutError:
                return replies.TIMED_OUT
            except asyncio.CancelledError:
                self.left += 1
                raise
        await asyncio.sleep(0)
        return answer

    async def close(self) -> None:
        self.script = [replies.UNREACHABLE]


HANG = None


async def until(holds) -> None:
    while not holds():  # noqa: ASYNC110  # What is waited for happens in the loop's own turns, which tell nobody.
        await asyncio.sleep(0)


class World:
    def __init__(self, *clients: Client, hedge_percent: int = 100, roles: tuple[str, ...] = ()) -> None:
        nodes = [
            NodeConfig(name=f"n{number}", url="http://x", roles=tuple((roles or ("read send",) * 9)[number].split()))
            for number in range(len(clients))
        ]
        self.selection = NodeSelection(nodes, 128, 60_000)
        for index in range(len(clients)):
            self.selection.probed(index, HERE)
        hedges = Hedges(1, hedge_percent)
        for _ in range(16):
            hedges.answered("getSlot", 1)
        self.pool = NodePool(self.selection, clients, hedges)  # type: ignore[arg-type]

    async def read(self, params: bytes = b"[]", timeout_ms: int = LONG_MS) -> NodeAnswer:
        return await self.pool.call("getSlot", params, timeout_ms)


OK = answer_of("ok")


async def test_one_node_alone_is_asked_by_its_own_client():
    """Nothing stands between: no question, no timer, no second try."""
    client = Client(replies.UNREACHABLE)
    assert (await World(client).read()).kind is AnswerKind.UNREACHABLE
    assert client.calls == ["getSlot"]


@pytest.mark.parametrize("failure", [replies.UNREACHABLE, replies.NOT_SENT, replies.GARBAGE, replies.TIMED_OUT])
async def test_a_read_that_fails_is_asked_of_the_next_node(failure):
    """Each node once; the last failure is told when all have failed."""
    first, second = Client(failure), Client(OK)
    assert await World(first, second).read() is OK
    assert (first.calls, second.calls) == (["getSlot"], ["getSlot"])
    clients = [Client(failure) for _ in range(3)]
    assert (await World(*clients).read()).kind is failure.kind
    assert [client.calls for client in clients] == [["getSlot"]] * 3


async def test_an_answer_is_an_answer():
    """Errors of the chain pass through; what is too large here is too large everywhere."""
    for answer in (error_of(-32602, "Invalid param"), error_of(-32004, "Block not available"), replies.OVERSIZED):
        first, second = Client(answer), Client(OK)
        assert await World(first, second).read() is answer
        assert second.calls == []


@pytest.mark.parametrize("trouble", [BEHIND, NO_SLOT, error_of(-32005, "Node is unhealthy")])
async def test_a_node_with_trouble_of_its_own_is_not_the_last_word(trouble):
    """Another may do better; where none does, what it said is the answer, and better than a failure."""
    assert await World(Client(trouble), Client(OK)).read() is OK
    assert await World(Client(trouble), Client(replies.UNREACHABLE)).read() is trouble
    assert await World(Client(trouble), Client(BEHIND)).read() is trouble


@pytest.mark.parametrize("failure", [replies.UNREACHABLE, replies.GARBAGE, replies.TIMED_OUT, BEHIND])
async def test_a_send_is_never_asked_twice(failure):
    """Whatever became of it, nobody here knows."""
    first, second = Client(failure), Client(OK)
    assert await World(first, second).pool.call("sendTransaction", b'["t"]', LONG_MS) is failure
    assert second.calls == []


async def test_a_send_that_never_left_goes_to_another_node():
    """Without a connection not one byte of it was sent, so this is no second time."""
    first, second = Client(replies.NOT_SENT), Client(OK)
    assert await World(first, second).pool.call("sendTransaction", b'["t"]', LONG_MS) is OK
    clients = [Client(replies.NOT_SENT), Client(replies.NOT_SENT)]
    answer = await World(*clients).pool.call("sendTransaction", b'["t"]', LONG_MS)
    assert answer.kind is AnswerKind.UNREACHABLE


async def test_a_send_that_hangs_is_not_hedged():
    """It has its class's time, and then it is a timeout."""
    first, second = Client(HANG), Client(OK)
    assert (await World(first, second).pool.call("sendTransaction", b'["t"]', 30)).kind is AnswerKind.TIMED_OUT
    assert second.calls == []


async def test_sends_go_to_nodes_for_sends_alone():
    """A role is a promise to the operator."""
    first, second = Client(OK), Client(OK)
    world = World(first, second, roles=("read", "send"))
    await world.pool.call("sendTransaction", b'["t"]', LONG_MS)
    await world.read()
    assert (first.calls, second.calls) == (["getSlot"], ["sendTransaction"])


async def test_a_late_read_is_asked_of_a_second_node_and_the_first_answer_wins():
    """The caller sees one answer and nothing of how it came; the loser's connection goes."""
    first, second = Client(HANG), Client(OK)
    world = World(first, second)
    assert await world.read() is OK
    assert first.left == 1
    assert asyncio.current_task().cancelling() == 0


async def test_a_late_answer_that_comes_first_wins_too():
    """The second request is then left alone, and says nothing about its node."""
    gate = asyncio.Event()

    class Slow(Client):
        async def call(self, method, params, timeout_ms):
            self.calls.append(method)
            await gate.wait()
            return OK

    first, second = Slow(OK), Client(HANG)
    world = World(first, second)
    call = asyncio.create_task(world.read())
    await until(lambda: second.calls)
    gate.set()
    assert await call is OK
    await asyncio.sleep(0)
    assert second.left == 1
    assert world.selection.all[1].breakers[Lane.CHEAP].seen == 0


async def test_a_failure_while_the_second_is_at_work_waits_for_it():
    """One answer is on its way already; and where that fails too, the next node is asked."""
    for script, asked in (((OK,), 0), ((replies.GARBAGE,), 1)):
        gate, arrived = asyncio.Event(), asyncio.Event()

        class Failing(Client):
            async def call(self, method, params, timeout_ms, gate=gate):
                await gate.wait()
                return replies.UNREACHABLE

        class Slow(Client):
            async def call(self, method, params, timeout_ms, arrived=arrived, gate=gate):
                arrived.set()
                await gate.wait()
                return await super().call(method, params, timeout_ms)

        third = Client(OK)
        world = World(Failing(OK), Slow(*script), third)
        call = asyncio.create_task(world.read())
        await arrived.wait()
        gate.set()
        assert await call is OK
        assert len(third.calls) == asked


async def test_a_caller_who_leaves_takes_all_requests_along():
    """The one under way and the second: nothing goes on for nobody."""
    first, second = Client(HANG), Client(HANG)
    call = asyncio.create_task(World(first, second).read())
    await until(lambda: second.calls)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.sleep(0)
    assert (first.left, second.left) == (1, 1)


async def test_a_caller_who_leaves_in_the_moment_of_the_rescue_has_left():
    """Two cancellations at once: the caller's own is not swallowed."""
    first, second = Client(HANG), Client(OK)
    world = World(first, second)
    call = asyncio.create_task(world.read())
    await until(lambda: second.calls)
    await until(call.cancelling)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_hanging_node_is_noticed_by_those_who_were_faster():
    """What did not answer while another did counts as failed: its breaker opens, and nobody is sent there."""
    first, second = Client(HANG), Client(OK)
    world = World(first, second)
    for _ in range(4 * FAILURES_MIN):
        assert await world.read() is OK
    assert world.selection.all[0].breakers[Lane.CHEAP].phase is Phase.OPEN
    assert len(first.calls) == FAILURES_MIN


async def test_without_budget_a_call_is_rescued_once_its_node_is_known_to_fail():
    """An overload is not doubled; but who waits at a node whose breaker has opened meanwhile need not wait on."""
    first, second = Client(HANG), Client(OK)
    world = World(first, second, hedge_percent=0)
    call = asyncio.create_task(world.read())
    await until(lambda: first.calls)
    await asyncio.sleep(0.01)
    assert (second.calls, call.done()) == ([], False)
    now_ms = int(asyncio.get_running_loop().time() * 1000)
    for _ in range(FAILURES_MIN):
        world.selection.all[0].breakers[Lane.CHEAP].ended(
            world.selection.all[0].breakers[Lane.CHEAP].begin(), False, now_ms
        )
    assert await call is OK


async def test_a_lagging_node_rescues_only_when_nobody_better_could():
    """First it is passed over; after half a second without an answer, an old one is better than none."""
    first, second = Client(HANG), Client(OK)
    world = World(first, second)
    world.selection.probed(1, Probe(True, slot=100))
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await world.read() is OK
    assert loop.time() - began >= 0.5


async def test_one_gone_one_hanging_and_one_behind_leave_the_one_behind():
    """Whoever of them is asked first: a failure of the second request is not the end of looking."""
    for clients, behind in (
        ((Client(HANG), Client(replies.UNREACHABLE), Client(OK)), 2),
        ((Client(replies.UNREACHABLE), Client(HANG), Client(OK)), 2),
        ((Client(OK), Client(HANG), Client(replies.UNREACHABLE)), 0),
    ):
        world = World(*clients)
        world.selection.probed(behind, Probe(True, slot=100))
        assert await world.read() is OK


async def test_a_node_that_dies_while_the_second_hangs_leaves_the_third():
    """The caller waits for a request that will not be answered, and it is looked after like the first."""
    gate = asyncio.Event()

    class Dying(Client):
        async def call(self, method, params, timeout_ms):
            await gate.wait()
            return replies.UNREACHABLE

    second, third = Client(HANG), Client(OK)
    world = World(Dying(OK), second, third)
    world.selection.probed(2, Probe(True, slot=100))
    call = asyncio.create_task(world.read())
    await until(lambda: second.calls)
    gate.set()
    assert await call is OK


async def test_all_of_it_ends_with_the_time_of_the_class():
    """However many nodes hang: one class's time for all together."""
    clients = [Client(HANG) for _ in range(3)]
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert (await World(*clients).read(timeout_ms=60)).kind is AnswerKind.TIMED_OUT
    assert loop.time() - began < 5


async def test_a_node_that_turns_calls_away_is_busy_not_right():
    """HTTP 5xx with a JSON-RPC error in them, and HTTP 429: somebody else is asked, and its breaker counts it."""
    for busy in (msgspec.structs.replace(error_of(-32005, "busy"), turned_away=True), replies.overloaded(3)):
        await turned_away_by(busy)


async def turned_away_by(busy: NodeAnswer) -> None:
    first, second = Client(busy), Client(OK)
    world = World(first, second)
    assert await world.read() is OK
    assert world.selection.all[0].breakers[Lane.CHEAP].failures == 1
    assert await World(Client(busy), Client(replies.UNREACHABLE)).read() is busy


async def test_a_send_that_a_node_refuses_to_take_goes_to_another_one():
    """HTTP 429: as after a refused connection, nobody has the transaction."""
    busy = replies.overloaded(3)
    first, second = Client(busy), Client(OK)
    assert await World(first, second).pool.call("sendTransaction", b"[]", 1_000) is OK
    assert (len(first.calls), len(second.calls)) == (1, 1)
    assert await World(Client(busy), Client(busy)).pool.call("sendTransaction", b"[]", 1_000) is busy


async def test_a_read_that_needs_a_slot_goes_where_it_is():
    """minContextSlot is read from the call itself."""
    first, second = Client(OK), Client(OK)
    world = World(first, second)
    world.selection.probed(1, Probe(True, slot=1_001))
    for _ in range(4):
        await world.read(b'[{"minContextSlot":1001}]')
    assert (len(first.calls), len(second.calls)) == (0, 4)
