"""A seeded run of payments and faults beside one Yellowstone stream through the gateway, held against the chain.

`python -m bench.grpc_soak --seconds 600` starts the product, cuts all gRPC connections of its node again and again, and
fails when the client missed an update, got one that the chain does not have, or got one twice. What the chain has is
asked by JSON-RPC from the node, slot by slot, so no other stream vouches for this one.
"""

import argparse
import asyncio
import json
import random
import shutil
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import base58
import grpc
import httpx
from solders.keypair import Keypair

from actors.geyser_proto import api, geyser_pb2
from bench.product import Product, free_ports

_LEVEL_STATUSES = (geyser_pb2.SLOT_PROCESSED, geyser_pb2.SLOT_CONFIRMED, geyser_pb2.SLOT_FINALIZED)
_SETTLE_SECONDS = 60.0  # A slot is final after 32 others, and a cut costs a reconnect.
_PAUSE_SECONDS = 0.05


@dataclass(frozen=True)
class Told:
    """updates: that the client got and the chain has; missing: that the chain has alone; extra: the client alone."""

    updates: int
    missing: int
    extra: int
    repeated: int
    cuts: int
    payments: int
    first_slot: int
    last_slot: int


class Soak:
    def __init__(self, product: Product, seed: int, seconds: float, cut_every_seconds: float) -> None:
        self._product, self._seed, self._seconds, self._cut_every = product, seed, seconds, cut_every_seconds
        self._node = str(product.ready["node_url"])
        self._got: list[tuple[str, int, Any]] = []
        self._finals = 0
        self._ended: BaseException | None = None

    def run(self) -> Told:
        return asyncio.run(self._run())

    async def _run(self) -> Told:
        target = str(self._product.ready["grpc_target"])
        options = [("grpc.max_receive_message_length", -1)]
        async with grpc.aio.insecure_channel(target, options=options) as channel, httpx.AsyncClient(timeout=30) as http:
            stub: Any = channel.stream_stream(
                api.SUBSCRIBE.path,
                request_serializer=geyser_pb2.SubscribeRequest.SerializeToString,
                response_deserializer=geyser_pb2.SubscribeUpdate.FromString,
            )
            call = stub(metadata=(("x-token", self._product.api_key),))
            request = geyser_pb2.SubscribeRequest(commitment=geyser_pb2.CONFIRMED)
            request.slots["slots"].SetInParent()
            request.transactions["transactions"].SetInParent()
            request.blocks_meta["metas"].SetInParent()
            await call.write(request)
            reading = asyncio.create_task(self._read(call))
            await self._until(lambda: any(kind == "meta" for kind, _, _ in self._got))
            first = max(slot for kind, slot, _ in self._got if kind == "meta") + 1
            cuts, payments = await self._disturb(http)
            last = await self._slot(http, "confirmed")
            await self._until(
                lambda: any(
                    kind == "slot" and slot >= last and status == _LEVEL_STATUSES[2]
                    for kind, slot, status in self._got[-500:]
                )
            )
            told = await self._compare(http, first, last, cuts, payments)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            return told

    async def _read(self, call: Any) -> None:
        try:
            while (update := await call.read()) is not grpc.aio.EOF:
                match update.WhichOneof("update_oneof"):
                    case "slot":
                        self._got.append(("slot", update.slot.slot, update.slot.status))
                    case "block_meta":
                        self._got.append(("meta", update.block_meta.slot, update.block_meta.blockhash))
                    case "transaction":
                        signature = base58.b58encode(update.transaction.transaction.signature).decode()
                        self._got.append(("transaction", update.transaction.slot, signature))
        except grpc.aio.AioRpcError as error:
            self._ended = error

    async def _disturb(self, http: httpx.AsyncClient) -> tuple[int, int]:
        """Pay and cut for so many seconds, in an order that the seed gives."""
        rng = random.Random(self._seed)
        cuts = payments = 0
        end = time.monotonic() + self._seconds
        next_cut = time.monotonic() + self._cut_every
        while time.monotonic() < end:
            self._check()
            to = str(Keypair.from_seed(rng.randbytes(32)).pubkey())
            lamports = rng.randrange(1_000_000, 9_000_000)
            body = {"pubkey": to, "lamports": lamports, "usdc_base_units": 0}
            (await http.post(f"{self._node}/admin/fund", json=body)).raise_for_status()
            payments += 1
            if time.monotonic() >= next_cut:
                next_cut = time.monotonic() + self._cut_every * rng.uniform(0.5, 1.5)
                fault = {"cut_connections": {"grpc": True}}
                (await http.post(f"{self._node}/admin/faults/once", json=fault)).raise_for_status()
                cuts += 1
            await asyncio.sleep(_PAUSE_SECONDS)
        return cuts, payments

    async def _compare(self, http: httpx.AsyncClient, first: int, last: int, cuts: int, payments: int) -> Told:
        """What the node says of each slot, against what the client got of the same slots."""
        wanted: set[tuple[str, int, Any]] = set()
        slots = await self._rpc(http, "getBlocks", first, last, {"commitment": "confirmed"})
        for slot in slots:
            config = {
                "commitment": "confirmed",
                "transactionDetails": "signatures",
                "rewards": False,
                "maxSupportedTransactionVersion": 0,
            }
            block = await self._rpc(http, "getBlock", slot, config)
            wanted.add(("meta", slot, block["blockhash"]))
            wanted.update(("transaction", slot, signature) for signature in block["signatures"])
            wanted.update(("slot", slot, status) for status in _LEVEL_STATUSES)
        got = [one for one in self._got if first <= one[1] <= last]
        found = set(got)
        missing, extra = wanted - found, found - wanted
        for title, some in (("missing", missing), ("extra", extra)):
            for one in sorted(some, key=str)[:5]:
                sys.stderr.write(f"{title}: {one}\n")
        return Told(len(found & wanted), len(missing), len(extra), len(got) - len(found), cuts, payments, first, last)

    async def _slot(self, http: httpx.AsyncClient, commitment: str) -> int:
        return int(await self._rpc(http, "getSlot", {"commitment": commitment}))

    async def _rpc(self, http: httpx.AsyncClient, method: str, *params: Any) -> Any:
        answer = await http.post(self._node, json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        return answer.json()["result"]

    async def _until(self, holds: Any) -> None:
        async with asyncio.timeout(_SETTLE_SECONDS):
            while not holds():
                self._check()
                await asyncio.sleep(_PAUSE_SECONDS)

    def _check(self) -> None:
        if self._ended is not None:
            raise self._ended


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cut-every-seconds", type=float, default=10.0)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ledger-gateway-soak-"))
    folder.chmod(0o711)  # Run by root, the stores run as another user, who must be able to pass through.
    product = Product(folder / "data", {}, free_ports())
    try:
        product.start()
        told = Soak(product, given.seed, given.seconds, given.cut_every_seconds).run()
        sys.stdout.write(json.dumps(asdict(told)) + "\n")
        return 1 if told.missing or told.extra or told.repeated else 0
    finally:
        product.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
