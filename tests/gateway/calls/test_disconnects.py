import asyncio

import pytest

from actors.gateway.calls import disconnects
from actors.gateway.calls.disconnects import DisconnectWatch
from actors.gateway.calls.requests import AsgiClient, ClientLeftError
from tests.gateway.world import a_world, call


class Leaving:
    """ASGI's receive after the body: silent until it leaves."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.asked = asyncio.Event()

    async def receive(self):
        self.asked.set()
        await self.gone.wait()
        return {"type": "http.disconnect"}


@pytest.fixture
def at_once(monkeypatch):
    """Looking begins in the next turn of the loop."""
    monkeypatch.setattr(disconnects, "LOOK_AFTER_SECONDS", 0)


async def test_the_task_of_a_client_that_left_is_cancelled(at_once):
    """And the watch says why."""
    client = Leaving()
    asgi = AsgiClient([], None, client.receive)
    watch = DisconnectWatch(asgi)
    client.gone.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.Event().wait()
    assert asgi.disconnected
    watch.absorb()
    assert asyncio.current_task().cancelling() == 0


async def test_a_task_that_is_done_is_left_alone(at_once):
    """Once stopped, a client that leaves changes nothing."""
    client = Leaving()
    asgi = AsgiClient([], None, client.receive)
    watch = DisconnectWatch(asgi)
    await client.asked.wait()
    watch.stop()
    client.gone.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not asgi.disconnected


async def test_a_quick_call_never_looks():
    """Looking costs a task; a call that ends soon pays nothing for it."""
    client = Leaving()
    asgi = AsgiClient([], None, client.receive)
    watch = DisconnectWatch(asgi)
    await asyncio.sleep(0)
    watch.stop()
    assert not client.asked.is_set()


@pytest.mark.threat(36)
async def test_the_door_notices_by_itself(at_once):
    """Threat 36: a client that closes while the node works pays nothing, and nobody is answered."""
    async with a_world() as world:
        customer = await world.customer(10)
        world.node.gate = asyncio.Event()
        client, sent = Leaving(), []
        body = {"type": "http.request", "body": b'{"jsonrpc":"2.0","id":1,"method":"getSlot"}', "more_body": False}
        messages = [body]

        async def receive():
            return messages.pop() if messages else await client.receive()

        async def send(message):
            sent.append(message)

        headers = [(b"x-api-key", customer.api_key.encode())]
        scope = {
            "type": "http",
            "method": "POST",
            "raw_path": b"/",
            "path": "/",
            "query_string": b"",
            "headers": headers,
        }
        request = asyncio.ensure_future(world.door(scope, receive, send))
        await world.node.asked.wait()
        client.gone.set()
        await request
        await world.door.close()
        assert sent == []
        assert world.node.abandoned == 1
        assert (await world.balance(customer), await world.debits(customer)) == (10, [])
        assert (await world.rpc(customer, call("nope"))).headers["x-credits-remaining"] == "10"


async def test_work_is_done_while_its_client_is_there():
    """Its result, or its own failure."""

    async def fail():
        raise RuntimeError

    here = AsgiClient([], None, Leaving().receive)
    assert await disconnects.unless_disconnected(here, asyncio.sleep(0, "done")) == "done"
    with pytest.raises(RuntimeError):
        await disconnects.unless_disconnected(here, fail())


async def test_work_ends_when_its_client_has_left(at_once):
    """And only then: the task goes on as if never cancelled."""
    leaving = Leaving()
    client = AsgiClient([], None, leaving.receive)
    leaving.gone.set()
    with pytest.raises(ClientLeftError):
        await disconnects.unless_disconnected(client, asyncio.Event().wait())
    assert client.disconnected
    assert asyncio.current_task().cancelling() == 0


async def test_a_cancellation_from_elsewhere_is_passed_on(at_once):
    """A replica that shuts down is no client that left."""
    client = AsgiClient([], None, Leaving().receive)
    task = asyncio.ensure_future(disconnects.unless_disconnected(client, asyncio.Event().wait()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not client.disconnected
