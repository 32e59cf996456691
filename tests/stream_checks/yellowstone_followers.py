"""Yellowstone clients that follow the chain as the documentation says, and the chain to compare them with.

A follower asks for statuses of slots, transactions and block metas. When its stream ends it subscribes again, with
from_slot of the newest slot that it knows to be final, and drops the updates that it already has. The chain is read by
JSON-RPC from the node, slot by slot, so that no stream is compared with another stream.
"""

import asyncio
import random
import re
import sys
from pathlib import Path
from typing import Any

import base58
import grpc
import httpx

from actors.geyser_proto import api, geyser_pb2

LEVEL_STATUSES = (geyser_pb2.SLOT_PROCESSED, geyser_pb2.SLOT_CONFIRMED, geyser_pb2.SLOT_FINALIZED)
_RETRY_SECONDS, _RETRY_SECONDS_MAX = 0.2, 5.0  # Times 1 to 2, at random: after a kill all clients come back at once.
_AGAIN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN)
_AGAIN_WORDS = ("try again", "subscribe again")  # In a RESOURCE_EXHAUSTED that does not mean a lack of credits.

_RESUME = re.compile(r"subscribe again with from_slot (\d+)")

Update = tuple[str, int, Any]


def open_channel(target: str, ca_file: Path | None = None, pings: bool = False) -> grpc.aio.Channel:
    """Open a connection that no other caller shares. ca_file: of the authority to trust; None: no TLS. pings: whether
    it notices within seconds that its machine cannot be reached any more. target: with "ipv4:", several addresses."""
    options: list[tuple[str, int | str]] = [
        ("grpc.max_receive_message_length", -1),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    options += [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 500)]
    if target.startswith("ipv4:"):  # By itself gRPC would name all of them as the host that it asks.
        options += [("grpc.default_authority", target.removeprefix("ipv4:").partition(",")[0])]
    if pings:
        options += [("grpc.keepalive_time_ms", 2_000), ("grpc.keepalive_timeout_ms", 5_000)]
        options += [("grpc.http2.max_pings_without_data", 0)]
    if ca_file is None:
        return grpc.aio.insecure_channel(target, options=options)
    return grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(ca_file.read_bytes()), options=options)


class Follower:
    """One client. begun: streams that it has opened; told: streams that brought an update, without the open one."""

    def __init__(self, channel: grpc.aio.Channel, token: str) -> None:
        self._stub: Any = channel.stream_stream(
            api.SUBSCRIBE.path,
            request_serializer=geyser_pb2.SubscribeRequest.SerializeToString,
            response_deserializer=geyser_pb2.SubscribeUpdate.FromString,
        )
        self._metadata = (("x-token", token),)
        self._call: Any = None
        self.got: set[Update] = set()
        self.repeated = 0  # Updates that came twice on one stream.
        self.begun = self.told = 0
        self.final: int | None = None
        self.newest = 0
        self.ended: BaseException | None = None
        self.ends: list[str] = []
        self.told_here = False  # Whether the open stream has brought an update.

    async def run(self) -> None:
        """Follow until cancelled, or until a stream ends with an error that no client should see."""
        pause = _RETRY_SECONDS
        try:
            while True:
                told = self.told
                end = await self._follow()
                self.ends.append(end)
                await asyncio.sleep(pause * random.uniform(1, 2))
                pause = _RETRY_SECONDS if self.told > told else min(pause * 2, _RETRY_SECONDS_MAX)
        except (grpc.aio.AioRpcError, RuntimeError) as error:
            self.ended = error

    def leave(self) -> None:
        """End the stream; the follower comes back."""
        if self._call is not None:
            self._call.cancel()

    async def _follow(self) -> str:
        request = geyser_pb2.SubscribeRequest(commitment=geyser_pb2.CONFIRMED, from_slot=self.final)
        request.slots["slots"].SetInParent()
        request.transactions["transactions"].SetInParent()
        request.blocks_meta["metas"].SetInParent()
        self._call = call = self._stub(metadata=self._metadata)
        self.begun += 1
        here: set[Update] = set()
        try:
            await call.write(request)
            while (update := await call.read()) is not grpc.aio.EOF:
                self._take(update, here)
            return f"ended: {await call.code()}"
        except asyncio.CancelledError:
            if not call.cancelled() or asyncio.current_task().cancelling():  # type: ignore[union-attr]
                raise
            return "left"
        except asyncio.InvalidStateError:
            return f"ended: {await call.code()}"
        except grpc.aio.AioRpcError as error:
            if error.code() in _AGAIN or _is_to_come_again(error):
                return f"{error.code().name}: {error.details()}"
            raise
        finally:
            if not asyncio.current_task().cancelling():  # type: ignore[union-attr]
                self.told, self.told_here = self.told + bool(here), False
            call.cancel()

    def _take(self, update: geyser_pb2.SubscribeUpdate, here: set[Update]) -> None:
        match update.WhichOneof("update_oneof"):
            case "slot":
                found: Update = ("slot", update.slot.slot, update.slot.status)
                self.newest = max(self.newest, update.slot.slot)
                if update.slot.status == geyser_pb2.SLOT_FINALIZED:
                    self.final = max(self.final or 0, update.slot.slot)
            case "block_meta":
                found = ("meta", update.block_meta.slot, update.block_meta.blockhash)
            case "transaction":
                signature = base58.b58encode(update.transaction.transaction.signature).decode()
                found = ("transaction", update.transaction.slot, signature)
            case _:
                return
        self.told_here = True
        self.repeated += found in here
        here.add(found)
        self.got.add(found)


def _is_to_come_again(error: grpc.aio.AioRpcError) -> bool:
    words = error.details() or ""
    return error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and any(one in words for one in _AGAIN_WORDS)


class ToldFollower(Follower):
    """Goes on from the slot that the end of its stream names, and counts what comes again from before that slot."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.resumed: int | None = None
        self.from_before = 0

    async def _follow(self) -> str:
        end = await super()._follow()
        if (found := _RESUME.search(end)) is not None:
            self.final = self.resumed = int(found[1])
        return end

    def _take(self, update: Any, here: set[Update]) -> None:
        kind = update.WhichOneof("update_oneof")
        if self.resumed is not None and kind in ("slot", "block_meta", "transaction"):
            self.from_before += getattr(update, kind).slot < self.resumed
        super()._take(update, here)


class ChainAtNode:
    """The chain as the node's JSON-RPC shows it."""

    def __init__(self, http: httpx.AsyncClient, node_url: str) -> None:
        self._http, self._url = http, node_url

    async def slot(self, commitment: str = "confirmed") -> int:
        return int(await self._rpc("getSlot", {"commitment": commitment}))

    async def updates(self, first: int, last: int) -> set[Update]:
        """Return the updates of these slots that a follower must have, once they are final."""
        wanted: set[Update] = set()
        for slot in await self._rpc("getBlocks", first, last, {"commitment": "confirmed"}):
            config = {
                "commitment": "confirmed",
                "transactionDetails": "signatures",
                "rewards": False,
                "maxSupportedTransactionVersion": 0,
            }
            block = await self._rpc("getBlock", slot, config)
            wanted.add(("meta", slot, block["blockhash"]))
            wanted.update(("transaction", slot, signature) for signature in block["signatures"])
            wanted.update(("slot", slot, status) for status in LEVEL_STATUSES)
        return wanted

    async def _rpc(self, method: str, *params: Any) -> Any:
        answer = await self._http.post(self._url, json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        return answer.json()["result"]


def differences(follower: Follower, wanted: set[Update], first: int, last: int) -> tuple[int, int]:
    """Count the updates of these slots that only the chain has, and those that only the follower has."""
    found = {one for one in follower.got if first <= one[1] <= last}
    missing, extra = wanted - found, found - wanted
    for title, some in (("missing", missing), ("extra", extra)):
        for one in sorted(some, key=str)[:5]:
            sys.stderr.write(f"{title}: {one}\n")
    return len(missing), len(extra)
