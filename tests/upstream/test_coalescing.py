"""Shared reads against a chain that moves between any two steps. One rule above all: nobody gets an answer that is
older than his question allows, and nobody's leaving or failure becomes another's."""

import asyncio
from dataclasses import dataclass, field

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.upstream import replies
from actors.upstream.coalescing import CoalescedReads
from actors.upstream.node_health import Commitment
from actors.upstream.read_cache import ReadCache
from actors.upstream.replies import AnswerKind, NodeAnswer

LONG_MS = 30_000
CONFIRMED = b'["k",{"commitment":"confirmed"}]'


def answer_of(result: object) -> NodeAnswer:
    return replies.judge(orjson.dumps({"jsonrpc": "2.0", "result": result, "id": 1}), "a")


ERROR = replies.judge(b'{"jsonrpc":"2.0","error":{"code":-32004,"message":"Block not available for slot 5"},"id":1}')
BLOCK = answer_of({"blockhash": "x"})


class HeldNode:
    """Every call waits until the test answers it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes, int]] = []
        self.waiting: list[asyncio.Future[NodeAnswer]] = []
        self.left = 0

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        self.asked.append((method, params, timeout_ms))
        future: asyncio.Future[NodeAnswer] = asyncio.get_running_loop().create_future()
        self.waiting.append(future)
        try:
            return await future
        except asyncio.CancelledError:
            self.left += 1
            raise
        finally:
            self.waiting.remove(future)


async def settle() -> None:
    for _ in range(12):
        await asyncio.sleep(0)


class World:
    def __init__(self, cache_bytes: int = 100_000) -> None:
        self.node = HeldNode()
        self.cache = ReadCache(cache_bytes)
        self.reads = CoalescedReads(self.node, self.cache)

    def ask(self, method: str, params: bytes = b"[]", timeout_ms: int = LONG_MS) -> "asyncio.Task[NodeAnswer]":
        return asyncio.create_task(self.reads.call(method, params, timeout_ms))

    async def answer(self, answer: NodeAnswer, index: int = 0) -> None:
        self.node.waiting[index].set_result(answer)
        await settle()


async def test_a_thousand_at_once_make_one_request_for_a_block():
    """A block cannot change, so all join the request under way; the next caller finds it kept."""
    world = World()
    calls = [world.ask("getBlock", b"[5]") for _ in range(1_000)]
    await settle()
    assert len(world.node.asked) == 1
    await world.answer(BLOCK)
    marks = [(await call).cache for call in calls]
    assert (marks[0], set(marks[1:])) == ("miss", {"coalesced"})
    assert (await world.ask("getBlock", b" [ 5 ] ")).cache == "hit"
    assert len(world.node.asked) == 1


@pytest.mark.parametrize(
    ("method", "params"),
    [("getBlock", b'[5,{"commitment":"confirmed"}]'), ("getTransaction", b'["s",{"commitment":"confirmed"}]')],
)
async def test_what_is_not_final_is_not_joined_under_way_nor_kept(method, params):
    """A fork may be lost between the look and the second caller's question; its slot is final by the time it comes."""
    world = World()
    calls = [world.ask(method, params) for _ in range(3)]
    await settle()
    world.cache.saw_slot(Commitment.FINALIZED, 9)
    await world.answer(answer_of({"slot": 5, "blockhash": "lost"}))
    await world.answer(answer_of({"slot": 5, "blockhash": "x"}))
    hashes = [orjson.loads((await call).value())["blockhash"] for call in calls]
    assert hashes == ["lost", "x", "x"]
    again = await world.ask(method, params)
    assert (again.cache, orjson.loads(again.value())["blockhash"]) == ("hit", "x")
    assert len(world.node.asked) == 2


async def test_a_thousand_at_once_make_two_requests_for_a_state():
    """The first is under way when the others come, and might have been answered before: they share the second."""
    world = World()
    calls = [world.ask("getSlot") for _ in range(1_000)]
    await settle()
    assert len(world.node.asked) == 1
    await world.answer(answer_of(7))
    assert (await calls[0]).value() == b"7"
    assert len(world.node.asked) == 2
    await world.answer(answer_of(8))
    assert {(await call).value() for call in calls[1:]} == {b"8"}
    assert [call.result().cache for call in calls[:3]] == ["miss", "miss", "coalesced"]
    assert len(world.node.asked) == 2


async def test_an_error_about_a_block_is_of_those_who_asked_then():
    """Not available now may be available in a moment: who came later asks anew, all together."""
    world = World()
    calls = [world.ask("getBlock", b"[5]") for _ in range(100)]
    await settle()
    await world.answer(ERROR)
    assert (await calls[0]).error_code == -32004
    assert not calls[1].done()
    assert len(world.node.asked) == 2
    await world.answer(BLOCK)
    assert {(await call).kind for call in calls[1:]} == {AnswerKind.RESULT}
    assert len(world.node.asked) == 2


async def test_an_error_is_given_to_those_alone_who_wrote_the_same():
    """A node refuses -0 where it takes 0: one caller's way of writing must not cost others their reads or credits."""
    world = World()
    honest, odd = b'[5,{"maxSupportedTransactionVersion":0}]', b'[5,{"maxSupportedTransactionVersion":-0}]'
    under_way = world.ask("getBlock", honest)
    await settle()
    calls = [world.ask("getBlock", params) for params in (odd, honest, odd, honest)]
    await settle()
    await world.answer(replies.judge(b'{"jsonrpc":"2.0","error":{"code":-32004,"message":"no"},"id":1}'))
    assert (await under_way).error_code == -32004
    assert [params for _, params, _ in world.node.asked[1:]] == [odd], "it was the first to gather"
    await world.answer(replies.judge(b'{"jsonrpc":"2.0","error":{"code":-32602,"message":"-0"},"id":1}'))
    for _ in range(2):
        await world.answer(BLOCK)
    assert [params for _, params, _ in world.node.asked[2:]] == [honest, honest]
    assert [(await call).kind for call in calls] == [AnswerKind.ERROR, AnswerKind.RESULT] * 2
    assert [call.result().cache for call in calls] == ["miss", "miss", "coalesced", "miss"]


@pytest.mark.parametrize("method", ["sendTransaction", "simulateTransaction"])
async def test_sends_are_never_shared(method):
    """Two sends are two sends; and no X-Cache is claimed for them."""
    world = World()
    calls = [world.ask(method, b'["t"]') for _ in range(3)]
    await settle()
    assert len(world.node.asked) == 3
    for _ in range(3):
        await world.answer(answer_of("s"))
    assert [(await call).cache for call in calls] == ["", "", ""]


@pytest.mark.parametrize("method", ["getBlock", "getSlot"])
async def test_one_who_leaves_ends_nobody_elses_waiting(method):
    """Neither a follower's leaving nor the leader's; the others ask anew, together."""
    world = World()
    params = b"[5]" if method == "getBlock" else b"[]"
    calls = [world.ask(method, params) for _ in range(5)]
    await settle()
    calls[3].cancel()
    calls[0].cancel()
    await settle()
    assert world.node.left == 1
    while world.node.waiting:
        await world.answer(BLOCK)
    assert [(await calls[index]).kind for index in (1, 2, 4)] == [AnswerKind.RESULT] * 3
    assert len(world.node.asked) == 2
    for index in (0, 3):
        with pytest.raises(asyncio.CancelledError):
            await calls[index]


async def test_the_first_who_gathers_may_leave_too():
    """Before its turn, and in the very moment of it: somebody else asks, nothing is forgotten."""
    for leaves_at_turn in (False, True):
        world = World()
        calls = [world.ask("getSlot") for _ in range(4)]
        await settle()
        if leaves_at_turn:
            world.node.waiting[0].set_result(answer_of(1))
            await asyncio.wait([calls[0]])
        calls[1].cancel()
        await settle()
        while world.node.waiting:
            await world.answer(answer_of(2))
        assert [(await calls[index]).value() for index in (2, 3)] == [b"2", b"2"]
        assert world.reads._shared_reads == {}


@pytest.mark.parametrize("failure", [replies.UNREACHABLE, replies.GARBAGE, replies.OVERSIZED])
async def test_a_failure_is_everybodys(failure):
    """The pool has tried what it could; a thousand further tries would not help anybody."""
    world = World()
    calls = [world.ask("getBlock", b"[5]") for _ in range(10)]
    await settle()
    await world.answer(failure)
    assert {(await call) for call in calls} == {failure}
    assert len(world.node.asked) == 1


@pytest.mark.parametrize("failure", [replies.TIMED_OUT, replies.NO_ROOM])
async def test_a_timeout_is_of_the_one_who_asked(failure):
    """Who came later has time left, and memory of its account, and asks again; whose time is over has a timeout."""
    world = World()
    first = world.ask("getBlock", b"[5]", 60)
    await settle()
    late = [world.ask("getBlock", b"[5]") for _ in range(3)]
    short = world.ask("getBlock", b"[5]", 1)
    assert (await short).kind is AnswerKind.TIMED_OUT
    await world.answer(failure)
    assert await first is failure
    assert len(world.node.asked) == 2
    await world.answer(BLOCK)
    assert {(await call).kind for call in late} == {AnswerKind.RESULT}


async def test_a_turn_that_does_not_come_in_time_is_a_timeout():
    """A request that hangs holds nobody longer than his class allows, and the flight lands as if he had not been."""
    world = World()
    first = world.ask("getSlot")
    await settle()
    assert (await world.ask("getSlot", b"[]", 1)).kind is AnswerKind.TIMED_OUT
    await world.answer(answer_of(1))
    assert (await first).value() == b"1"
    assert world.reads._shared_reads == {}


async def test_a_pinned_answer_is_given_again_only_after_a_look_at_the_chain():
    """The same slot: hit. A later one: asked anew. No word about it: asked anew."""
    world = World()
    at = [answer_of({"context": {"slot": slot}, "value": 5}) for slot in range(12)]
    asked = len(world.node.asked)

    async def one(*answers: NodeAnswer) -> NodeAnswer:
        call = world.ask("getBalance", CONFIRMED)
        await settle()
        for answer in answers:
            await world.answer(answer)
        return await call

    assert (await one(at[7])).cache == "miss"
    assert (await one(answer_of(7))).cache == "hit"
    assert (await one(answer_of(8), at[9])).cache == "miss"
    assert (await one(replies.UNREACHABLE, at[9])).cache == "miss"
    assert (await one(answer_of(9))).cache == "hit"
    methods = [method for method, _, _ in world.node.asked[asked:]]
    assert methods == ["getBalance", "getSlot", "getSlot", "getBalance", "getSlot", "getBalance", "getSlot"]
    assert {params for method, params, _ in world.node.asked if method == "getSlot"} == {
        b'[{"commitment":"confirmed"}]'
    }


async def test_without_a_cache_nothing_is_kept():
    """cache_bytes_max = 0: identical reads still share."""
    world = World(0)
    for _ in range(2):
        call = world.ask("getBlock", b"[5]")
        await settle()
        await world.answer(BLOCK)
        assert (await call).cache == "miss"


# --- a model of the chain

LEVELS = ("processed", "confirmed", "finalized")


@dataclass
class Chain:
    """Slots by commitment, and a state that changes with each slot; the node looks at it when the test says so."""

    slots: dict[str, int] = field(default_factory=lambda: {"processed": 12, "confirmed": 11, "finalized": 10})
    calls: list["Look"] = field(default_factory=list)

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        arguments = orjson.loads(params)
        config = arguments[-1] if arguments and isinstance(arguments[-1], dict) else {}
        look = Look(self, method, config.get("commitment", "finalized"), arguments)
        self.calls.append(look)
        try:
            return await look.future
        finally:
            self.calls.remove(look)


class Look:
    def __init__(self, chain: Chain, method: str, level: str, arguments: list) -> None:
        self.chain, self.method, self.level, self.arguments = chain, method, level, arguments
        self.future: asyncio.Future[NodeAnswer] = asyncio.get_running_loop().create_future()
        self.seen: NodeAnswer | None = None

    def evaluate(self) -> None:
        slot = self.chain.slots[self.level]
        if self.method == "getSlot":
            self.seen = answer_of(slot)
        elif self.method == "getBlock":
            wanted = self.arguments[0]
            self.seen = answer_of({"blockhash": wanted}) if wanted <= slot else ERROR
        else:
            self.seen = answer_of({"context": {"slot": slot}, "value": slot * 10})

    def deliver(self, failure: NodeAnswer | None) -> None:
        if self.future.done():
            return
        if self.seen is None:
            self.evaluate()
        assert self.seen is not None
        self.future.set_result(failure or self.seen)


questions = st.one_of(
    st.tuples(st.sampled_from(["getBalance", "getSlot"]), st.sampled_from(LEVELS)),
    st.tuples(st.just("getBlock"), st.integers(10, 16)),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), questions),
        st.tuples(st.just("ask"), questions),
        st.tuples(st.just("move"), st.sampled_from(LEVELS)),
        st.tuples(st.just("look"), st.integers(0, 5)),
        st.tuples(st.just("deliver"), st.integers(0, 5)),
        st.tuples(st.just("deliver"), st.integers(0, 5)),
        st.tuples(st.just("fail"), st.integers(0, 5)),
        st.tuples(st.just("leave"), st.integers(0, 9)),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(steps=steps)
def test_whatever_happens_no_answer_is_older_than_its_question(steps):
    """The chain moves, requests are answered late, fail or lose their callers, in any order: a state given to somebody
    is of a slot not before the one that was current when he asked; an error about a block was true after he asked;
    everybody who stayed is answered; nothing is left behind."""
    asyncio.run(_run(steps))


async def _run(steps) -> None:
    chain = Chain()
    reads = CoalescedReads(chain, ReadCache(100_000))
    asked: list[tuple[asyncio.Task[NodeAnswer], str, object, dict[str, int]]] = []
    for step, value in steps:
        if step == "ask":
            method, detail = value
            params = [detail] if method == "getBlock" else [{"commitment": detail}]
            if method == "getBalance":
                params = ["k", *params]
            task = asyncio.create_task(reads.call(method, orjson.dumps(params), LONG_MS))
            asked.append((task, method, detail, dict(chain.slots)))
        elif step == "move":
            _move(chain, value)
        elif step == "leave" and asked:
            asked[value % len(asked)][0].cancel()
        elif chain.calls and step == "look":
            look = chain.calls[value % len(chain.calls)]
            look.evaluate() if look.seen is None else None
        elif chain.calls and step in ("deliver", "fail"):
            chain.calls[value % len(chain.calls)].deliver(replies.UNREACHABLE if step == "fail" else None)
        await settle()
    while chain.calls:
        chain.calls[0].deliver(None)
        await settle()
    for task, method, detail, then in asked:
        assert task.done()
        if not task.cancelled():
            _check(task.result(), method, detail, then)
    assert reads._shared_reads == {}


def _move(chain: Chain, level: str) -> None:
    """One slot on, and what is less certain is never behind what is more."""
    chain.slots[level] += 1
    chain.slots["confirmed"] = max(chain.slots["confirmed"], chain.slots["finalized"])
    chain.slots["processed"] = max(chain.slots["processed"], chain.slots["confirmed"])


def _check(answer: NodeAnswer, method: str, detail: object, then: dict[str, int]) -> None:
    if not answer.answered:
        return
    if method == "getBlock":
        if answer.kind is AnswerKind.ERROR:
            assert detail > then["finalized"]
        else:
            assert orjson.loads(answer.value()) == {"blockhash": detail}
    elif method == "getSlot":
        assert int(answer.value()) >= then[detail]
    else:
        result = orjson.loads(answer.value())
        assert result["context"]["slot"] >= then[detail]
        assert result["value"] == result["context"]["slot"] * 10
