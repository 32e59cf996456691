"""The shortcut and the long way answer alike, in order, over one connection; spoken to in bytes."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import httptools
import orjson
import pytest
import uvicorn
import uvicorn.server
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from actors.http_server.exchange import Doorway
from actors.http_server.server import HttpServer
from devnode.rpc.dispatch import Unfinished
from devnode.rpc.http import BODY_BYTES_MAX, HttpDoor
from tests.devnode.faulty import Faulty
from tests.devnode.local_node import text


class Client:
    """One connection; reads whole answers."""

    def __init__(self, node: Faulty) -> None:
        self._socket = socket.create_connection(("127.0.0.1", node.process.facts["http_port"]), timeout=5)
        self._parser = httptools.HttpResponseParser(self)
        self._answers: list[tuple[int, bytes]] = []
        self._body = b""

    def send(self, *requests: bytes) -> None:
        self._socket.sendall(b"".join(requests))

    def read(self, count: int) -> list[tuple[int, bytes]]:
        """Status and body of so many answers, in the order in which they came."""
        while len(self._answers) < count:
            data = self._socket.recv(65_536)
            assert data, "the connection ended"
            self._parser.feed_data(data)
        answers, self._answers = self._answers[:count], self._answers[count:]
        return answers

    def is_ended(self) -> bool:
        return self._socket.recv(1) == b""

    def close(self) -> None:
        self._socket.close()

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self._answers.append((self._parser.get_status_code(), self._body))
        self._body = b""


@pytest.fixture
def client(node: Faulty) -> Iterator[Client]:
    connected = Client(node)
    yield connected
    connected.close()


def call(identifier: int, method: str = "getVersion", *headers: str, version: str = "1.1", target: str = "/") -> bytes:
    body = orjson.dumps({"jsonrpc": "2.0", "id": identifier, "method": method})
    return posted(body, *headers, version=version, target=target)


def posted(body: bytes, *headers: str, version: str = "1.1", target: str = "/") -> bytes:
    lines = [f"POST {target} HTTP/{version}", "host: node", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def identifiers(answers: list[tuple[int, bytes]]) -> list[Any]:
    assert {status for status, _ in answers} == {200}
    return [orjson.loads(body)["id"] for _, body in answers]


def test_requests_of_one_segment_are_answered_in_order(client: Client) -> None:
    client.send(*(call(number) for number in range(50)))
    assert identifiers(client.read(50)) == list(range(50))


def test_a_body_may_come_in_pieces(client: Client) -> None:
    request = call(7)
    for at in range(len(request)):
        client.send(request[at : at + 1])
    assert identifiers(client.read(1)) == [7]


def test_a_chunked_body_is_read_like_any_other(client: Client) -> None:
    body = orjson.dumps({"jsonrpc": "2.0", "id": 9, "method": "getVersion"})
    chunks = b"%x\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (10, body[:10], len(body) - 10, body[10:])
    client.send(b"POST / HTTP/1.1\r\nhost: node\r\ntransfer-encoding: chunked\r\n\r\n" + chunks)
    assert identifiers(client.read(1)) == [9]


def test_answers_keep_their_order_beside_requests_that_take_the_long_way(client: Client) -> None:
    """The shortcut waits for what was asked before it."""
    health = b"GET /health HTTP/1.1\r\nhost: node\r\n\r\n"
    client.send(call(1), health, call(2), call(3), health, call(4))
    bodies = [body for _, body in client.read(6)]
    assert bodies[1] == bodies[4] == b"ok"
    assert [orjson.loads(bodies[at])["id"] for at in (0, 2, 3, 5)] == [1, 2, 3, 4]


def test_large_bodies_are_refused_and_the_connection_goes_on(client: Client) -> None:
    client.send(posted(b" " * (BODY_BYTES_MAX + 1)), posted(b" " * BODY_BYTES_MAX), call(3))
    (too_large, _), (read, _), (after, _) = client.read(3)
    assert (too_large, read, after) == (413, 200, 200)


@pytest.mark.parametrize("headers", [("connection: close",), ()])
def test_a_connection_ends_when_it_was_said_to(client: Client, headers: tuple[str, ...]) -> None:
    """By header, or by being of HTTP/1.0."""
    client.send(call(1, "getVersion", *headers, version="1.1" if headers else "1.0"))
    assert identifiers(client.read(1)) == [1]
    assert client.is_ended()


def test_a_client_that_asks_before_it_sends_is_told_to_go_on(client: Client) -> None:
    request = call(1, "getVersion", "expect: 100-continue")
    head, _, body = request.partition(b"\r\n\r\n")
    client.send(head + b"\r\n\r\n")
    ((status, _),) = client.read(1)
    assert status == 100
    client.send(body)
    assert identifiers(client.read(1)) == [1]


def send(identifier: int, transaction: VersionedTransaction) -> bytes:
    config = {"encoding": "base64", "preflightCommitment": "processed"}
    body = {"jsonrpc": "2.0", "id": identifier, "method": "sendTransaction", "params": [text(transaction), config]}
    return posted(orjson.dumps(body))


def test_a_send_is_answered_before_what_is_asked_after_it(node: Faulty, client: Client) -> None:
    """Its signatures may be looked at elsewhere; what follows on its connection does not overtake it."""
    payer = node.wallet()
    sends = [send(at, node.payment(payer, Pubkey.new_unique(), 10**6 + at)) for at in range(4)]
    health = b"GET /health HTTP/1.1\r\nhost: node\r\n\r\n"
    client.send(sends[0], call(10), sends[1], health, sends[2], sends[3], call(11))
    answers = [body for _, body in client.read(7)]
    assert answers.pop(3) == b"ok"
    assert [orjson.loads(body)["id"] for body in answers] == [0, 10, 1, 2, 3, 11]
    assert all("result" in orjson.loads(body) for body in answers)


def test_sends_that_come_together_land_when_they_are_signed(node: Faulty) -> None:
    """On many connections, again and again, so that their signatures are checked beside the node; forged ones are
    refused as ever, and what a sender does not wait for lands as well."""
    payer, to = node.wallet(), Pubkey.new_unique()
    clients = [Client(node) for _ in range(16)]
    for turn in range(10):
        sound = [node.payment(payer, to, 10**6 + 16 * turn + at) for at in range(16)]
        forged = VersionedTransaction.populate(sound[3].message, [Signature.default()])
        for at, one in enumerate(clients):
            one.send(send(at, forged if at == 3 else sound[at]))
        replies = [orjson.loads(one.read(1)[0][1]) for one in clients]
        assert replies[3]["error"]["message"].endswith("Transaction did not pass signature verification")
        good = [str(sound[at].signatures[0]) for at in range(16) if at != 3]
        assert [reply["result"] for reply in replies if "result" in reply] == good
        assert all(status is not None for status in node.call("getSignatureStatuses", good)["value"])
    for at, one in enumerate(clients):
        one.send(send(at, node.payment(payer, to, 10**7 + at)))
        one.close()
    landed = (
        10**7 * 16 + sum(range(16)) + sum(10**6 + 16 * turn + at for turn in range(10) for at in range(16) if at != 3)
    )
    node.wait_for_slot(node.slot() + 20)
    assert node.balance(to) == landed


def test_other_paths_are_not_the_interface(client: Client) -> None:
    client.send(call(1, target="/rpc"), call(2, target="/?x=1"))
    assert [status for status, _ in client.read(2)] == [404, 200]


def test_both_ways_answer_with_the_same_bytes(node: Faulty, client: Client) -> None:
    """While any fault of calls is set, all take the long way."""
    client.send(call(1), posted(b"{"), posted(b""))
    swift = client.read(3)
    node.set(calls={"getSlot": {"hang_share": 1}})
    client.send(call(1), posted(b"{"), posted(b""))
    assert client.read(3) == swift
    node.clear()


@pytest.mark.parametrize("target", ["/", "/health"])
@pytest.mark.threat(45)
def test_an_upgrade_is_refused_and_nothing_behind_it_is_read(client: Client, target: str) -> None:
    """Threat 45: a front may send requests of several clients over one connection to a node."""
    odd = call(1, "getVersion", "connection: upgrade", "upgrade: x", target=target)
    client.send(call(2), odd + call(3), call(4))
    (_, answered), (status, refused) = client.read(2)
    assert orjson.loads(answered)["id"] == 2
    assert (status, orjson.loads(refused)["error"]["code"]) == (400, "INVALID_REQUEST")
    assert client.is_ended()


@pytest.mark.threat(46)
def test_trailers_are_refused(client: Client) -> None:
    """Threat 46: nothing after the head is a header."""
    chunks = b"2\r\n{}\r\n0\r\nx-forwarded-for: 1\r\n\r\n"
    client.send(b"POST / HTTP/1.1\r\nhost: node\r\ntransfer-encoding: chunked\r\n\r\n" + chunks + call(2))
    ((status, _),) = client.read(1)
    assert status == 400
    assert client.is_ended()


def test_a_client_that_does_not_read_is_not_read_either(client: Client) -> None:
    """What waits for it stays bounded, and when it reads it gets everything."""
    addresses = ["11111111111111111111111111111111"] * 100
    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "getMultipleAccounts", "params": [addresses]})
    request = posted(body)
    client._socket.settimeout(1)
    sent = 0
    with pytest.raises(TimeoutError):
        while sent < 20_000:
            client.send(request)
            sent += 1
    assert sent < 20_000
    client._socket.settimeout(5)
    answers = client.read(sent)
    assert {status for status, _ in answers} == {200}


def door_of(dispatcher: Any, checks: Any = None) -> HttpDoor:
    health: Any = SimpleNamespace(faults=SimpleNamespace(befall_calls=False))
    return HttpDoor(dispatcher, health, {}, None, checks)


@contextlib.asynccontextmanager
async def serving(door: HttpDoor) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to this door."""
    protocol: Any = partial(HttpServer, Doorway(door))
    config = uvicorn.Config(door, http=protocol, lifespan="off", log_config=None)  # type: ignore[arg-type]
    config.load()
    state = uvicorn.server.ServerState()
    server = await asyncio.get_running_loop().create_server(lambda: protocol(config, state, {}), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    yield reader, writer
    writer.close()
    server.close()


class _Waiting:
    """A dispatcher whose only call waits for a check that takes for ever, and that check."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    def begin(self, body: bytes) -> Unfinished[bytes | None]:
        return Unfinished(body, lambda is_signed: b"looked for itself" if not is_signed else b"was told")

    def check(self, raw: bytes, then: Callable[[bool], None]) -> None:
        self.asked.append(raw)


async def test_who_stops_talking_still_hears_the_answer() -> None:
    """A client may close its half of the connection behind its last request; the check is not waited for then."""
    waiting = _Waiting()
    async with serving(door_of(waiting, waiting)) as (reader, writer):
        writer.write(call(1))
        writer.write_eof()
        answer = await asyncio.wait_for(reader.read(), 5)
    assert answer.endswith(b"\r\n\r\nlooked for itself")
    assert len(waiting.asked) == 1
