"""Makes events on the chain while clients of streams follow it: transfers to wallets, and new coins.

It notes the events that each client must receive. Not here: the clients.
"""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.stream_checks.waiting import until_all

_FUND_SECONDS, _LAUNCH_SECONDS = 0.15, 1.0


@dataclass
class Driver:
    """Pays into the wallets and launches coins, and notes both."""

    node_url: str
    wallets: list[str]
    http: httpx.AsyncClient
    signatures: dict[str, list[str]] = field(default_factory=dict)
    launched: dict[str, float] = field(default_factory=dict)
    is_over: bool = False  # No new transfer or coin is started; those under way are still noted.

    async def fund(self, wallet: str) -> None:
        body = {"pubkey": wallet, "lamports": random.randrange(1_000_000, 2_000_000)}
        answer = (await self.http.post(f"{self.node_url}/admin/fund", json=body)).raise_for_status().json()
        self.signatures.setdefault(wallet, []).extend(answer["signatures"])

    async def launch(self) -> str:
        answer = (await self.http.post(f"{self.node_url}/admin/launch", json={})).raise_for_status().json()
        self.launched[answer["mint"]] = time.monotonic()
        return str(answer["mint"])

    async def run(self) -> None:
        async def every(seconds: float, act: Any) -> None:
            while not self.is_over:
                await act()
                await asyncio.sleep(seconds)

        await asyncio.gather(
            every(_FUND_SECONDS, lambda: self.fund(random.choice(self.wallets))), every(_LAUNCH_SECONDS, self.launch)
        )

    async def launches(self, count: int, check: Callable[[], None]) -> None:
        """Wait until this many further coins were launched."""
        wanted = len(self.launched) + count
        await until_all(range(count), lambda one: len(self.launched) >= wanted - one, "no coins were launched", check)

    async def lamports(self, wallet: str) -> int:
        call = {"jsonrpc": "2.0", "id": 1, "method": "getBalance", "params": [wallet, {"commitment": "confirmed"}]}
        return int((await self.http.post(self.node_url, json=call)).json()["result"]["value"])
