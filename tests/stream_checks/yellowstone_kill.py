"""Kills a replica under open Yellowstone streams, and compares every client with the chain.

The clients follow the chain as the documentation says (yellowstone_followers.py). The ledger is compared with the
streams: a stream costs a credit when it begins, so the ledger has at least one for each stream that brought an update,
and none for more streams than were opened. websocket_kills.py does the same with WebSockets. The long run is
`python -m bench grpc-kill`.
"""

import asyncio
import json
import os
import signal
import time
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc
import httpx
from solders.keypair import Keypair

from actors.geyser_proto import api, geyser_pb2
from bench.product import Product
from tests.stream_checks.waiting import until_all
from tests.stream_checks.yellowstone_followers import ChainAtNode, Follower, differences, open_channel

STREAMS_PER_CONNECTION = 50
_PAY_SECONDS = 0.2
_AFTER_FRONT_SECONDS = 8.0  # A HAProxy that is replaced must not end its streams soon.
_SLOTS_BEFORE = 5  # Every follower has this many slots before the kill.


@dataclass(frozen=True)
class Told:
    """broken: streams that the kill ended. back_seconds: from the kill until each of them brought an update again.
    untouched_ends: how often other streams ended, also after HAProxy was restarted. ends: how many streams ended how.

    credits: of the ledger, for streams. told, begun: streams that brought an update, and streams that were opened.
    """

    streams: int
    broken: int
    untouched_ends: int
    back_seconds: float
    missing: int
    extra: int
    repeated: int
    credits: int
    told: int
    begun: int
    first_slot: int
    last_slot: int
    ends: dict[str, int]


class Kill:
    """One kill. api_key: of an account without other streams. disturb: what is done in its place; it returns when the
    replicas that end with it have ended."""

    def __init__(
        self,
        product: Product,
        api_key: str,
        streams: int,
        disturb: Callable[[], Awaitable[None]] | None = None,
        follower: Callable[..., Follower] = Follower,
    ) -> None:
        self._product, self._key, self._streams = product, api_key, streams
        self._disturb, self._follower = disturb or self._kill_one, follower

    async def _kill_one(self) -> None:
        # Read now: a replica that an earlier test has killed has been replaced.
        os.kill(self._product.running("ray::ServeReplica")[0], signal.SIGKILL)

    def run(self) -> Told:
        return asyncio.run(self._run())

    async def _run(self) -> Told:
        target = str(self._product.ready["grpc_target"])
        connections = max(2, self._streams // STREAMS_PER_CONNECTION)
        channels = [open_channel(target) for _ in range(connections)]
        followers = [self._follower(channels[number % connections], self._key) for number in range(self._streams)]
        following = [asyncio.create_task(one.run()) for one in followers]
        try:
            async with httpx.AsyncClient(timeout=120) as http:
                return await self._kill(followers, http, await self._first_kept(channels[0]))
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)
            for channel in channels:
                await channel.close()

    async def _first_kept(self, channel: grpc.aio.Channel) -> int:
        """Return the first slot that can be had again. A chain that has just started tells of final slots before it."""
        ask: Any = channel.unary_unary(
            api.SUBSCRIBE_REPLAY_INFO.path,
            response_deserializer=geyser_pb2.SubscribeReplayInfoResponse.FromString,
        )
        return int((await ask(b"", metadata=(("x-token", self._key),), timeout=30)).first_available)

    async def _kill(self, followers: list[Follower], http: httpx.AsyncClient, kept: int) -> Told:
        node = str(self._product.ready["node_url"])
        chain = ChainAtNode(http, node)
        paying = asyncio.create_task(_pay(http, node))
        try:
            await _until(followers, lambda one: (one.final or 0) >= kept, "not all followers know a slot that is kept")
            first = max(one.newest for one in followers) + 2
            await _until(followers, lambda one: one.newest > first + _SLOTS_BEFORE, "not all followers go on")
            before = {one: len(one.ends) for one in followers}
            fronts = set(self._product.running("haproxy.cfg"))
            disturbed = time.monotonic()
            await self._disturb()
            alive_at = await chain.slot("processed") + 2
            # A stream of a dead replica never brings a later slot.
            await _until(followers, lambda one: len(one.ends) > before[one] or one.newest >= alive_at, "streams hang")
            broken = [one for one in followers if len(one.ends) > before[one]]
            await _until(broken, lambda one: one.told_here, "not all streams came back")
            back = time.monotonic() - disturbed
            # HAProxy starts anew as replicas change.
            await _until(
                followers[:1],
                lambda _: bool(set(self._product.running("haproxy.cfg")) - fronts),
                "HAProxy runs as before",
            )
            await asyncio.sleep(_AFTER_FRONT_SECONDS)
        finally:
            paying.cancel()
            await asyncio.gather(paying, return_exceptions=True)
        last = await chain.slot()
        await _until(
            followers, lambda one: (one.final or 0) >= last, "not all followers know the last slot to be final"
        )
        wanted = await chain.updates(first, last)
        others = set(followers) - set(broken)
        untouched_ends = sum(len(one.ends) - before[one] for one in others)
        found = [differences(one, wanted, first, last) for one in followers]
        return Told(
            streams=len(followers),
            broken=len(broken),
            untouched_ends=untouched_ends,
            back_seconds=round(back, 1),
            missing=sum(missing for missing, _ in found),
            extra=sum(extra for _, extra in found),
            repeated=sum(one.repeated for one in followers),
            credits=await self._credits(),
            told=sum(one.told + one.told_here for one in followers),
            begun=sum(one.begun for one in followers),
            first_slot=first,
            last_slot=last,
            ends=dict(Counter(end[:80] for one in followers for end in one.ends)),
        )

    async def _credits(self) -> int:
        """Return the credits of the ledger for streams that began."""
        return await asyncio.to_thread(spent, self._product.http_url, self._key, "grpc/Subscribe")


def spent(http_url: str, api_key: str, method: str) -> int:
    """Return the credits that the account has paid for one method, by its ledger."""
    total, offset = 0, 0
    while True:
        url = f"{http_url}/account/history?limit=500&offset={offset}"
        call = urllib.request.Request(url, headers={"X-Api-Key": api_key})
        with urllib.request.urlopen(call, timeout=30) as answer:
            entries: list[dict[str, Any]] = json.loads(answer.read())["entries"]
        total += sum(int(one["credits"]) for one in entries if one.get("method") == method)
        offset += len(entries)
        if len(entries) < 500:
            return total


async def _pay(http: httpx.AsyncClient, node: str) -> None:
    while True:
        body = {"pubkey": str(Keypair().pubkey()), "lamports": 2_000_000, "usdc_base_units": 0}
        (await http.post(f"{node}/admin/fund", json=body)).raise_for_status()
        await asyncio.sleep(_PAY_SECONDS)


async def _until(followers: list[Follower], holds: Callable[[Follower], bool], failure: str) -> None:
    def check() -> None:
        for one in followers:
            if one.ended is not None:
                raise one.ended

    await until_all(followers, holds, failure, check)
