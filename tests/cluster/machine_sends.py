"""Clients of several machines that send small transfers by sendAndConfirm, each under an Idempotency-Key of its own."""

import asyncio
import base64
import contextlib
import json
import os
import time
from collections.abc import Sequence
from typing import Any

import aiohttp
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from tests.cluster.machine_clients import AGAIN, Calling

_TIMEOUT_SECONDS = 40.0  # A race takes 12 s at most, and its preparation some more.
_OUTCOME_SECONDS = 75.0  # A replica that was killed has its keys for up to 60 s.
_LOOK_SECONDS, _BLOCKHASH_SECONDS = 1.0, 5.0
_IN_USE = 409
_LAMPORTS = 2_000_000
_BASE_CREDITS = 2
_TEXT = {"Content-Type": "application/json"}


class Senders(Calling):
    """Sends transfers, and asks again with the same key until the outcome of each is known."""

    def __init__(
        self, urls: Sequence[str], api_key: str, chain_url: str, payer: Keypair, sends_per_second: float
    ) -> None:
        super().__init__(len(urls), sends_per_second)
        self._urls, self._chain_url, self._payer = list(urls), chain_url, payer
        self._headers = {"X-Api-Key": api_key, **_TEXT}
        self._run, self._sent = os.urandom(6).hex(), dict[int, str]()
        self._credits: dict[int, int] = {}  # By the number of the send, as the answers say.
        self.landed: set[str] = set()  # Signatures.

    @property
    def credits(self) -> int:
        return sum(self._credits.values())

    @property
    def not_told(self) -> int:
        """Return how many credits sends without an outcome may cost: one that is proven not to have landed costs its
        base price, which takes minutes after its blockhash has expired."""
        return _BASE_CREDITS * len(self._sent.keys() - self._credits.keys())

    async def _open(self, stack: contextlib.AsyncExitStack) -> None:
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS, sock_connect=2.0)
        self._session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        await self._look()
        stack.callback(asyncio.create_task(self._keep_looking()).cancel)

    async def _look(self) -> None:
        call = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "getLatestBlockhash"})
        async with self._session.post(self._chain_url, data=call, headers=_TEXT) as answer:
            self._blockhash = Hash.from_string((await answer.json())["result"]["value"]["blockhash"])

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(_BLOCKHASH_SECONDS)
            await self._look()

    def _transfer(self) -> str:
        given = TransferParams(from_pubkey=self._payer.pubkey(), to_pubkey=Pubkey(os.urandom(32)), lamports=_LAMPORTS)
        message = MessageV0.try_compile(self._payer.pubkey(), [transfer(given)], [], self._blockhash)
        return base64.b64encode(bytes(VersionedTransaction(message, [self._payer]))).decode()

    async def _ask(self, machine: int, number: int) -> str | None:
        if number not in self._sent:
            self._sent[number] = self._transfer()
        deadline = time.monotonic() + _OUTCOME_SECONDS
        while True:
            status, found = await self._post(machine, number)
            result = found.get("result", {})
            if result.get("status", "unknown") != "unknown":
                self._credits[number] = int(result["charged_credits"])
            if result.get("status") in ("confirmed", "failed"):
                self.record.answered += 1
                if result["status"] == "confirmed":
                    self.landed.add(result["signature"])
                return None if result["status"] == "confirmed" else "final failed on the chain"
            if status in AGAIN:
                return str(status)
            if status == 0:
                return str(found["error"])
            if status != _IN_USE and result.get("status") != "unknown":
                return f"final {status} {found}"
            if time.monotonic() > deadline:
                return f"final no outcome: {found}"
            await asyncio.sleep(_LOOK_SECONDS)

    async def _end(self) -> None:
        """A send goes on without the client that gave it up, and is charged: its key tells how it ended."""
        await asyncio.gather(*(self._ask(0, number) for number in self._sent.keys() - self._credits.keys()))

    async def _post(self, machine: int, number: int) -> tuple[int, dict[str, Any]]:
        """Return status and body; 0 and the error's name where the connection broke."""
        call = {"jsonrpc": "2.0", "id": number, "method": "sendAndConfirm", "params": [self._sent[number]]}
        call["params"].append({"encoding": "base64"})  # type: ignore[attr-defined]
        headers = {**self._headers, "Idempotency-Key": f"{self._run}-{number}"}
        try:
            async with self._session.post(self._urls[machine], data=json.dumps(call), headers=headers) as answer:
                return answer.status, await answer.json(content_type=None)
        except (aiohttp.ClientError, ValueError, OSError, TimeoutError) as error:
            return 0, {"error": type(error).__name__}
