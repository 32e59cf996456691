"""Guards the demo account: made through the real door's rules, from a wallet's own signature."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from actors.calls import WalletProof
from actors.clock import SystemClock
from actors.config import IdentityConfig
from actors.identity.credentials import Accept, prove
from actors.launch.local_run import demo
from actors.launch.local_run.wallets import Wallet

WALLET = Wallet(bytes(range(32)))


@pytest.fixture
async def door() -> AsyncIterator[str]:
    """A door that proves signatures by the real rules and knows one key."""

    refused = []

    async def api_key(request: web.Request) -> web.Response:
        if len(refused) < 2:
            refused.append(request)
            return web.json_response({"error": "nonces may have been lost"}, status=503)
        headers = [(name.lower().encode(), value.encode()) for name, value in request.headers.items()]
        body = await request.read()
        proof = prove(
            headers, b"", "POST", request.path.encode(), body, SystemClock().now(), IdentityConfig(), Accept.WALLET
        )
        if not isinstance(proof, WalletProof):
            return web.json_response({"error": str(proof)}, status=401)
        return web.json_response({"ok": True, "api_key": "srpc_live_made", "message": ""})

    async def info(request: web.Request) -> web.Response:
        return web.json_response({}, status=200 if request.headers["X-Api-Key"] == "srpc_live_made" else 401)

    app = web.Application()
    app.add_routes([web.post("/account/api-key", api_key), web.get("/account/info", info)])
    async with TestServer(app) as server:
        yield str(server.make_url("")).rstrip("/")


async def test_the_key_is_asked_for_as_any_customer_would(door: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: the demo uses nothing that a customer could not; its signature passes the real check. While signed requests
    are refused it signs again, and waits for it."""
    monkeypatch.setattr(demo, "_PAUSE_SECONDS", 0.002)
    assert await demo.issue_api_key(door, WALLET) == "srpc_live_made"


async def test_a_kept_key_is_tried_before_it_is_printed(door: str) -> None:
    """Rule: a second start prints a key that works."""
    assert await demo.key_works(door, "srpc_live_made")
    assert not await demo.key_works(door, "srpc_live_old")


async def test_a_refusal_is_told_with_the_answer(door: str) -> None:
    """Rule: every error says what went wrong."""
    with pytest.raises(demo.DemoFailed, match="404"):
        await demo.issue_api_key(door + "/nowhere", WALLET)
