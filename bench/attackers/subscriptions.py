"""Attacker that opens as many different subscriptions as its account may."""

import asyncio
import json
import os
import time
from typing import Final

import base58

from bench.attackers.target import Attack
from bench.attackers.websocket import open_socket

_SOCKETS: Final = 50
_PER_SECOND: Final = 2  # For each socket: together the default limit of an account, all at the start of a second.


async def distinct_accounts(attack: Attack) -> None:
    """Fifty sockets that subscribe a hundred different accounts a second, together at each second's begin."""

    async def once() -> None:
        reader, writer = connection = await attack.target.connect()
        try:
            if not await open_socket(attack, connection):
                await asyncio.sleep(0.2)
                return
            reading = asyncio.create_task(_read(attack, reader))
            while attack.left_seconds and not reading.done():
                await asyncio.sleep(1 - time.time() % 1)
                for _ in range(_PER_SECOND):
                    writer.write(_subscription())
                    attack.seen["sent"] += 1
                await writer.drain()
            reading.cancel()
        finally:
            writer.close()

    await attack.repeat(_SOCKETS, once)


def _subscription() -> bytes:
    account = base58.b58encode(os.urandom(32)).decode()
    call = {"jsonrpc": "2.0", "id": 1, "method": "accountSubscribe", "params": [account, {"encoding": "base64"}]}
    text = json.dumps(call).encode()
    assert 126 <= len(text) < 1 << 16, len(text)
    return b"\x81\xfe" + len(text).to_bytes(2) + bytes(4) + text


async def _read(attack: Attack, reader: asyncio.StreamReader) -> None:
    while data := await reader.read(1 << 16):
        attack.seen["subscribed"] += data.count(b'"result":')
        attack.seen["refused"] += data.count(b'"error":')
