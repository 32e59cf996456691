"""Many calls to the node for one call of a client: bounded, within its time, and none left running."""

import asyncio

import msgspec
import pytest

from actors.lookups import fan_out
from actors.lookups.fan_out import CALLS_PER_REQUEST, Asker, fault_text
from actors.upstream import replies
from actors.upstream.account_view import AccountView, under
from actors.upstream.replies import AnswerKind
from tests.ported_node import PortedNode, node_error, node_result
from tests.upstream.lagging import ADDRESS, of


def node() -> PortedNode:
    return PortedNode(interfere=lambda method, params: node_result(params[0]))


async def test_answers_come_in_order_and_some_at_a_time():
    """A history of a hundred does not take a hundred connections."""
    ported = node()
    questions = Asker(ported, 100).questions(5_000)
    answers = await questions.each(range(50), lambda number: questions.ask("m", number))
    assert [answer.value() for answer in answers] == [b"%d" % number for number in range(50)]
    assert ported.at_once_max == CALLS_PER_REQUEST


async def test_all_requests_together_leave_room():
    """The bound of the process holds across requests."""
    ported = node()
    asker = Asker(ported, 3)
    all_questions = [asker.questions(5_000) for _ in range(4)]
    await asyncio.gather(*(r.each(range(10), lambda number, r=r: r.ask("m", number)) for r in all_questions))
    assert ported.at_once_max == 3
    assert len(ported.calls) == 40


async def test_a_question_gets_what_is_left_of_the_time():
    """After the time has ended no call is made."""
    ported = node()
    questions = Asker(ported, 1).questions(2_000)
    await questions.ask("m", 1)
    assert 0 < ported.calls[0][2] <= 2_000
    late = Asker(ported, 1).questions(0)
    assert await late.ask("m", 1) is replies.TIMED_OUT
    assert len(ported.calls) == 1


async def test_what_is_too_much_to_read_is_not_read():
    """The limits of one answer and of all answers to one call: one huge wallet does not delay other clients."""
    ported = PortedNode(interfere=lambda method, params: node_result("x" * params[0]))
    asker = Asker(ported, 1)
    assert await asker.questions(5_000).ask("m", fan_out.ANSWER_BYTES_MAX) is replies.OVERSIZED
    questions = asker.questions(60_000)
    piece = fan_out.ANSWER_BYTES_MAX - 1_000
    answers = [await questions.ask("m", piece) for _ in range(5)]
    assert [answer is replies.OVERSIZED for answer in answers] == [False] * 4 + [True]
    assert (await questions.ask("m", 10)).kind is AnswerKind.RESULT


async def test_a_large_answer_is_read_in_one_part():
    """Its readers want it whole, and a copy of 16 MB in the loop's thread held it for 12 ms."""
    whole = node_result("x" * (3 << 20))
    large = msgspec.structs.replace(whole, first=whole.body[: 1 << 20], further=(whole.body[1 << 20 :],))
    answer = await Asker(PortedNode(interfere=lambda method, params: large), 1).questions(5_000).ask("m", 1)
    assert not answer.further and answer.value() == whole.value()


async def test_waiting_for_room_ends_with_the_time():
    """The calls that hold the places may have more time than this one."""
    gate = asyncio.Event()

    class Slow:
        async def call(self, method, params, timeout_ms):
            await gate.wait()
            return node_result(1)

    asker = Asker(Slow(), 1)
    first = asyncio.create_task(asker.questions(60_000).ask("m", 1))
    await asyncio.sleep(0)
    assert await asker.questions(1).ask("m", 1) is replies.TIMED_OUT
    gate.set()
    assert (await first).value() == b"1"


async def test_a_question_that_waits_for_its_nodes_holds_no_place():
    """Decisions, "Monotonic reads": those who wait hold up nobody else, and have their answers all the same."""
    replica = of(2)
    asker = Asker(replica, 1)
    floor = (0, 1_000, 0, 0, 0, 0)
    asked = "getBalance", ADDRESS, {"commitment": "confirmed"}
    asks = [asker.questions(5_000).ask for _ in range(CALLS_PER_REQUEST)]
    waiting = [asyncio.create_task(under(AccountView(floor), ask, *asked)) for ask in asks]
    await asyncio.sleep(0)
    other = await asker.questions(1_000).ask("getSlot")
    assert other.value() == b"998" and not any(task.done() for task in waiting)
    replica.nodes[0].lag = 0
    assert [answer.kind for answer in await asyncio.gather(*waiting)] == [AnswerKind.RESULT] * CALLS_PER_REQUEST
    assert (await asker.questions(1_000).ask("getSlot")).value() == b"1000"


async def test_a_caller_who_leaves_takes_all_questions_along():
    """When the client leaves, its calls to the node end."""
    never, busy, asked = asyncio.Event(), asyncio.Event(), []

    class Silent:
        async def call(self, method, params, timeout_ms):
            asked.append(params)
            if len(asked) == CALLS_PER_REQUEST:
                busy.set()
            await never.wait()

    questions = Asker(Silent(), 100).questions(60_000)
    task = asyncio.create_task(questions.each(range(20), lambda number: questions.ask("m", number)))
    await busy.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(asked) == CALLS_PER_REQUEST
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_the_nodes_that_answered_are_named():
    """The X-Node header has them; a node that did not answer is not named."""
    names = iter(["b", "a", "b", ""])
    ported = PortedNode(interfere=lambda *_: replies.made(b"1", next(names)))
    questions = Asker(ported, 1).questions(5_000)
    await questions.each(range(4), lambda number: questions.ask("m", number))
    assert questions.nodes == "a, b"


def test_every_failure_has_its_words():
    """The text is for the client and does not contain the node's address."""
    for failure in (replies.GARBAGE, replies.UNREACHABLE, replies.TIMED_OUT, replies.OVERSIZED):
        assert "node" in fault_text(failure)
    assert fault_text(node_error(-32005, "Node is unhealthy")) == "the node says: Node is unhealthy (-32005)"
