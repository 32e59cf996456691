"""The WebSocket door alone, and a devnode process with unmodified clients."""

import asyncio
from typing import Any

import httpx
import orjson
import pytest
from solana.rpc.commitment import Confirmed, Processed
from solana.rpc.websocket_api import SolanaWsClient, SubscriptionKind
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.rpc import responses
from solders.rpc.responses import SubscriptionResult, UnsubscribeResult, parse_websocket_message
from solders.signature import Signature
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from devnode.pubsub.door import MESSAGE_BYTES_MAX, SUBSCRIBE, UNSUBSCRIBE, PubsubDoor
from devnode.pubsub.hub import PubsubHub
from devnode.rpc.node import SOLANA_CORE_VERSION
from tests.devnode.conftest import Process, StartDevnode
from tests.devnode.local_node import LocalNode

from .conftest import NewListener
from .listener import Listener


def test_ids_are_numbers_and_end_with_true(listener: Listener) -> None:
    """The replies decode with the types of an independent library."""
    listener.send({"jsonrpc": "2.0", "id": 3, "method": "slotSubscribe"})
    (text,) = listener.queued()
    (subscribed,) = parse_websocket_message(text)
    assert isinstance(subscribed, SubscriptionResult) and subscribed.id == 3
    listener.send({"jsonrpc": "2.0", "id": 4, "method": "slotUnsubscribe", "params": [subscribed.result]})
    (text,) = listener.queued()
    (ended,) = parse_websocket_message(text)
    assert isinstance(ended, UnsubscribeResult) and ended.result is True


@pytest.mark.parametrize("method", UNSUBSCRIBE)
def test_any_unsubscribe_ends_any_subscription(local: LocalNode, listener: Listener, method: str) -> None:
    """As on a node, every unsubscribe method works; afterwards there are no notifications."""
    identifier = listener.subscribe("slotSubscribe")
    assert listener.ask(method, identifier)["result"] is True
    local.beat()
    assert listener.notifications() == []
    assert listener.error(method, identifier) == (-32602, "Invalid subscription id.")


def test_a_connection_cannot_end_a_subscription_of_another(new_listener: NewListener) -> None:
    """Connections share ids, but each can end only its own subscriptions."""
    one, other = new_listener(), new_listener()
    identifier = one.subscribe("slotSubscribe")
    assert other.error("slotUnsubscribe", identifier) == (-32602, "Invalid subscription id.")
    assert one.error("slotUnsubscribe", -1) == (
        -32602,
        "Invalid params: invalid value: integer `-1`, expected u64.",
    )


def test_other_methods_are_not_found(listener: Listener) -> None:
    """A WebSocket connection has no methods of HTTP except getVersion."""
    for method in ("getSlot", "sendTransaction", "nothingSubscribe"):
        assert listener.error(method) == (-32601, "Method not found")


def test_the_version_can_be_asked(listener: Listener) -> None:
    """getVersion is the only method beside subscriptions."""
    assert listener.ask("getVersion")["result"]["solana-core"] == SOLANA_CORE_VERSION


@pytest.mark.parametrize(("method", "least", "most"), [(name, least, most) for name, _, least, most in SUBSCRIBE])
def test_the_number_of_parameters_is_checked(listener: Listener, method: str, least: int, most: int) -> None:
    """The error texts are those of the library that Agave uses."""
    if least:
        assert listener.error(method) == (-32602, "`params` should have at least 1 argument(s)")
    code, message = listener.error(method, *(["x"] * (most + 1)))
    assert code == -32602 and message.startswith("Invalid parameters: ")


def test_a_batch_is_answered_in_order(local: LocalNode, listener: Listener) -> None:
    """The replies are one array before any notification; an error in one item does not affect the others."""
    record = local.land(local.transfer(local.wallet(), Pubkey.new_unique(), 2_000_000))
    processed = {"commitment": "processed"}
    calls = [("slotSubscribe", []), ("accountSubscribe", ["x"]), ("signatureSubscribe", [record.signature, processed])]
    listener.send(
        [
            {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            for number, (method, params) in enumerate(calls)
        ]
    )
    replies, received = map(orjson.loads, listener.queued())
    assert [reply["id"] for reply in replies] == [0, 1, 2]
    assert replies[1]["error"]["message"] == "Invalid Request: Invalid pubkey provided"
    assert received["params"]["subscription"] == replies[2]["result"]


@pytest.mark.parametrize(("request_body", "code"), [(b"{", -32700), (b"[]", -32600), (b"7", -32600)])
def test_an_invalid_message_gets_an_error(listener: Listener, request_body: bytes, code: int) -> None:
    """The error has no id, and the connection stays open."""
    listener.send(request_body)
    (text,) = listener.queued()
    assert orjson.loads(text)["error"]["code"] == code
    assert not listener.connection.is_cut


def test_a_call_without_an_id_gets_no_reply(local: LocalNode, listener: Listener) -> None:
    """A notification is executed and not answered."""
    listener.send({"jsonrpc": "2.0", "method": "slotSubscribe"})
    assert listener.queued() == []
    local.beat()
    assert len(listener.notifications()) == 1


RECEIVE_SECONDS_MAX = 60
CONNECT = {"type": "websocket.connect"}
GONE = {"type": "websocket.disconnect", "code": 1006}


def request(method: str, *params: Any, number: int = 1) -> str:
    return orjson.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).decode()


# The door alone.


class Client:
    """The client's end of an ASGI WebSocket, which can stop reading."""

    def __init__(self, door: PubsubDoor) -> None:
        self.sent: asyncio.Queue[Any] = asyncio.Queue()
        self._heard: asyncio.Queue[Any] = asyncio.Queue()
        self.reads = asyncio.Event()
        self.reads.set()
        self.say(CONNECT)
        self.served = asyncio.create_task(door({"type": "websocket"}, self._heard.get, self._send))

    def say(self, message: Any) -> None:
        self._heard.put_nowait(message)

    async def _send(self, message: Any) -> None:
        await self.reads.wait()
        if message["type"] == "websocket.send" and "text" in message:
            self.sent.put_nowait(orjson.loads(message["text"]))
        else:
            self.sent.put_nowait(message)


async def test_a_connection_from_its_start_to_its_end(local: LocalNode, hub: PubsubHub) -> None:
    """It is accepted without a subprotocol; text and bytes are read; its end removes its subscriptions."""
    client = Client(PubsubDoor(local.node, hub))
    assert await client.sent.get() == {"type": "websocket.accept"}
    client.say({"type": "websocket.receive", "text": request("slotSubscribe")})
    identifier = (await client.sent.get())["result"]
    client.say({"type": "websocket.receive", "bytes": request("getVersion").encode()})
    assert "solana-core" in (await client.sent.get())["result"]
    local.beat()
    hub.pump()
    assert (await client.sent.get())["params"]["subscription"] == identifier
    client.say(GONE)
    await client.served
    assert hub._registry.subscribers() == ()


async def test_a_client_that_does_not_read_is_cut_off(local: LocalNode, hub: PubsubHub) -> None:
    """The cut comes even while the server waits to send; other clients still get notifications."""
    door = PubsubDoor(local.node, hub, queue_messages_max=3)
    slow, quick = Client(door), Client(door)
    for client in (slow, quick):
        client.say({"type": "websocket.receive", "text": request("slotSubscribe")})
        await client.sent.get()
        await client.sent.get()
    slow.reads.clear()
    for _ in range(6):
        local.beat()
        hub.pump()
        assert (await quick.sent.get())["method"] == "slotNotification"
    await slow.served
    assert slow.sent.empty() and not quick.served.done()
    assert len(hub._registry.subscribers()) == 1
    quick.say(GONE)
    await quick.served


async def test_a_client_that_vanishes_is_no_error(local: LocalNode, hub: PubsubHub) -> None:
    """Servers raise OSError when the client is gone; any other exception is a bug and is raised."""
    for error, is_raised in ((OSError(), False), (ValueError(), True)):
        heard: asyncio.Queue[Any] = asyncio.Queue()
        heard.put_nowait(CONNECT)
        heard.put_nowait({"type": "websocket.receive", "text": request("getVersion")})

        async def send(message: Any, error: Exception = error) -> None:
            if message["type"] == "websocket.send":
                raise error

        served = PubsubDoor(local.node, hub)({"type": "websocket"}, heard.get, send)
        if is_raised:
            with pytest.raises(ValueError):
                await served
        else:
            await served


# A devnode process.


async def call(process: Process, method: str, *params: Any) -> Any:
    async with httpx.AsyncClient() as http:
        return (await http.post(process.url, content=request(method, *params))).json()["result"]


async def airdrop(process: Process, wallet: Pubkey) -> Signature:
    return Signature.from_string(await call(process, "requestAirdrop", str(wallet), 10**9))


def urls(process: Process) -> tuple[str, str]:
    port = process.facts["http_port"]
    return f"ws://127.0.0.1:{port}", f"ws://127.0.0.1:{port + 1}"


async def receive(client: SolanaWsClient, kind: type) -> Any:
    async with asyncio.timeout(RECEIVE_SECONDS_MAX):
        while not isinstance(found := await client.recv(), kind):
            pass
    return found


async def test_an_unmodified_client_is_notified_of_a_payment(start_devnode: StartDevnode) -> None:
    """solana-py uses all its subscriptions on the HTTP port, from subscribe to unsubscribe."""
    process, wallet = start_devnode(), Keypair().pubkey()
    async with SolanaWsClient(urls(process)[0]) as client:
        subscriptions = [
            await client.account_subscribe(pubkey=wallet, commitment=Confirmed, encoding="base64"),
            await client.program_subscribe(program_id=Pubkey.default(), commitment=Confirmed, encoding="base64"),
            await client.logs_subscribe(commitment=Processed),
            await client.block_subscribe(commitment=Confirmed, max_supported_transaction_version=0),
            await client.slot_subscribe(),
            await client.root_subscribe(),
            await client.slots_updates_subscribe(),
            await client.vote_subscribe(),
        ]
        signature = await airdrop(process, wallet)
        assert (await receive(client, responses.LogsNotification)).result.value.signature == signature
        assert (await receive(client, responses.AccountNotification)).result.value.lamports == 10**9
        over = await client.signature_subscribe(signature=signature, commitment=Confirmed)
        assert (await receive(client, responses.SignatureNotification)).result.value.err is None
        assert over.kind is SubscriptionKind.SIGNATURE
        for kind in (
            responses.BlockNotification,
            responses.SlotNotification,
            responses.RootNotification,
            responses.SlotUpdateNotification,
            responses.VoteNotification,
        ):
            await receive(client, kind)
        for subscription in subscriptions:
            await client.unsubscribe(subscription)


async def test_the_port_above_serves_the_same(start_devnode: StartDevnode) -> None:
    """web3.js 1.x connects to the port above HTTP; getClusterNodes and the ready file name it."""
    process = start_devnode()
    assert process.facts["ws_url"] == urls(process)[1]
    async with SolanaWsClient(process.facts["ws_url"]) as client:
        await client.slot_subscribe()
        assert (await receive(client, responses.SlotNotification)).result.slot > 1_000
    node, *_ = await call(process, "getClusterNodes")
    assert f"ws://{node['pubsub']}" == process.facts["ws_url"]


async def test_a_subprotocol_is_never_selected(start_devnode: StartDevnode) -> None:
    """As on a node, the server selects no subprotocol, even if the client offers one."""
    process = start_devnode()
    async with connect(urls(process)[0], subprotocols=["solana-rpc"]) as socket:  # type: ignore[list-item]
        assert socket.subprotocol is None
        await socket.send(request("getVersion"))
        assert "solana-core" in str(await socket.recv())


async def test_long_messages_end_the_connection(start_devnode: StartDevnode) -> None:
    """A message of 4,096 bytes is read; one byte more closes the connection with 1009."""
    process = start_devnode()
    async with connect(urls(process)[0]) as socket:
        await socket.send(request("getVersion").ljust(MESSAGE_BYTES_MAX))
        assert "solana-core" in str(await socket.recv())
        await socket.send(request("getVersion").ljust(MESSAGE_BYTES_MAX + 1))
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009


async def test_open_connections_do_not_delay_the_end(start_devnode: StartDevnode) -> None:
    """After SIGTERM, clients get close code 1012 (service restart), and the process ends cleanly."""
    process = start_devnode()
    async with connect(urls(process)[0]) as socket:
        await socket.send(request("slotSubscribe"))
        await socket.recv()
        assert await asyncio.to_thread(process.terminate) == 0
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                await socket.recv()
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1012
