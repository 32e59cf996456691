"""Attackers of the Yellowstone door: dear replacements of filters, and replays whose filters match nothing."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import base58
import grpc

from actors.geyser_proto import api, geyser_pb2
from bench.attackers.target import Attack, post

_STREAMS: Final = 4
_FILTERS: Final = 1_000
_PAUSE_SECONDS: Final = 0.01  # A hundred a second, the most that a stream may send.


async def filter_replacements(attack: Attack) -> None:
    """Four streams that each replace seven kinds of 1,000 empty filters a hundred times a second."""
    await _subscribe(attack, [_empty_filters(""), _empty_filters("x")], _PAUSE_SECONDS)


async def replays(attack: Attack) -> None:
    """Four streams that each ask ten times a second for the oldest slots under 1,000 filters that match nothing."""
    newest = await _newest_slot(attack)
    requests = [_filters_of_nobody(max(1, newest - attack.target.kept_slots)) for _ in range(2)]
    await _subscribe(attack, requests, _PAUSE_SECONDS * 10)


def _empty_filters(mark: str) -> bytes:
    names = [f"{mark}{number}" for number in range(_FILTERS)]
    return geyser_pb2.SubscribeRequest(
        accounts={name: geyser_pb2.SubscribeRequestFilterAccounts() for name in names},
        slots={name: geyser_pb2.SubscribeRequestFilterSlots() for name in names},
        transactions={name: geyser_pb2.SubscribeRequestFilterTransactions() for name in names},
        transactions_status={name: geyser_pb2.SubscribeRequestFilterTransactions() for name in names},
        blocks={name: geyser_pb2.SubscribeRequestFilterBlocks() for name in names},
        blocks_meta={name: geyser_pb2.SubscribeRequestFilterBlocksMeta() for name in names},
        entry={name: geyser_pb2.SubscribeRequestFilterEntry() for name in names},
    ).SerializeToString()


def _filters_of_nobody(from_slot: int) -> bytes:
    keys = [base58.b58encode(os.urandom(32)).decode() for _ in range(_FILTERS // 2)]  # Two kinds of filters each.
    return geyser_pb2.SubscribeRequest(
        accounts={key[:8]: geyser_pb2.SubscribeRequestFilterAccounts(account=[key]) for key in keys},
        transactions={key[:8]: geyser_pb2.SubscribeRequestFilterTransactions(account_include=[key]) for key in keys},
        from_slot=from_slot,
    ).SerializeToString()


async def _newest_slot(attack: Attack) -> int:
    reader, writer = await attack.target.connect()
    try:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "getSlot", "params": []}).encode()
        while True:
            writer.write(post("/", body, attack.target.keys[0]))
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
            found = json.loads(await reader.readexactly(length))
            if "result" in found:
                return int(found["result"])
            await asyncio.sleep(_PAUSE_SECONDS)  # Refused: the previous attack has used up the account's rate.
    finally:
        writer.close()


async def _subscribe(attack: Attack, requests: Sequence[bytes], pause_seconds: float) -> None:
    async def once() -> None:
        options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(attack.target.grpc_target, options=options) as channel:
            stream: Any = channel.stream_stream(api.SUBSCRIBE.path)  # Bytes are not decoded.
            call = stream(_sent(attack, requests, pause_seconds), metadata=(("x-token", attack.target.keys[0]),))
            try:
                async for update in call:
                    attack.seen["updates"] += 1
                    attack.seen["bytes"] += len(update)
            except grpc.aio.AioRpcError as error:
                attack.seen[error.code().name] += 1
                await asyncio.sleep(pause_seconds)

    await attack.repeat(_STREAMS, once)


async def _sent(attack: Attack, requests: Sequence[bytes], pause_seconds: float) -> AsyncIterator[bytes]:
    while True:
        for request in requests:
            yield request
            attack.seen["requests"] += 1
            await asyncio.sleep(pause_seconds)
