"""Makes the demo account of a local run: funds its wallet on the embedded chain and opens the account over HTTP.

Implements: the local run's promise of a first call that works as printed. It uses only what a customer can use, except
for the granted credits, which are an operator's command (run.py).
"""

import asyncio
import hashlib
from typing import Any

import aiohttp
import orjson

from actors.clock import SystemClock
from actors.launch.local_run.wallets import Wallet

DEMO_CREDITS = 1_000_000
DEMO_LAMPORTS = 10_000_000_000
DEMO_USDC_BASE_UNITS = 100_000_000
_SECONDS = aiohttp.ClientTimeout(total=15)
_UNAVAILABLE = 503
_TRIES_MAX, _PAUSE_SECONDS = 24, 5.0  # A 503 has 5 s in Retry-After; two minutes in all.


class DemoFailed(Exception):
    """The demo account could not be made; the text names the step and the service's answer."""


async def fund(admin_url: str, wallet: Wallet) -> None:
    """Give the demo wallet SOL and USDC from the embedded chain's faucet, once."""
    body = {"pubkey": wallet.pubkey, "lamports": DEMO_LAMPORTS, "usdc_base_units": DEMO_USDC_BASE_UNITS}
    async with aiohttp.ClientSession(timeout=_SECONDS) as session:
        balance = await _post(
            session,
            admin_url,
            {"jsonrpc": "2.0", "id": 1, "method": "getBalance", "params": [wallet.pubkey, {"commitment": "processed"}]},
        )
        if balance.get("result", {}).get("value", 0) == 0:
            await _post(session, f"{admin_url}/admin/fund", body)


async def issue_api_key(http_url: str, wallet: Wallet) -> str:
    """Request an API key with the wallet's signature, as a customer would, and return it.

    For a minute and a half after Redis has lost its data signed requests are refused, so the request is signed and sent
    again until it is accepted.
    """
    async with aiohttp.ClientSession(timeout=_SECONDS) as session:
        for _ in range(_TRIES_MAX):
            status, text = await _ask_for_key(session, http_url, wallet)
            if status != _UNAVAILABLE:
                break
            await asyncio.sleep(_PAUSE_SECONDS)
    if status != 200:
        raise DemoFailed(f"opening the demo account: HTTP {status}: {text[:500]}")
    return str(orjson.loads(text)["api_key"])


async def _ask_for_key(session: aiohttp.ClientSession, http_url: str, wallet: Wallet) -> tuple[int, str]:
    clock = SystemClock()
    path, body, timestamp = "/account/api-key", b"{}", clock.now()
    nonce = f"demo-{clock.now_ms()}"
    message = f"ledger-svc:v2:POST:{path}:{timestamp}:{nonce}:{hashlib.sha256(body).hexdigest()}"
    headers = {
        "X-Pubkey": wallet.pubkey,
        "X-Signature": wallet.sign(message.encode()),
        "X-Timestamp": str(timestamp),
        "X-Nonce": nonce,
        "Content-Type": "application/json",
    }
    async with session.post(http_url + path, data=body, headers=headers) as response:
        return response.status, await response.text()


async def key_works(http_url: str, api_key: str) -> bool:
    """Return whether the API key of an earlier start is still valid."""
    async with (
        aiohttp.ClientSession(timeout=_SECONDS) as session,
        session.get(f"{http_url}/account/info", headers={"X-Api-Key": api_key}) as response,
    ):
        return response.status == 200


async def _post(session: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> dict[str, Any]:
    async with session.post(url, json=body) as response:
        text = await response.text()
        answer: dict[str, Any] = orjson.loads(text) if response.status == 200 else {"error": text[:500]}
        if "error" in answer:
            raise DemoFailed(f"{url}: HTTP {response.status}: {answer['error']}")
        return answer
