"""Large answers over real sockets: they share one budget, wait for it, and give it back."""

import asyncio
import gc
import threading
import weakref
from typing import Any, ClassVar

import pytest

from actors.config import UpstreamConfig
from actors.upstream import client as client_module
from actors.upstream import replies
from actors.upstream.client import NodeClient
from actors.upstream.hedging import Hedges
from actors.upstream.large_bodies import HASHED_FOR, LargeBody
from actors.upstream.memory_budget import MemoryBudget
from actors.upstream.node_selection import NodeSelection
from actors.upstream.pool import NodePool
from actors.upstream.replies import AnswerKind, NodeAnswer

from .nodes import Exchange, RawNode, running
from .test_coalescing import BLOCK, LONG_MS, World, settle

CLASS_TIMEOUT_MS = 5_000
pytestmark = pytest.mark.usefixtures("way")


async def test_large_answers_share_one_budget_and_wait_for_it():
    """However many are asked at once, no more bytes of them are here than the budget has; nobody is refused for it."""
    body = b'{"jsonrpc":"2.0","result":"' + b"x" * (2 << 20) + b'","id":1}'

    async def large(exchange: Exchange) -> None:
        await exchange.send(exchange.response(body))

    async with running(RawNode(large)) as node:
        budget = MemoryBudget(5 << 20)
        client = NodeClient(UpstreamConfig(), node.url, "a", budget)
        lowest = []

        async def call() -> None:
            answer = await client.call("getBlock", b"[5]", CLASS_TIMEOUT_MS)
            assert answer.reply(b"1") == body
            lowest.append(budget.bytes_free)

        await asyncio.gather(*(call() for _ in range(8)))
        assert len(lowest) == 8
        assert min(lowest) >= 0
        assert budget.bytes_free == budget.bytes_max
        await client.close()


async def test_a_large_answer_that_nobody_waits_for_gives_its_memory_back():
    """A timeout in mid-body, or a caller who leaves, must not cost the others memory for ever."""

    async def half(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (2 << 20) + b"x" * 70_000)
        await exchange.hang()

    async with running(RawNode(half)) as node:
        budget = MemoryBudget(3 << 20)
        client = NodeClient(UpstreamConfig(), node.url, "a", budget)
        calls = [client.call("getBlock", b"[5]", 50) for _ in range(3)]  # The second and third wait for memory.
        assert {(await call).kind for call in asyncio.as_completed(calls)} == {AnswerKind.TIMED_OUT}
        assert budget.bytes_free == budget.bytes_max
        await client.close()


async def test_an_answer_of_unknown_length_never_claims_more_than_is_taken():
    """Else one that is taken would wait for memory that there cannot be, where the budget is for just one answer."""
    body = b'{"jsonrpc":"2.0","result":"' + b"x" * (9 << 20) + b'","id":1}'

    async def chunked(exchange: Exchange) -> None:
        own = body.replace(b"1}", exchange.id + b"}")
        await exchange.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n" % len(own) + own)
        await exchange.send(b"\r\n0\r\n\r\n")

    async with running(RawNode(chunked)) as node:
        budget = MemoryBudget(12 << 20)
        client = NodeClient(UpstreamConfig(answer_bytes_max=12 << 20), node.url, "a", budget)
        answer = await client.call("getBlock", b"[5]", CLASS_TIMEOUT_MS)
        assert len(answer.body) - len(body) == 14, "an id of fifteen digits in place of one"
        assert budget.bytes_free == 0
        del answer
        assert budget.bytes_free == budget.bytes_max
        await client.close()


async def test_a_call_without_memory_for_its_answer_is_refused_in_time_and_the_node_is_not_blamed():
    """The node has answered: a timeout of it would count against it, and turn other customers' sends away from it."""
    body = b'{"jsonrpc":"2.0","result":"' + b"x" * (2 << 20) + b'","id":1}'

    async def large(exchange: Exchange) -> None:
        await exchange.send(exchange.response(body))

    async with running(RawNode(large)) as node:
        budget = MemoryBudget(5 << 20, share_seconds=0.02)
        client = NodeClient(UpstreamConfig(), node.url, "a", budget)
        HASHED_FOR.set((b"[5]", b"1", b"one"))
        held = await client.call("getBlock", b"[5]", CLASS_TIMEOUT_MS)
        assert held.kind is AnswerKind.RESULT
        assert await client.call("getBlock", b"[6]", CLASS_TIMEOUT_MS) is replies.NO_ROOM, "its account has its share"
        HASHED_FOR.set((b"[5]", b"1", b"two"))
        budget.bytes_free -= 2 << 20
        assert await client.call("getBlock", b"[6]", 200) is replies.NO_ROOM, "there is none for anybody"
        selection = NodeSelection(UpstreamConfig(nodes=({"name": "a", "url": node.url},)).named_nodes, 128, 1_000)
        pool = NodePool(selection, [client], Hedges(20, 10))
        for _ in range(6):
            assert await pool.call("getBlock", b"[6]", 100) is replies.NO_ROOM
        assert [breaker.failures for breaker in selection.all[0].breakers] == [0, 0, 0, 0]
        await client.close()


class _Noted(LargeBody):
    made: ClassVar["list[weakref.ref[_Noted]]"] = []

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.made.append(weakref.ref(self))

    @classmethod
    def bytes_left(cls) -> int:
        """Of all bodies that are still in memory."""
        bodies = [body for each in cls.made if (body := each()) is not None]
        return sum(len(part) for body in bodies for part in (*body._parts, *body._small))


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_the_parts_of_a_body_that_breaks_off_leave_memory_with_their_claim(monkeypatch, is_chunked: bool):
    """Without a garbage collection, which may be far off: else a node that breaks off fills the memory, whatever the
    budget says."""
    monkeypatch.setattr(client_module, "LargeBody", _Noted)
    _Noted.made.clear()

    async def half(exchange: Exchange) -> None:
        head = b"transfer-encoding: chunked\r\n\r\n500000\r\n" if is_chunked else b"content-length: 5242880\r\n\r\n"
        await exchange.send(b"HTTP/1.1 200 OK\r\n" + head + b"x" * (4 << 20))
        exchange.writer.close()

    async with running(RawNode(half)) as node:
        budget = MemoryBudget(64 << 20)
        client = NodeClient(UpstreamConfig(answer_bytes_max=16 << 20), node.url, "a", budget)
        gc.disable()
        try:
            for _ in range(3):
                answer = await client.call("getBlock", b"[5]", CLASS_TIMEOUT_MS)
                assert answer.kind is AnswerKind.UNREACHABLE
            assert len(_Noted.made) >= 3 and budget.bytes_free == budget.bytes_max
            assert _Noted.bytes_left() == 0
        finally:
            gc.enable()
        await client.close()


async def test_memory_of_an_answer_that_a_thread_drops_last_is_given_back_by_the_loop():
    """As by the thread that hashes an answer, when its client has left. A claim that waits is granted at once."""
    body = b'{"jsonrpc":"2.0","result":"' + b"x" * (2 << 20) + b'","id":1}'

    async def large(exchange: Exchange) -> None:
        await exchange.send(exchange.response(body))

    threads: list[int] = []

    class Noted(MemoryBudget):
        def give_back(self, *given: Any) -> None:
            threads.append(threading.get_ident())
            super().give_back(*given)

    async with running(RawNode(large)) as node:
        budget = Noted(3 << 20)
        client = NodeClient(UpstreamConfig(answer_bytes_max=3 << 20), node.url, "a", budget)
        held = [await client.call("getBlock", b"[5]", CLASS_TIMEOUT_MS)]
        waiting = asyncio.create_task(budget.claim(2 << 20))
        await asyncio.sleep(0)
        await asyncio.to_thread(held.clear)
        assert await asyncio.wait_for(waiting, 1) == 2 << 20
        assert threads == [threading.get_ident()]
        await client.close()


async def test_of_an_account_that_has_its_share_one_caller_asks_and_not_one_after_the_other():
    """Each of them would wait for memory anew, and callers of other accounts who joined behind them would wait for all:
    20 calls that cost nothing kept a block from everybody for its whole time."""
    world = World()

    async def ask(account: bytes) -> NodeAnswer:
        HASHED_FOR.set((b"[5]", b"1", account))
        return await world.reads.call("getBlock", b"[5]", LONG_MS)

    full = [asyncio.create_task(ask(b"full")) for _ in range(20)]
    other = asyncio.create_task(ask(b"other"))
    await settle()
    await world.answer(replies.NO_ROOM)
    assert [call.done() and call.result() for call in full] == [replies.NO_ROOM] * 20
    assert not other.done() and len(world.node.asked) == 2
    await world.answer(BLOCK)
    assert (await other).kind is AnswerKind.RESULT
