"""Paid answers of a replica that was out of touch with the owner of their account leave only if their charges stand.

Rules: money rule 2, threat 57.
"""

import asyncio
import json

import pytest

from actors.accounts.api import SetLimits
from actors.gateway.calls.answers import LARGE_BYTES, LateAnswers
from actors.gateway.calls.replies import Response
from actors.gateway.calls.requests import HeaderFacts
from tests.gateway.calls.test_answers import large

from .doubles import PROOF, OneAccount, ScriptedNode, a_call, pipeline_of
from .test_short_way import Client, numbered
from .test_wire import both_ways, listening, post
from .world import a_world, call

BATCH = json.dumps([call(id=1), call(id=2)]).encode()


@both_ways
@pytest.mark.parametrize("body", [json.dumps(call()).encode(), BATCH], ids=["single", "batch"])
async def test_an_answer_in_doubt_leaves_once_its_charge_is_confirmed(swift: bool, body: bytes) -> None:
    """The owner still has the charge: the client gets its answer, and the owner hears of it."""
    async with a_world() as world, listening(world.door, swift=swift) as port:
        customer = await world.customer(10)
        world.accounts.in_touch = False
        client = await Client.connect(port)
        client.send(post(customer.api_key, body))
        ((status, _, answered),) = await client.read(1)
        calls = len(await world.debits(customer))
        assert status == 200 and b"result" in answered
        assert (calls, world.accounts.confirms) == ((2, 2) if body is BATCH else (1, 1))
        assert len(world.accounts.delivered_operations) == calls


@both_ways
@pytest.mark.parametrize("body", [json.dumps(call()).encode(), BATCH], ids=["single", "batch"])
async def test_an_answer_whose_charge_was_withdrawn_becomes_a_503(swift: bool, body: bytes) -> None:
    """Not a free answer: the client may ask again, and was charged nothing. The next answers leave as ever."""
    async with a_world() as world, listening(world.door, swift=swift) as port:
        customer = await world.customer(10)
        world.accounts.in_touch, world.accounts.gives_up = False, True
        client = await Client.connect(port)
        client.send(post(customer.api_key, body))
        ((status, headers, answered),) = await client.read(1)
        error = json.loads(answered)["error"]
        assert (status, error["code"]) == (503, "SERVICE_TEMPORARILY_UNAVAILABLE")
        assert {b"retry-after", b"x-request-id"} <= {name.lower() for name, _ in headers}
        assert b"result" not in answered and b"nothing is charged" in answered
        assert world.accounts.delivered_operations == []
        assert await world.balance(customer) == 10
        world.accounts.in_touch, world.accounts.gives_up = True, False
        client.send(numbered(customer.api_key, 7))
        ((status, _, answered),) = await client.read(1)
        assert (status, json.loads(answered)["id"]) == (200, 7)
        assert await world.balance(customer) == 9
        # Interface, "Usage history entry": credits consumed. The refunded call stays in sight.
        refunded = [0] * (2 if body is BATCH else 1)
        assert [credits for _, credits in await world.debits(customer)] == [*refunded, 1]


@both_ways
async def test_a_large_answer_is_broken_off_when_its_charge_is_withdrawn_on_the_way(swift: bool) -> None:
    """Its client takes it slowly. Without the last piece it is no answer, and it costs nothing."""
    async with a_world(ScriptedNode(lambda *_: large(20 * LARGE_BYTES))) as world:
        customer = await world.customer(100)
        async with listening(world.door, swift=swift) as port:
            client = await Client.connect(port)
            client.writer.transport.pause_reading()
            client.send(post(customer.api_key, json.dumps(call("getBlock", 5)).encode()))
            async with asyncio.timeout(10):
                while not world.accounts.settles:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.05)  # Until the sockets are full.
            world.accounts.in_touch, world.accounts.gives_up = False, True
            client.writer.transport.resume_reading()
            with pytest.raises(AssertionError, match="the connection ended"):
                await client.read(1)
        assert world.accounts.delivered_operations == []
        assert await world.balance(customer) == 100


async def test_answers_that_wait_for_a_slow_client_are_asked_about_when_they_leave() -> None:
    """Not when they were ready: the client takes the ones before it for so long that the owner gave the replica up."""
    async with a_world(ScriptedNode(lambda *_: large(LARGE_BYTES - 1_000))) as world:
        customer = await world.customer(1_000)
        await world.shard.ask(SetLimits(customer.pubkey, 10_000, 1_000))
        async with listening(world.door, swift=True) as port:
            client = await Client.connect(port)
            client.writer.transport.pause_reading()
            count = 40
            client.send(*(numbered(customer.api_key, number) for number in range(count)))
            async with asyncio.timeout(10):
                seen = -1
                while seen != (ended := len(world.accounts.settles) + len(world.accounts.charges)):
                    seen = ended
                    await asyncio.sleep(0.05)  # Until the first one waits for its client.
            left = len(world.accounts.delivered_operations)
            assert 0 < seen < count and left < seen, "none of them waits"
            world.accounts.in_touch, world.accounts.gives_up = False, True
            client.writer.transport.resume_reading()
            assert [status for status, _, _ in await client.read(left)] == [200] * left
            try:
                ((status, _, _),) = await client.read(1)
            except AssertionError:  # A head that was on its way has no body: the connection ended.
                status = 503
            assert status == 503
        assert len(world.accounts.delivered_operations) == left


async def test_a_door_that_starts_over_names_its_calls_anew() -> None:
    """Of every call from then on; what was named before keeps its name."""
    account = OneAccount(30)
    pipeline = pipeline_of(account, ScriptedNode())
    await pipeline.single(PROOF, a_call("getSlot"))
    pipeline.start_over(b"replica1")
    await pipeline.single(PROOF, a_call("getSlot"))
    assert [operation[:8] for operation in account.ends] == [b"replica0", b"replica1"]


async def test_what_is_not_confirmed_is_voided_whole() -> None:
    """One response, several charges: if one of them does not stand, none of them may stay."""
    account = OneAccount(30)
    pipeline = pipeline_of(account, ScriptedNode())
    done = await pipeline.batch(PROOF, [a_call("getSlot"), a_call("getSlot")])
    charges = [item.charge for item in done.items if item.charge is not None]
    late, response = LateAnswers(account, lambda *_: None), Response(200, b"", charges=charges)
    assert late.may_leave(charges) and await late.confirmed(response, HeaderFacts()) is response
    account.in_doubt = {charges[1].operation}
    assert not late.may_leave(charges) and (await late.confirmed(response, HeaderFacts())).status == 503
    assert account.voided == charges
