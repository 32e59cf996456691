"""@solana/kit, unmodified, through the gateway: a full transfer from node."""

from pathlib import Path

import pytest

from bench.product import Product
from tests.npm import Npm

LAMPORTS = 2_000_000
_TRANSFER = Path(__file__).parent / "kit_transfer.mjs"


@pytest.mark.parametrize("key_in", ["header", "url"])
def test_transfer(product: Product, npm: Npm, key_in: str) -> None:
    """Blockhash, sign, send, status, balance; the key goes where the client can put it."""
    before = product.account()["total_consumed_credits"]
    in_header = key_in == "header"
    settings = {
        "RPC_URL": product.http_url if in_header else f"{product.http_url}/?api-key={product.api_key}",
        "RPC_API_KEY": product.api_key if in_header else "",
        "SECRET_KEY": str(product.ready["secret_key"]),
        "LAMPORTS": str(LAMPORTS),
    }
    found = npm.run(_TRANSFER, settings)
    assert found["sent"] == found["signature"]
    assert found["status"] in ("confirmed", "finalized")
    assert found["balance"] == LAMPORTS
    # At least: blockhash 1, send 2, one status 1, balance 1.
    assert product.account()["total_consumed_credits"] - before >= 5
