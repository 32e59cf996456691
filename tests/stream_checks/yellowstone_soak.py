"""Compares Yellowstone streams through the gateway with the chain, while payments are made and connections are cut.

All gRPC connections of the node are cut again and again, in an order that a seed gives. Counts the updates that a
client missed, the ones that the chain does not have, and the ones that came twice on a stream. One client is plain, one
is over TLS, and one, plain, leaves its stream again and again and comes back with from_slot. The long run is
`python -m bench grpc-soak`.
"""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
from solders.keypair import Keypair

from bench.product import Product
from tests.stream_checks.yellowstone_followers import ChainAtNode, Follower, differences, open_channel

_SETTLE_SECONDS = 60.0  # A slot is final after 32 others, and a cut costs a reconnect.
_PAUSE_SECONDS = 0.05


@dataclass(frozen=True)
class Told:
    """Counts of one client. updates: that it got; missing: only the chain has them; extra: only the client has them.

    cuts: of the node's connections. streams: that it opened, the first one included.
    """

    client: str
    updates: int
    missing: int
    extra: int
    repeated: int
    cuts: int
    streams: int
    payments: int
    first_slot: int
    last_slot: int


class Soak:
    def __init__(self, product: Product, seed: int, seconds: float, cut_every_seconds: float) -> None:
        self._product, self._seed, self._seconds, self._cut_every = product, seed, seconds, cut_every_seconds
        self._node = str(product.ready["node_url"])
        self._followers: dict[str, Follower] = {}

    def run(self) -> list[Told]:
        return asyncio.run(self._run())

    async def _run(self) -> list[Told]:
        ready, key = self._product.ready, self._product.api_key
        targets: dict[str, tuple[str, Path | None]]
        targets = {"plain": (str(ready["grpc_target"]), None), "returning": (str(ready["grpc_target"]), None)}
        if "grpc_tls_target" in ready:
            targets["tls"] = str(ready["grpc_tls_target"]), Path(ready["tls_ca_file"])
        channels = {name: open_channel(*target) for name, target in targets.items()}
        self._followers = {name: Follower(channel, key) for name, channel in channels.items()}
        following = [asyncio.create_task(one.run()) for one in self._followers.values()]
        try:
            async with httpx.AsyncClient(timeout=30) as http:
                return await self._compare(ChainAtNode(http, self._node), http)
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)
            for channel in channels.values():
                await channel.close()

    async def _compare(self, chain: ChainAtNode, http: httpx.AsyncClient) -> list[Told]:
        followers = self._followers.values()
        await self._until(lambda: all(one.newest for one in followers))
        first = max(one.newest for one in followers) + 2
        cuts, payments = await self._disturb(http)
        last = await chain.slot()
        await self._until(lambda: all((one.final or 0) >= last for one in followers))
        wanted = await chain.updates(first, last)
        told = []
        for name, one in self._followers.items():
            missing, extra = differences(one, wanted, first, last)
            told.append(Told(name, len(one.got), missing, extra, one.repeated, cuts, one.begun, payments, first, last))
        return told

    async def _disturb(self, http: httpx.AsyncClient) -> tuple[int, int]:
        """Pay, cut and leave for this many seconds, in an order that the seed gives."""
        rng = random.Random(self._seed)
        cuts = payments = 0
        end = time.monotonic() + self._seconds
        next_cut = time.monotonic() + self._cut_every
        next_return = time.monotonic() + self._cut_every / 2
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
            if time.monotonic() >= next_return:
                next_return = time.monotonic() + self._cut_every * rng.uniform(0.3, 0.7)
                self._followers["returning"].leave()
            await asyncio.sleep(_PAUSE_SECONDS)
        return cuts, payments

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(_SETTLE_SECONDS):
            while not holds():
                self._check()
                await asyncio.sleep(_PAUSE_SECONDS)

    def _check(self) -> None:
        for name, one in self._followers.items():
            if one.ended is not None:
                raise one.ended
            if name != "returning" and one.begun > 1:
                raise RuntimeError(f"the {name} stream ended: {one.ends}")
