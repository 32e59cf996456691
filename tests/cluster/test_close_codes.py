"""Every way in which the service ends a WebSocket, through the real front: one row for each cause, with its close code.

Rules: interface, "WebSocket close codes"; threats 30 and 31; streams/README.md, "Close codes". Not here: 1012,
of a product that stops (test_restart.py), and 4001 over TLS (test_tls.py).
"""

import asyncio
import base64
import contextlib
import json
import os
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import base58
import psutil
import pytest

from bench.product import Product
from tests.customers import Customer, request

_END_SECONDS = 120.0
_TEXT, _CLOSE, _PING, _PONG = 1, 8, 9, 10
_LARGE_ACCOUNT = "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL"  # 140 kB in base64.
_CREDITS = 100


def frame(opcode: int, data: bytes = b"", fin: bool = True, masked: bool = True) -> bytes:
    size, flag = len(data), 0x80 if masked else 0
    if size < 126:
        length = bytes([flag | size])
    else:
        is_short = size < 65_536
        length = bytes([flag | (126 if is_short else 127)]) + struct.pack(">H" if is_short else ">Q", size)
    return bytes([(0x80 if fin else 0) | opcode]) + length + (bytes(4) if masked else b"") + data


def call(method: str, *params: object) -> bytes:
    return frame(_TEXT, json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode())


@dataclass
class Client:
    """One socket in bytes. It answers pings only when it is told to."""

    customer: Customer
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    credential: str
    heard: list[tuple[int, bytes]] = field(default_factory=list)

    @classmethod
    async def connected(cls, customer: Customer, credential: str = "") -> "Client":
        credential = credential or f"x-api-key: {customer.api_key}"
        # A small window: what a client does not read is soon the server's to keep.
        reader, writer = await asyncio.open_connection("127.0.0.1", customer.product.ports.http, limit=16_384)
        key = base64.b64encode(b"k" * 16).decode()
        lines = ("GET /ws HTTP/1.1", "host: a", "connection: upgrade", "upgrade: websocket", credential)
        writer.write("\r\n".join((*lines, "sec-websocket-version: 13", f"sec-websocket-key: {key}", "", "")).encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 "), head
        return cls(customer, reader, writer, credential)

    def says(self, *frames: bytes) -> None:
        for one in frames:
            self.writer.write(one)

    async def frame(self) -> tuple[int, bytes]:
        head = await self.reader.readexactly(2)
        size = head[1]
        if size == 126:
            size = int.from_bytes(await self.reader.readexactly(2), "big")
        elif size == 127:
            size = int.from_bytes(await self.reader.readexactly(8), "big")
        return head[0] & 15, await self.reader.readexactly(size)

    async def until_closed(self) -> tuple[int, str]:
        """Code and reason of the close frame, after which nothing follows; 1006: the connection ended without one."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            async with asyncio.timeout(_END_SECONDS):
                while True:
                    opcode, data = await self.frame()
                    self.heard.append((opcode, data))
                    if opcode == _CLOSE:
                        self.says(frame(_CLOSE, data[:2]))
                        assert await self.reader.read() == b"", "something follows the close frame"
                        return int.from_bytes(data[:2], "big"), data[2:].decode()
        return 1006, ""


# --- what a client, or the operator, does


def sends(*frames: bytes) -> Callable[[Client], Awaitable[None]]:
    async def act(client: Client) -> None:
        client.says(*frames)

    return act


async def _is_silent(client: Client) -> None:
    """It answers no ping."""


async def _key_is_replaced(client: Client) -> None:
    await asyncio.to_thread(client.customer.new_api_key)


async def _is_suspended(client: Client) -> None:
    await asyncio.to_thread(client.customer.product.operator, "suspend", client.customer.pubkey, "--reason", "test")


async def _logs_out(client: Client) -> None:
    headers = {"Authorization": client.credential.partition(": ")[2], "Content-Type": "application/json"}
    answer = await asyncio.to_thread(request, f"{client.customer.product.http_url}/auth/logout", headers, b"{}")
    assert answer.status == 200, answer


async def _spends(client: Client) -> None:
    """Down to nine credits, one call after the other."""
    for _ in range(_CREDITS - 9):
        client.says(call("getSlot"))
        assert b'"result"' in (await client.frame())[1]


async def _reads_late(client: Client) -> None:
    """It asks for 27 megabytes, and reads once the service has given it up."""
    transport = client.writer.transport
    transport.pause_reading()  # type: ignore[attr-defined]
    client.says(*[call("getMultipleAccounts", [_LARGE_ACCOUNT] * 3, {"encoding": "base64"})] * 64)
    await asyncio.sleep(33)  # 30 s for an answer, and up to 10 s for what was written before the close frame.
    transport.resume_reading()  # type: ignore[attr-defined]


def session_of(customer: Customer) -> str:
    """A header with a session token."""
    url, headers = customer.product.http_url, {"Content-Type": "application/json"}
    body = json.dumps({"pubkey": customer.pubkey}).encode()
    challenge = request(f"{url}/auth/challenge", headers, body).body["challenge"]
    signature = base58.b58encode(customer.wallet.key.sign(challenge.encode()).signature).decode()
    proven = {"pubkey": customer.pubkey, "challenge": challenge, "signature": signature}
    return f"authorization: Bearer {request(f'{url}/auth/verify', headers, json.dumps(proven).encode()).body['token']}"


_LONG = 262_145
_LATE = "answers that are not taken"

ROWS: list[tuple[str, Callable[[Client], Awaitable[None]], int, str]] = [
    ("the client ends it", sends(frame(_CLOSE, struct.pack(">H", 1000))), 1000, ""),
    ("a frame without a mask", sends(frame(_TEXT, b"{}", masked=False)), 1002, ""),
    ("a reserved bit", sends(b"\xc1\x80" + bytes(4)), 1002, ""),
    ("an unknown opcode", sends(frame(3)), 1002, ""),
    ("a ping of 126 bytes", sends(frame(_PING, b"p" * 126)), 1002, ""),
    ("a continuation of nothing", sends(frame(0, b"x")), 1002, ""),
    ("a close frame of one byte", sends(frame(_CLOSE, b"x")), 1002, ""),
    ("text that is not UTF-8", sends(frame(_TEXT, b"\xff\xfe")), 1007, "UTF-8"),
    ("a message of 256 KiB and a byte", sends(frame(_TEXT, b" " * _LONG)), 1009, ""),
    (
        "the same in fragments",
        sends(frame(_TEXT, b" ", fin=False), *[frame(0, b" " * 65_536, fin=False)] * 4),
        1009,
        "",
    ),
    ("a head that promises 64 MB", sends(b"\x81\xff" + struct.pack(">Q", 64 << 20) + bytes(4)), 1009, ""),
    ("a session that is logged out", _logs_out, 1008, "policy_violation: the session"),
    ("a suspended account", _is_suspended, 1008, "policy_violation: this account is suspended"),
    ("a replaced key", _key_is_replaced, 4001, "auth_failed"),
    ("a balance below ten", _spends, 4002, "insufficient_credits"),
    ("401 messages at once", sends(*[call("nothing")] * 401), 4003, "rate_limited"),
    ("401 frames without a message", sends(*[frame(_PONG)] * 401), 4003, "rate_limited"),
    # With LONG_TESTS=1: the other rows end in half the time.
    *([("no pong for two pings", _is_silent, 1011, "no pong")] if "LONG_TESTS" in os.environ else []),
    (_LATE, _reads_late, 1013, "takes nothing"),
]


@pytest.mark.threat(30, 31)
async def test_every_cause_has_its_close_code(product: Product) -> None:
    """All at the same time: each socket hears its own code, and a bystander on the same replicas goes on. The client
    that reads nothing costs bounded memory, and no cause costs a credit beyond the calls that were answered."""
    replicas = [psutil.Process(pid) for pid in product.running("ray::ServeReplica")]
    before = sum(process.memory_info().rss for process in replicas)

    def ready(action: Callable[[Client], Awaitable[None]]) -> tuple[Customer, str]:
        customer = Customer(product)
        customer.grant(_CREDITS if action is not _reads_late else 10 * _CREDITS)
        return customer, session_of(customer) if action is _logs_out else ""

    ready_made = [ready(action) for _, action, _, _ in ROWS]
    bystander = await Client.connected(ready(_reads_late)[0])
    clients = [await Client.connected(*one) for one in ready_made]

    async def closed(client: Client, action: Callable[[Client], Awaitable[None]]) -> tuple[int, str]:
        await action(client)
        return await client.until_closed()

    ends = [asyncio.create_task(closed(client, row[1])) for client, row in zip(clients, ROWS, strict=True)]
    pings, grown = 0, 0
    while not all(end.done() for end in ends):
        bystander.says(call("getHealth"))
        while (await bystander.frame())[0] == _PING:
            bystander.says(frame(_PONG))
            pings += 1
        grown = max(grown, sum(process.memory_info().rss for process in replicas) - before)
        await asyncio.sleep(1)
    found = {row[0]: end.result() for row, end in zip(ROWS, ends, strict=True)}
    if found[_LATE][0] == 1011:  # A node so slow that two pings are due before the answers are: as for any silent one.
        assert "no pong" in found.pop(_LATE)[1]
    rows = [row for row in ROWS if row[0] in found]
    assert {name: code for name, (code, _) in found.items()} == {name: code for name, _, code, _ in rows}
    assert [name for name, _, _, words in rows if words not in found[name][1]] == []
    assert pings >= 1 and grown < 150 << 20, (pings, f"{grown >> 20} MiB")
    for (_, action, _, _), (customer, _) in zip(ROWS, ready_made, strict=True):
        if action not in (_spends, _reads_late, _key_is_replaced):
            assert customer.balance == _CREDITS
    bystander.writer.close()
