"""A seeded run of payments and faults beside Yellowstone streams through the gateway, held against the chain.

`python -m bench.grpc_soak --seconds 600` starts the product, cuts all gRPC connections of its node again and again, and
fails when a client missed an update, got one that the chain does not have, or got one twice on a stream. One client is
plain, one is over TLS, and one, plain, leaves its stream again and again and comes back with from_slot.
"""

import argparse
import asyncio
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
from solders.keypair import Keypair

from bench.product import Product, free_ports
from tests.stream_checks.yellowstone_followers import ChainAtNode, Follower, differences, open_channel

_SETTLE_SECONDS = 60.0  # A slot is final after 32 others, and a cut costs a reconnect.
_PAUSE_SECONDS = 0.05


@dataclass(frozen=True)
class Told:
    """Of one client. updates: that it got; missing: that the chain has alone; extra: the client alone.

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
                return await self._hold_against(ChainAtNode(http, self._node), http)
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)
            for channel in channels.values():
                await channel.close()

    async def _hold_against(self, chain: ChainAtNode, http: httpx.AsyncClient) -> list[Told]:
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
        """Pay, cut and leave for so many seconds, in an order that the seed gives."""
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cut-every-seconds", type=float, default=10.0)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ledger-gateway-soak-"))
    folder.chmod(0o711)  # Run by root, the stores run as another user, who must be able to pass through.
    product = Product(folder / "data", {"LEDGER_SERVE__TLS": "true"}, free_ports())
    try:
        product.start()
        found = Soak(product, given.seed, given.seconds, given.cut_every_seconds).run()
        for told in found:
            sys.stdout.write(json.dumps(asdict(told)) + "\n")
        return 1 if any(told.missing or told.extra or told.repeated for told in found) else 0
    finally:
        product.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
