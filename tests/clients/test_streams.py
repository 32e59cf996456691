"""Unmodified clients subscribe through the gateway: web3.js, kit and solana-py, with nothing but the URL and a key."""

import asyncio
from pathlib import Path

from solana.rpc.async_api import AsyncClient
from solana.rpc.commitment import Confirmed
from solana.rpc.websocket_api import SolanaWsClient
from solders.keypair import Keypair

from bench.product import Product
from tests.clients.test_solana_py import transfer_through
from tests.npm import Npm

LAMPORTS = 2_000_000
_HERE = Path(__file__).parent


def _settings(product: Product) -> dict[str, str]:
    key = f"api-key={product.api_key}"
    return {
        "RPC_URL": f"{product.http_url}/?{key}",
        "WS_URL": f"{product.ready['ws_url']}?{key}",
        "SECRET_KEY": str(product.ready["secret_key"]),
        "LAMPORTS": str(LAMPORTS),
    }


def test_web3js_confirms_by_subscription(product: Product, npm: Npm) -> None:
    """sendAndConfirmTransaction, onAccountChange and onSlotChange; the client itself goes to the next port."""
    found = npm.run(_HERE / "web3_streams.mjs", _settings(product))
    assert found["lamports"] == LAMPORTS and found["signature"] and found["slots"] > 0 and found["sorted"]


def test_kit_confirms_by_subscription(product: Product, npm: Npm) -> None:
    """accountNotifications, slotNotifications and sendAndConfirmTransactionFactory."""
    found = npm.run(_HERE / "kit_streams.mjs", _settings(product))
    assert found["lamports"] == LAMPORTS and found["signature"] and found["slot"] > 0


async def test_solana_py_subscribes(product: Product) -> None:
    """Its own client, with the key in a header; the events of a transfer come."""
    sender = Keypair.from_base58_string(product.ready["secret_key"])
    headers = {"X-Api-Key": product.api_key}
    client = SolanaWsClient(str(product.ready["ws_url"]), additional_headers=headers)
    async with client, asyncio.timeout(60):
        await client.account_subscribe(pubkey=sender.pubkey(), commitment=Confirmed)
        await client.slot_subscribe()
        async with AsyncClient(product.http_url, extra_headers=headers) as rpc:
            assert await transfer_through(rpc, sender) == LAMPORTS
        kinds: set[str] = set()
        while kinds != {"AccountNotification", "SlotNotification"}:
            kinds |= {type(said).__name__ for said in _listed(await client.recv())}


def _listed(said: object) -> list[object]:
    return list(said) if isinstance(said, list | tuple) else [said]
