"""Clients who take nothing and connections that end early, on the short way: nothing is kept, and nothing charged."""

import asyncio
import gc
import json
import socket
from typing import Any

import pytest

from actors.gateway.calls import answers, disconnects
from actors.gateway.calls.answers import LARGE_BYTES
from actors.gateway.doors.http import HttpDoor
from actors.http_server import answering
from actors.http_server.exchange import HttpRequest
from actors.http_server.unread_answers import UnreadAnswers
from actors.upstream import replies

from .doubles import RESULT, ScriptedNode
from .test_short_way import Client, first, large_node, numbered, under_way
from .test_wire import both_ways, listening, our_ways, post, serving
from .world import a_world, call


@pytest.mark.threat(36)
async def test_a_connection_lost_with_requests_behind_pays_for_none_of_them():
    """Threat 36: the request that is being worked on is told too, not only the last that came."""
    async with under_way(first, lambda key: numbered(key, 2)) as (world, server, node, customer, client):
        (connection,) = server.server_state.connections
        async with asyncio.timeout(10):
            while not connection.pipeline:  # noqa: ASYNC110  # Until the second has been read.
                await asyncio.sleep(0)
        connection.transport.abort()  # As when a write fails: nothing is read while requests wait.
        assert await client.is_ended()
        node.gate.set()
        async with asyncio.timeout(10):
            while server.server_state.tasks:  # noqa: ASYNC110
                await asyncio.sleep(0)
        await world.door.close()
        assert (node.abandoned, await world.balance(customer), await world.debits(customer)) == (1, 10, [])
        client.writer.close()


@both_ways
@pytest.mark.threat(54)
async def test_leaving_a_batch_half_way_is_decided_at_once(swift, monkeypatch: pytest.MonkeyPatch):
    """Threat 54: the call that was answered stays charged and its owner is told so; the other one is free."""
    monkeypatch.setattr(disconnects, "LOOK_AFTER_SECONDS", 0)
    node = ScriptedNode(lambda method, params: RESULT)
    slow, answer = asyncio.Event(), node.call

    async def call_node(method, params, timeout_ms):
        if method == "getVersion":
            node.gate = slow
        return await answer(method, params, timeout_ms)

    node.call = call_node
    async with a_world(node) as world, listening(world.door, swift) as port:
        customer = await world.customer(10)
        client = await Client.connect(port)
        client.send(post(customer.api_key, json.dumps([call("getSlot", id=1), call("getVersion", id=2)]).encode()))
        async with asyncio.timeout(10):
            while await world.debits(customer) == [] or len(node.calls) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0)
            client.writer.close()
            while not node.abandoned:  # noqa: ASYNC110  # Until the socket's end is seen.
                await asyncio.sleep(0)
        await world.door.close()
        (charged,) = [settle.operation for settle in world.accounts.settles if settle.charged]
        assert world.accounts.delivered_operations == [charged]
        assert (await world.balance(customer), await world.debits(customer)) == (9, [("getSlot", 1)])


@pytest.mark.threat(36)
async def test_a_connection_lost_before_the_work_begins_leaves_nothing(recwarn: pytest.WarningsRecorder):
    """Threat 36: the node is not asked, and no task stays behind that a server would wait for."""
    async with a_world() as world, serving(world.door, swift=True) as (server, port):
        customer = await world.customer(10)
        answer, asked = world.door.answer, asyncio.Event()

        def answer_the_lost(request: HttpRequest) -> Any:
            (connection,) = server.server_state.connections
            connection.transport.abort()
            asked.set()
            return answer(request)

        world.door.answer = answer_the_lost  # type: ignore[method-assign,assignment]
        client = await Client.connect(port)
        client.send(first(customer.api_key))
        await asked.wait()
        assert await client.is_ended()
        await until_lost(server)
        assert (server.server_state.tasks, world.node.calls) == (set(), [])
        client.writer.close()
    gc.collect()
    assert [str(warning.message) for warning in recwarn if "never awaited" in str(warning.message)] == []


async def test_a_server_that_waits_no_longer_ends_the_connection_too():
    """Rule: nobody waits for an answer that never comes; and nothing is paid for it."""
    async with under_way(first) as (world, server, _, customer, client):
        for task in server.server_state.tasks:
            task.cancel()
        assert await client.is_ended()
        await world.door.close()
        assert (await world.balance(customer), await world.debits(customer)) == (10, [])


async def until_lost(server: Any) -> None:
    async with asyncio.timeout(10):
        while server.server_state.connections:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_what_a_client_does_not_take_is_let_go(monkeypatch: pytest.MonkeyPatch):
    """Rule: memory is bounded: an answer whose room was given back is not kept for a client who may never read on. What
    that client has of it is not whole."""
    monkeypatch.setattr(answers, "_PIECE_SECONDS_MAX", 0.05)
    async with a_world(large_node()) as world, serving(world.door, swift=True) as (server, port):
        customer = await world.customer(10)
        client = await Client.connect(port)
        client.writer.transport.pause_reading()
        client.send(numbered(customer.api_key, 1))
        async with asyncio.timeout(10):
            while not world.store.debits:  # noqa: ASYNC110
                await asyncio.sleep(0)
        await until_lost(server)
        client.writer.transport.resume_reading()
        with pytest.raises((AssertionError, ConnectionResetError)):
            await client.read(1)


@our_ways
async def test_nothing_waits_for_ever_behind_answers_that_nobody_takes(swift, monkeypatch: pytest.MonkeyPatch):
    """Rule: whoever fills the connection with answers and asks on holds neither memory nor room without an end."""
    if not swift:
        monkeypatch.setattr(HttpDoor, "takes", lambda *_: False)
    monkeypatch.setattr(answering, "_LOOK_SECONDS", 0.01)
    body = b'{"jsonrpc":"2.0","result":"' + b"x" * (LARGE_BYTES - 1_000) + b'","id":1}'  # As one, not in parts.
    node = ScriptedNode(lambda *_: replies.judge(body))
    async with a_world(node) as world, serving(world.door, swift=True) as (server, port):
        customer = await world.customer(1_000)
        client = await Client.connect(port)
        client.writer.transport.pause_reading()
        client.send(*(numbered(customer.api_key, number) for number in range(100)))
        async with asyncio.timeout(10):
            while not world.store.debits:  # noqa: ASYNC110
                await asyncio.sleep(0)
        await until_lost(server)
        client.writer.close()


@our_ways
async def test_of_clients_that_read_nothing_those_over_the_budget_lose_their_connections(swift, monkeypatch):
    """Threat 60: the unread answers of one account have a budget, and a client within it keeps its connection.
    When all connections have ended, nothing is counted any more."""
    if not swift:
        monkeypatch.setattr(HttpDoor, "takes", lambda *_: False)
    monkeypatch.setattr(answering, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(answering, "_LOOKS_MAX", 1_000_000)  # So that only the budget ends connections.
    body = b'{"jsonrpc":"2.0","result":"' + b"x" * (LARGE_BYTES - 1_000) + b'","id":1}'
    node = ScriptedNode(lambda *_: replies.judge(body))
    unread = UnreadAnswers(owner_bytes_max=LARGE_BYTES)
    async with a_world(node) as world, serving(world.door, swift=True, unread=unread) as (server, port):
        customer = await world.customer(1_000)
        clients = []
        for _ in range(12):
            clients.append(client := await Client.connect(port))
            client.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.writer.transport.pause_reading()
            client.send(*(numbered(customer.api_key, number) for number in range(2)))
        async with asyncio.timeout(20):
            while len(server.server_state.connections) == 12 or unread.bytes > LARGE_BYTES:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert unread.bytes and server.server_state.connections
        for client in clients:
            client.writer.close()
        await until_lost(server)
        assert (unread.bytes, dict(unread._by_owner)) == (0, {})


async def test_nothing_behind_a_refused_body_is_carried_out():
    """Rule: the refusal ends the connection, so a call behind it in the same segment is neither begun nor charged."""
    async with a_world(gateway={"body_bytes_max": 2_000}) as world, listening(world.door, swift=True) as port:
        customer = await world.customer(10)
        client = await Client.connect(port)
        too_long = b"%x\r\n" % 3_000 + b"x" * 3_000 + b"\r\n0\r\n\r\n"
        head = post(customer.api_key, b"", b"/", b"transfer-encoding: chunked", length=False)
        client.send(head + too_long + numbered(customer.api_key, 2) * 3)
        ((status, _, _),) = await client.read(1)
        assert status == 400
        assert await client.is_ended()
        assert (world.node.calls, await world.debits(customer)) == ([], [])
