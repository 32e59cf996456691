"""@solana/kit, unmodified, through the gateway: a full transfer from node."""

from pathlib import Path

import pytest

from bench.product import Product
from tests.npm import Npm

LAMPORTS = 2_000_000
_TRANSFER, _PREFLIGHT = (Path(__file__).parent / name for name in ("kit_transfer.mjs", "kit_preflight.mjs"))


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


def test_a_failed_preflight_is_decoded_as_the_nodes(product: Product, npm: Npm) -> None:
    """The client's own error class, with the program's error as its cause and the logs in its context."""
    settings = {
        "RPC_URL": product.http_url,
        "RPC_API_KEY": product.api_key,
        "NODE_URL": str(product.ready["node_url"]),
        "SECRET_KEY": str(product.ready["secret_key"]),
    }
    found = npm.run(_PREFLIGHT, settings)
    assert found["gateway"] == found["node"]
    assert found["gateway"]["known"] is True and found["gateway"]["cause"] is not None
    assert any("insufficient lamports" in line for line in found["gateway"]["context"]["logs"])
