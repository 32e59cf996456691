"""Answers as they leave: whose they are, and the large ones in pieces."""

import asyncio
import gc
from functools import partial

import pytest

from actors.calls import read_evidence
from actors.gateway.calls import answers, evidence
from actors.gateway.calls.answers import LARGE_BYTES
from actors.gateway.calls.outcomes import Reply
from actors.upstream import replies
from actors.upstream.memory_budget import MemoryBudget
from actors.upstream.replies import Lease, NodeAnswer
from ledger_gateway.receipts import digest_of
from tests.gateway.doubles import RESULT, ScriptedNode
from tests.gateway.test_wire import a_world_with_a_node, listening, post, speak
from tests.gateway.world import a_world, call
from tests.upstream.nodes import Exchange, RawNode


def large(size: int = LARGE_BYTES, node: str = "a", lease: Lease | None = None) -> NodeAnswer:
    return replies.judge(b'{"jsonrpc":"2.0","result":"' + b"x" * size + b'","id":1}', node, lease)


def body_of(answered: answers.Response) -> bytes:
    return answered.body + b"".join(answered.parts)


def test_a_large_answer_is_sent_without_a_copy_of_it():
    """A thousand callers of one block share its bytes; only the id is each one's own."""
    answer = large()
    shaped = answers.single(Reply(b'"mine"', answer, None), b'"mine"')
    assert shaped.body == b""
    assert body_of(shaped) == answer.reply(b'"mine"')
    assert all(part.obj is answer.body for part in shaped.parts if isinstance(part, memoryview))
    assert answers.single(Reply(b"1", RESULT, None), b"1").parts == ()


def test_a_batch_with_large_answers_is_the_same_batch():
    """In order, with commas between, whichever of them are large."""
    items = [Reply(b"%d" % number, answer, None) for number, answer in enumerate((RESULT, large(), RESULT, large()))]
    shaped = answers.batch(items, "r", {})
    assert body_of(shaped) == b"[" + b",".join(item.answer.reply(item.id) for item in items) + b"]"
    small = answers.batch(items[:1], "r", {})
    assert small.body == b"[" + RESULT.reply(b"0") + b"]"


@pytest.mark.parametrize(
    ("marks", "headers"),
    [
        ([("a", "miss")], [(b"x-node", b"a"), (b"x-cache", b"miss")]),
        ([("a", "hit"), ("b", "miss"), ("a", "hit")], [(b"x-node", b"a, b"), (b"x-cache", b"hit, miss")]),
        ([("", "")], []),
        ([("", "hit")], [(b"x-cache", b"hit")]),
    ],
)
def test_headers_say_who_served_it_and_how_it_came_about(marks, headers):
    """Of a batch each name once; an operator who has switched the names off has none."""
    served = [NodeAnswer(RESULT.kind, RESULT.body, node=node, cache=cache) for node, cache in marks]
    assert answers.served_by(served) == headers


async def test_pieces_are_sent_as_fast_as_they_are_taken():
    """No piece is offered before the last was taken, so a slow client holds one of them and not the whole."""
    taken: list[int] = []

    async def send(message) -> None:
        taken.append(len(message["body"]))
        await asyncio.sleep(0)

    answer = large(5 * LARGE_BYTES)
    await answers.send_parts(send, answers.cut(answer.reply_parts(b"1")), "r")
    assert sum(taken) == len(answer.body)
    assert max(taken) <= 2 * LARGE_BYTES
    assert taken[-1] == 0


async def test_a_client_that_takes_nothing_is_let_go(monkeypatch):
    """It holds room that others wait for; the response ends without its end, which no client takes for whole."""
    monkeypatch.setattr(answers, "_PIECE_SECONDS_MAX", 0.01)
    sent = []

    async def send(message) -> None:
        sent.append(message)
        await asyncio.Event().wait()

    await answers.send_parts(send, answers.cut(large().reply_parts(b"1")), "r")
    assert [message["more_body"] for message in sent] == [True]


async def test_the_time_of_a_client_begins_anew_with_each_piece_that_it_takes(monkeypatch):
    """Rule: a client may take as long as it likes, if it takes each piece in time; and not longer for one of them."""
    loop, passed = asyncio.get_running_loop(), 0.0
    time = loop.time
    monkeypatch.setattr(loop, "time", lambda: time() + passed)
    taken: list[int] = []
    piece_seconds = answers._PIECE_SECONDS_MAX / 2

    async def send(message) -> None:
        nonlocal passed
        taken.append(len(message["body"]))
        passed += piece_seconds
        for _ in range(3):  # A timer that is due ends this.
            await asyncio.sleep(0)

    parts = large().reply_parts(b"1") * 4
    assert await answers.send_parts(send, answers.cut(parts), "r") is True
    assert len(taken) > 8 and taken[-1] == 0
    piece_seconds = answers._PIECE_SECONDS_MAX * 1.1
    assert await answers.send_parts(send, answers.cut(parts), "r") is False
    assert taken[-1] != 0


async def test_an_answer_gives_way_to_others_who_wait_for_its_memory():
    """It ends without its end, though its client takes some of it all the time."""
    budget = MemoryBudget(2 * LARGE_BYTES, give_way_seconds=0.02)
    await budget.claim(2 * LARGE_BYTES, b"slow")
    holding = budget.arrived(2 * LARGE_BYTES, b"slow")
    answer = large(lease=Lease(partial(budget.give_back, 2 * LARGE_BYTES, b"slow", holding), holding))
    response = answers.single(Reply(b"1", answer, None), b"1")
    del answer
    taken: list[int] = []

    async def send(message) -> None:
        taken.append(len(message["body"]))
        await asyncio.sleep(0.05 if taken[-1] else 0)

    response.parts *= 1_000
    late = answers.LateAnswers(None, lambda *_: None)
    sending = asyncio.create_task(late.send_parts(send, response))
    waiting = asyncio.create_task(budget.claim(LARGE_BYTES, b"other"))
    assert await asyncio.wait_for(sending, 2) is False
    assert 0 not in taken and not waiting.done()
    del response, sending
    gc.collect()
    assert await asyncio.wait_for(waiting, 1) == LARGE_BYTES


async def test_the_room_of_a_large_answer_is_free_when_it_has_left():
    """And not before its last byte: what is being sent is still here."""
    freed: list[int] = []
    node = ScriptedNode(lambda method, params: large(lease=Lease(lambda: freed.append(1))))
    async with a_world(node) as world:
        customer = await world.customer(100)
        answered = await world.rpc(customer, call("getBlock", 5))
        assert len(answered.content) > LARGE_BYTES
        assert answered.headers["x-node"] == "a"
        del answered
        gc.collect()
        assert freed == [1]


BLOCK = b'{"jsonrpc":"2.0","result":{"blockhash":"' + b"x" * (10 << 20) + b'"},"id":1}'


async def test_ten_megabytes_reach_the_client_as_the_node_sent_them():
    """From socket to socket, under the client's own id, for the published price."""

    async def answer(exchange: Exchange) -> None:
        await exchange.send(exchange.response(BLOCK))

    async with a_world_with_a_node(RawNode(answer)) as world, listening(world.door) as port:
        customer = await world.customer(100)
        body = b'{"jsonrpc":"2.0","id":"mine","method":"getBlock","params":[5]}'
        answered = await speak(port, post(customer.api_key, body))
        assert answered.partition(b"\r\n\r\n")[2] == BLOCK.replace(b'"id":1}', b'"id":"mine"}')
        assert await world.debits(customer) == [("getBlock", 25)]


async def test_a_node_that_breaks_in_mid_body_costs_nothing_and_sends_no_half_block():
    """Money rule 2, in the customer's favour: what was not received whole was not answered."""

    async def half(exchange: Exchange) -> None:
        await exchange.send(exchange.response(BLOCK)[: 5 << 20])
        exchange.reset()

    async with a_world_with_a_node(RawNode(half)) as world:
        customer = await world.customer(100)
        failed = await world.rpc(customer, call("getBlock", 5))
        assert (failed.status_code, failed.json()["error"]["code"]) == (502, -32003)
        assert (await world.debits(customer), await world.balance(customer)) == ([], 100)


async def test_a_large_answer_is_hashed_on_its_way_and_not_once_more(monkeypatch):
    """Whether the call is held first or asked ahead. The ledger has the hash of what the client got."""

    def refuse(*work) -> None:
        raise AssertionError("a thread was asked to hash")

    monkeypatch.setattr(evidence.asyncio, "to_thread", refuse)

    async def answer(exchange: Exchange) -> None:
        body = b'{"jsonrpc":"2.0","result":"' + exchange.id * times.pop() + b'","id":%b}' % exchange.id
        await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))

    times = [120_000, 30_000] * 2
    async with a_world_with_a_node(RawNode(answer)) as world:
        customer = await world.customer(1_000_000)
        got = [(await world.rpc(customer, call("getBlock", slot))).content for slot in (5, 6, 7, 8)]
        entries = [entry for entry, _ in world.store.rows[customer.pubkey].entries if entry.method == "getBlock"]
        found = [read_evidence(entry.operation, entry.description) for entry in entries]
        assert [one.digest for one in found] == [
            digest_of(b"[%d]" % slot, body) for slot, body in zip((5, 6, 7, 8), got, strict=True)
        ]
