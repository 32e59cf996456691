"""Attackers of the WebSocket door: floods of control frames and fragments, of handshakes, and of refused calls."""

import asyncio
import base64
import contextlib
import os
from typing import Final

from bench.attackers.target import Attack, Connection

_SOCKETS: Final = 6
_FLOOD_BYTES: Final = 1_000_000
_MASK: Final = bytes(4)  # A mask of zeros leaves the payload unchanged.
_PONG, _PING = b"\x8a\x80" + _MASK, b"\x89\x80" + _MASK
_FIRST_FRAGMENT, _FRAGMENT = b"\x01\x81" + _MASK + b"[", b"\x00\x81" + _MASK + b" "
_CLOSE: Final = b"\x88"  # Opens a close frame, and is in nothing else that a flood is answered.
_HANDSHAKES: Final = 32
_REFUSED: Final = b'{"jsonrpc":"2.0","id":1,"method":"nothingLikeThis"}'
_REFUSED_AT_ONCE: Final = 64  # As many as a session works on before it stops reading.
_HEAD_SECONDS: Final = 5.0


def text_frame(text: bytes) -> bytes:
    assert len(text) < 126, text
    return bytes((0x81, 0x80 | len(text))) + _MASK + text


async def pongs(attack: Attack) -> None:
    """Open six sockets that each send 1 MB of empty PONGs, and reconnect when closed."""
    await _flood(attack, _PONG * (_FLOOD_BYTES // len(_PONG)))


async def pings(attack: Attack) -> None:
    """Do the same with empty PINGs, whose PONGs are read."""
    await _flood(attack, _PING * (_FLOOD_BYTES // len(_PING)))


async def fragments(attack: Attack) -> None:
    """Do the same with a message in fragments of one byte."""
    await _flood(attack, _FIRST_FRAGMENT + _FRAGMENT * (_FLOOD_BYTES // len(_FRAGMENT)))


async def handshakes(attack: Attack) -> None:
    """Open and close sockets as fast as possible."""

    async def once() -> None:
        connection = await attack.target.connect()
        try:
            await open_socket(attack, connection)
        finally:
            connection[1].close()

    await attack.repeat(_HANDSHAKES, once)


async def refused_messages(attack: Attack) -> None:
    """Call a method that does not exist, on six sockets, as fast as the answers arrive."""
    block = text_frame(_REFUSED) * _REFUSED_AT_ONCE

    async def once() -> None:
        reader, writer = connection = await attack.target.connect()
        try:
            if not await open_socket(attack, connection):
                return
            counting = asyncio.create_task(_count(attack, reader, b'"jsonrpc"', "answers"))
            while attack.left_seconds and not counting.done():
                writer.write(block)
                attack.seen["sent"] += _REFUSED_AT_ONCE
                await writer.drain()
                await asyncio.sleep(0)
            await counting
        finally:
            writer.close()

    await attack.repeat(_SOCKETS, once)


async def open_socket(attack: Attack, connection: Connection, key: str | None = None) -> bool:
    """Send the handshake; return whether it was accepted."""
    reader, writer = connection
    nonce = base64.b64encode(os.urandom(16)).decode()
    lines = (
        *("GET /ws HTTP/1.1", "Host: localhost", "Connection: Upgrade", "Upgrade: websocket"),
        *("Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {nonce}", f"X-Api-Key: {key or attack.target.keys[0]}"),
    )
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    async with asyncio.timeout(_HEAD_SECONDS):
        head = await reader.readuntil(b"\r\n\r\n")
    status = head[9:12].decode()
    attack.seen[f"handshake {status}"] += 1
    return status == "101"


async def _flood(attack: Attack, frames: bytes) -> None:
    async def once() -> None:
        reader, writer = connection = await attack.target.connect()
        try:
            if not await open_socket(attack, connection):
                return
            reading = asyncio.create_task(_until_closed(attack, reader))
            while attack.left_seconds and not reading.done():
                writer.write(frames)
                attack.seen["floods"] += 1
                await writer.drain()
            reading.cancel()
        finally:
            writer.transport.abort()

    await attack.repeat(_SOCKETS, once)


async def _until_closed(attack: Attack, reader: asyncio.StreamReader) -> None:
    """Read until the server says that it closes the socket, or until the connection ends."""
    while data := await reader.read(1 << 16):
        if _CLOSE in data:
            attack.seen["closed by the server"] += 1
            return


async def _count(attack: Attack, reader: asyncio.StreamReader, mark: bytes, name: str) -> None:
    """Read until the connection ends, and count this mark."""
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            attack.seen[name] += data.count(mark)
