"""The chain as a Yellowstone endpoint streams it, at processed commitment.

Implements: facts, Yellowstone gRPC (filters, replay by from_slot, pings). A shell around one gRPC call at a time.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from typing import Any

import grpc

from actors.geyser_proto import api
from actors.geyser_proto.geyser_pb2 import CommitmentLevel, SlotStatus, SubscribeRequest, SubscribeUpdate
from actors.signals.from_geyser import read_update
from actors.signals.sources import SlotSeen, SlotsGone, SlotState, SourceUnavailable, TransactionSeen, Update

logger = logging.getLogger(__name__)

MESSAGE_BYTES_MAX = 64 << 20
_SILENT_SECONDS_MAX = 15.0  # Slots come several times a second, and pings every ten seconds.
_STATES = {
    SlotStatus.SLOT_PROCESSED: SlotState.PROCESSED,
    SlotStatus.SLOT_CONFIRMED: SlotState.CONFIRMED,
    SlotStatus.SLOT_FINALIZED: SlotState.FINALIZED,
    SlotStatus.SLOT_DEAD: SlotState.DEAD,
}
_FIRST_AVAILABLE = re.compile(r"last available: (\d+)")


class GeyserSource:
    name = "yellowstone"

    def __init__(self, url: str, programs: tuple[str, ...], token: str | None = None) -> None:
        """url: http:// for an endpoint without TLS, https:// for one with it."""
        self._url, self._programs, self._token = url, programs, token
        self._wallets: frozenset[str] = frozenset()
        self._call: Any = None
        self._head = 0

    def head(self) -> int:
        return self._head

    async def watch(self, wallets: frozenset[str]) -> None:
        if wallets == self._wallets:
            return
        self._wallets = wallets
        if self._call is not None:
            try:
                await self._call.write(self._request(None))
            except (grpc.RpcError, asyncio.InvalidStateError) as error:
                logger.warning("the stream could not be told of %d wallets: %s", len(wallets), error)

    async def updates(self, from_slot: int | None) -> AsyncIterator[Update]:
        options = (("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),)
        target = self._url.partition("://")[2].rstrip("/")
        if self._url.startswith("https://"):
            channel = grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(), options=options)
        else:
            channel = grpc.aio.insecure_channel(target, options=options)
        async with channel:
            subscribe = channel.stream_stream(
                api.SUBSCRIBE.path,
                request_serializer=SubscribeRequest.SerializeToString,
                response_deserializer=SubscribeUpdate.FromString,
            )
            self._call = subscribe(metadata=(("x-token", self._token),) if self._token else None)
            try:
                await self._call.write(self._request(from_slot))
                while True:
                    async with asyncio.timeout(_SILENT_SECONDS_MAX):
                        update = await self._call.read()
                    if update is grpc.aio.EOF:
                        raise SourceUnavailable("the stream has ended")
                    if update.HasField("ping"):
                        await self._call.write(SubscribeRequest(ping={"id": 1}))
                    elif (read := self._read(update)) is not None:
                        yield read
            except grpc.aio.AioRpcError as error:
                raise _translated(error) from error
            except (TimeoutError, asyncio.InvalidStateError) as error:
                raise SourceUnavailable("the stream is silent") from error
            finally:
                self._call.cancel()
                self._call = None

    def _request(self, from_slot: int | None) -> SubscribeRequest:
        request = SubscribeRequest(commitment=CommitmentLevel.PROCESSED, from_slot=from_slot)
        for name, accounts in (("programs", self._programs), ("wallets", tuple(sorted(self._wallets)))):
            if accounts:
                wanted = request.transactions[name]
                wanted.vote, wanted.failed = False, False
                wanted.account_include.extend(accounts)
        request.slots["slots"].interslot_updates = True  # Among them: dead.
        return request

    def _read(self, update: SubscribeUpdate) -> Update | None:
        if update.HasField("transaction"):
            transaction = read_update(update.transaction.slot, update.transaction.transaction)
            return None if transaction is None else TransactionSeen(transaction)
        if update.HasField("slot") and update.slot.status in _STATES:
            slot = update.slot
            self._head = max(self._head, slot.slot)
            return SlotSeen(slot.slot, slot.parent if slot.HasField("parent") else None, _STATES[slot.status])
        return None


def _translated(error: grpc.aio.AioRpcError) -> Exception:
    text = error.details() or ""
    first = _FIRST_AVAILABLE.search(text)
    if error.code() is grpc.StatusCode.OUT_OF_RANGE and first is not None:
        return SlotsGone(int(first[1]))
    return SourceUnavailable(f"{error.code().name}: {text}")
